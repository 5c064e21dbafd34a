/** A button that wants to be pressed twice: what it does is felt by every caller. */
import { useEffect, useState } from "preact/hooks";

const PATIENCE_MS = 5000;

interface Props {
  label: string;
  sure: string; // on the second press
  name: string; // in full, for those who do not see the row
  disabled: boolean;
  act: () => Promise<unknown>;
  say: (text: string) => void;
  done: string;
}

export function Twice({ label, sure, name, disabled, act, say, done }: Props) {
  const [armed, arm] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  useEffect(() => {
    if (!armed) return;
    const timer = setTimeout(() => arm(false), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [armed]);

  const press = async () => {
    if (!armed) {
      arm(true);
      say(`Press again to ${name}`);
      return;
    }
    arm(false);
    setBusy(true);
    setFailed("");
    try {
      await act();
      say(done);
    } catch (error) {
      setFailed((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <button
        type="button"
        class={armed ? "armed" : ""}
        disabled={disabled || busy}
        aria-label={armed ? `Press again to ${name}` : name}
        onClick={press}
      >
        {armed ? sure : label}
      </button>
      {failed && (
        <span role="alert" class="bad">
          {failed}
        </span>
      )}
    </>
  );
}
