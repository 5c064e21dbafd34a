import type { Status } from "./connection";
import { useTheme } from "./theme";
import type { Operator, Sections } from "./types";

const TOLD: Record<Status, string> = {
  live: "live",
  connecting: "connecting",
  lost: "stale",
  "key-needed": "key needed",
  refused: "refused",
};
const MARKS: Record<Status, string> = {
  live: "●",
  connecting: "◌",
  lost: "▲",
  "key-needed": "■",
  refused: "✕",
};

interface Props {
  gateway: Sections["gateway"] | null;
  status: Status;
  operator: Operator | null;
  signOut: (() => void) | null;
}

export function Header({ gateway, status, operator, signOut }: Props) {
  const [theme, turn] = useTheme();
  return (
    <header>
      <h1>
        <img src="/console/files/icon.svg" alt="" width="28" height="28" /> Spillway
      </h1>
      <p class={`connection ${status}`} id="connection">
        <span aria-hidden="true">{MARKS[status]}</span> {TOLD[status]}
      </p>
      {gateway && (
        <p class="facts">
          {gateway.draining && <strong>stopping · </strong>}
          {gateway.in_flight} in flight · policy <code>{gateway.policy}</code> ·{" "}
          {gateway.version}
        </p>
      )}
      <p class="right">
        {operator && (
          <span class="facts">
            {operator.development ? "development mode" : operator.name}
            {operator.operates ? "" : ", looking only"}
          </span>
        )}
        {signOut && (
          <button type="button" onClick={signOut}>
            Sign out
          </button>
        )}
        <button type="button" id="theme" onClick={turn}>
          Theme: {theme}
        </button>
      </p>
    </header>
  );
}
