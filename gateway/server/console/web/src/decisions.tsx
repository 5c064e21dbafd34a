/**
 * The tail of decisions. One stop of the Tab key: arrows move within, Enter explains. While it is
 * pointed at or focused the list stands still, so that nobody clicks on another call.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import { Explained } from "./explained";
import { clock, ms, ZONES } from "./format";
import type { Decision, Explanation } from "./types";

const SHOWN = 60;
const MARKS = { onprem: "▣", cloud: "☁", none: "✕" } as const;
const WANTED: Record<string, (decision: Decision) => boolean> = {
  all: () => true,
  restricted: (d) => d.sensitivity !== "clear",
  cloud: (d) => d.zone === "cloud",
  "not answered": (d) => d.zone === "none",
  "tried again": (d) => d.tries > 1,
};

interface Props {
  decisions: Decision[];
  explain: (decision: string) => Promise<Explanation>;
}

export function Decisions({ decisions, explain }: Props) {
  const [wanted, want] = useState("all");
  const [held, hold] = useState<Decision[] | null>(null);
  const [at, setAt] = useState<string | null>(null); // the row that Tab leads to
  const [open, setOpen] = useState<string | null>(null);
  const list = useRef<HTMLOListElement>(null);

  const rows = (held ?? decisions).filter(WANTED[wanted]!).slice(0, SHOWN);
  const since = held?.[0]?.time ?? 0;
  const newer = held === null ? 0 : decisions.filter((decision) => decision.time > since).length;
  const current = rows.some((row) => row.decision === at) ? at : (rows[0]?.decision ?? null);

  const move = (event: KeyboardEvent) => {
    const from = rows.findIndex((row) => row.decision === current);
    const to = { ArrowDown: from + 1, ArrowUp: from - 1, Home: 0, End: rows.length - 1 }[event.key];
    const row = to === undefined ? undefined : rows[Math.max(0, Math.min(rows.length - 1, to))];
    if (!row) return;
    event.preventDefault();
    setAt(row.decision);
    list.current?.querySelector<HTMLElement>(`[data-decision="${row.decision}"]`)?.focus();
  };
  const letGo = () => {
    if (!list.current?.matches(":hover, :focus-within")) hold(null);
  };
  useEffect(() => {
    if (open === null) letGo();
  }, [open]);

  return (
    <section class="panel wide" aria-labelledby="decisions">
      <div class="line">
        <h2 id="decisions" tabIndex={-1}>
          Decisions <small>newest first; press one to see why</small>
        </h2>
        <label>
          show{" "}
          <select value={wanted} onChange={(event) => want(event.currentTarget.value)}>
            {Object.keys(WANTED).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <p class="facts" id="held">
          {newer > 0 ? `${newer} newer, the list stands still while you are in it` : ""}
        </p>
      </div>
      {rows.length === 0 && <p class="empty">None yet.</p>}
      <ol
        class="decisions"
        ref={list}
        onKeyDown={move}
        onMouseEnter={() => hold((old) => old ?? decisions)}
        onMouseLeave={() => setTimeout(letGo)}
        onFocusIn={() => hold((old) => old ?? decisions)}
        onFocusOut={() => setTimeout(letGo)}
      >
        {rows.map((row) => (
          <li key={row.decision}>
            <button
              type="button"
              data-decision={row.decision}
              tabIndex={row.decision === current ? 0 : -1}
              class={`decision ${row.zone} ${row.sensitivity ?? "restricted"}`}
              aria-haspopup="dialog"
              onFocus={() => setAt(row.decision)}
              onClick={() => setOpen(row.decision)}
            >
              <span class="when">{clock(row.time)}</span>
              <span class="model">{row.model}</span>
              <span class="class">
                <i class={`swatch ${row.sensitivity ?? "restricted"}`} aria-hidden="true" />
                {row.sensitivity ?? "unread"}
              </span>
              <span class="zone">
                <span aria-hidden="true">{MARKS[row.zone]} </span>
                {row.endpoint ?? ZONES[row.zone]}
              </span>
              <span class="why">{row.words}</span>
              <span class="took">{row.outcome === "sent" ? "under way" : ms(row.took_ms)}</span>
            </button>
          </li>
        ))}
      </ol>
      {open !== null && (
        <Explained
          decision={open}
          explain={explain}
          close={() => {
            setOpen(null);
            list.current?.querySelector<HTMLElement>(`[data-decision="${open}"]`)?.focus();
          }}
        />
      )}
    </section>
  );
}
