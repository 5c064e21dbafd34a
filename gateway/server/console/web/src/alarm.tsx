import { count, percent, perS } from "./format";
import type { Sections } from "./types";

type Props = Pick<Sections, "alarm" | "counts" | "flow">;

export function Alarm({ alarm, counts, flow }: Props) {
  const leaked = alarm.restricted_in_cloud;
  const calls = counts.reduce((sum, one) => sum + one.calls, 0);
  const inCloud = counts.reduce((sum, one) => sum + (one.zone === "cloud" ? one.calls : 0), 0);
  const missed = counts.reduce((sum, one) => sum + (one.zone === "none" ? one.calls : 0), 0);
  const rate = flow.paths.reduce((sum, path) => sum + path.per_s, 0);
  return (
    <section class="tiles" aria-label="At a glance">
      <div class={`tile promise ${leaked ? "broken" : "kept"}`} id="promise" role="status">
        <span class="mark" aria-hidden="true">
          {leaked ? "✕" : "✓"}
        </span>
        <span class="figure">{count(leaked)}</span>
        <span class="label">
          restricted calls in the cloud{" "}
          of {count(alarm.restricted)}
        </span>
        {alarm.stopped_at_door > 0 && (
          <span class="label warn">
            <span aria-hidden="true">▲ </span>
            {count(alarm.stopped_at_door)} stopped at the door: a bug, nothing was sent
          </span>
        )}
      </div>
      <Tile id="rate" figure={perS(rate)} label={`calls, last ${Math.round(flow.window_s)} s`} />
      <Tile id="total" figure={count(calls)} label="calls since the start" />
      <Tile
        id="share"
        figure={calls ? percent(inCloud / calls) : "–"}
        label={`went to the cloud (${count(inCloud)})`}
      />
      <Tile id="missed" figure={count(missed)} label="not answered" />
    </section>
  );
}

function Tile({ id, figure, label }: { id: string; figure: string; label: string }) {
  return (
    <div class="tile" id={id}>
      <span class="figure">{figure}</span>
      <span class="label">{label}</span>
    </div>
  );
}
