/** Percentiles by zone over the budgets of the same calls, on one logarithmic scale of time. */
import { count, ms, percent } from "./format";
import type { Latency, Zone } from "./types";
import { useWidth } from "./width";

const FROM_MS = 1;
const TO_MS = 60_000;
const TICKS = [1, 10, 100, 1000, 10_000];
const NAMES = { onprem: "on-prem", cloud: "cloud" } as const;

export function LatencyView({ latency }: { latency: Latency }) {
  const [ref, width, unit] = useWidth<HTMLDivElement>();
  const height = Math.round(150 * unit);
  const names = 62 * unit;
  const foot = height - 18 * unit;
  const zones = ["onprem", "cloud"] as const;
  const x = (value: number) => {
    const share = Math.log(Math.min(TO_MS, Math.max(FROM_MS, value)) / FROM_MS) / Math.log(TO_MS / FROM_MS);
    return names + share * (width - names - 8);
  };
  const { steps_ms: steps, calls } = latency.budgets;
  const most = Math.max(1, ...calls);
  return (
    <section class="panel" aria-labelledby="latency">
      <h2 id="latency">
        Latency against budgets <small>last {latency.window_s} s</small>
      </h2>
      <p id="in-time">
        {latency.answered
          ? `${percent(latency.in_time / latency.answered)} of ${count(latency.answered)} answers were within their latency budgets.`
          : "No answers lately."}
      </p>
      <div class="drawing" ref={ref}>
        {width > 0 && (
          <svg class="latency" width={width} height={height} aria-hidden="true">
            {TICKS.map((tick) => (
              <g key={tick}>
                <path class="grid" d={`M${x(tick)},0 V${foot}`} />
                <text x={x(tick)} y={height - 4} text-anchor="middle" class="note">
                  {ms(tick)}
                </text>
              </g>
            ))}
            {calls.map((n, at) => {
              const from = at === 0 ? FROM_MS : steps[at - 1]!;
              const to = steps[at] ?? TO_MS * 1.5;
              const tall = (n / most) * 40 * unit;
              return n > 0 ? (
                <rect
                  key={at}
                  class="budget"
                  x={x(from) + 1}
                  y={foot - tall}
                  width={Math.max(3, x(to) - x(from) - 2)}
                  height={tall}
                />
              ) : null;
            })}
            <text x="0" y={foot - 16 * unit} class="label">
              budgets
            </text>
            {zones.map((zone, at) => (
              <Line key={zone} zone={zone} latency={latency} y={(20 + at * 34) * unit} x={x} />
            ))}
          </svg>
        )}
      </div>
      <table>
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">of</span>
            </th>
            {["p50", "p95", "p99"].map((name) => (
              <th scope="col" class="number" key={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {zones.map((zone) => (
            <Row key={zone} name={NAMES[zone]} of={latency.zones[zone] ?? null} />
          ))}
          <Row name="budgets" of={latency.budgets} />
        </tbody>
      </table>
    </section>
  );
}

interface LineProps {
  zone: Zone;
  latency: Latency;
  y: number;
  x: (ms: number) => number;
}

function Line({ zone, latency, y, x }: LineProps) {
  const of = latency.zones[zone];
  return (
    <g class={`quantiles ${zone}`}>
      <text x="0" y={y + 4} class="label">
        {NAMES[zone]}
      </text>
      {of && of.p50 !== null && of.p95 !== null && of.p99 !== null && (
        <>
          <path class="range" d={`M${x(of.p50)},${y} H${x(of.p99)}`} />
          <circle cx={x(of.p50)} cy={y} r="5" />
          <rect x={x(of.p95) - 4.5} y={y - 4.5} width="9" height="9" />
          <path class="end" d={`M${x(of.p99)},${y - 8} V${y + 8}`} />
        </>
      )}
    </g>
  );
}

function Row({ name, of }: { name: string; of: { p50: number | null; p95: number | null; p99: number | null } | null }) {
  return (
    <tr>
      <th scope="row">{name}</th>
      <td class="number">{ms(of?.p50 ?? null)}</td>
      <td class="number">{ms(of?.p95 ?? null)}</td>
      <td class="number">{ms(of?.p99 ?? null)}</td>
    </tr>
  );
}
