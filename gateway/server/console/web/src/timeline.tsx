/** Calls a second by where they went, for the last two minutes. */
import { useWidth } from "./width";
import type { Sections } from "./types";

const KINDS = ["onprem", "cloud", "none"] as const;
const NAMES = { onprem: "on-prem", cloud: "cloud", none: "not answered" };

export function Timeline({ timeline }: Pick<Sections, "timeline">) {
  const [ref, width, unit] = useWidth<HTMLDivElement>();
  const height = Math.round(110 * unit);
  const steps = timeline.onprem.length;
  const sums = timeline.onprem.map((n, at) => n + timeline.cloud[at]! + timeline.none[at]!);
  const most = Math.max(1, ...sums);
  const bar = width / Math.max(1, steps);
  const y = (calls: number) => (calls / most) * (height - 16 * unit);
  const minutes = Math.round((steps * timeline.step_s) / 60);
  return (
    <section class="panel wide" aria-labelledby="timeline">
      <h2 id="timeline">
        Where calls went <small>last {minutes} min</small>
      </h2>
      <ul class="legend" aria-hidden="true">
        {KINDS.map((kind) => (
          <li key={kind}>
            <i class={`swatch ${kind}`} /> {NAMES[kind]}
          </li>
        ))}
      </ul>
      <div class="drawing" ref={ref}>
        <svg
          class="timeline"
          width={width}
          height={height}
          role="img"
          aria-label={`In the last ${minutes} minutes: ${KINDS.map((k) => `${timeline[k].reduce((a, b) => a + b, 0)} ${NAMES[k]}`).join(", ")}.`}
        >
          <defs>
            <pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse">
              <rect width="5" height="5" class="dots-ground" />
              <circle cx="2.5" cy="2.5" r="1.2" class="dots-mark" />
            </pattern>
          </defs>
          {sums.map((_, at) => {
            let base = height;
            return KINDS.map((kind) => {
              const tall = y(timeline[kind][at]!);
              base -= tall;
              return tall > 0 ? (
                <rect
                  key={`${kind} ${at}`}
                  class={kind}
                  x={at * bar + 0.5}
                  y={base}
                  width={Math.max(1, bar - 1)}
                  height={tall}
                />
              ) : null;
            });
          })}
          <text x={width} y={11 * unit} text-anchor="end" class="note">
            most {Math.round((10 * most) / timeline.step_s) / 10}/s
          </text>
        </svg>
      </div>
    </section>
  );
}
