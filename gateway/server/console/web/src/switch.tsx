import { Twice } from "./twice";

interface Props {
  state: { available: boolean; on: boolean };
  operates: boolean;
  act: (on: boolean) => Promise<unknown>;
  say: (text: string) => void;
}

export function Switch({ state, operates, act, say }: Props) {
  return (
    <div class={`switch ${state.on ? "on" : ""}`} id="switch">
      <p>
        <strong>{state.on ? "■ Spilling is stopped." : "● Clear calls may leave."}</strong>{" "}
        {state.on
          ? "Nothing goes to the cloud until it is let go."
          : state.available
            ? "The kill switch keeps everything on the premises."
            : "There is no kill switch: routing.spill_stop_file names no file."}
      </p>
      {state.available && (
        <Twice
          label={state.on ? "Let spill again" : "Stop spilling"}
          sure={state.on ? "Sure? Let spill" : "Sure? Stop"}
          name={state.on ? "let clear calls spill again" : "stop spilling to the cloud"}
          done={state.on ? "Clear calls may leave again" : "Spilling is stopped"}
          disabled={!operates}
          act={() => act(!state.on)}
          say={say}
        />
      )}
    </div>
  );
}
