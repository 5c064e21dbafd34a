/** Each model's on-prem servers as a reservoir: it spills where the wait is as long as budgets. */
import { ms } from "./format";
import type { Pool } from "./types";

const SCALE = 1.25; // of the spill point: what overflows is still to be seen

export function Pools({ pools }: { pools: Pool[] }) {
  const shown = [...pools].sort(
    (a, b) =>
      Number(b.out) - Number(a.out) ||
      Math.floor(Math.min(1, b.level) * 3) - Math.floor(Math.min(1, a.level) * 3) ||
      a.model.localeCompare(b.model) ||
      a.servers.length - b.servers.length,
  );
  return (
    <section class="panel" aria-labelledby="pools">
      <h2 id="pools">On-prem reservoirs</h2>
      {shown.length === 0 && <p class="empty">No model has been called yet.</p>}
      <ul class="pools">
        {shown.map((pool) => (
          <Reservoir key={`${pool.model} ${pool.servers.join()}`} pool={pool} />
        ))}
      </ul>
    </section>
  );
}

function Reservoir({ pool }: { pool: Pool }) {
  const level = Math.min(SCALE, pool.level);
  const state = pool.out ? "out" : pool.level >= 1 ? "over" : pool.level >= 0.7 ? "high" : "low";
  const told = {
    out: "no server takes calls",
    over: pool.spills ? "over the spill point" : "slower than budgets",
    high: pool.spills ? "near the spill point" : "near its budgets",
    low: "has room",
  }[state];
  const top = 100 - (100 * level) / SCALE;
  return (
    <li class={`pool ${state}`}>
      <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
        <rect class="tank" x="0" y="0" width="100" height="100" />
        {pool.out ? (
          <path class="cross" d="M0,0 L100,100 M100,0 L0,100" />
        ) : (
          <rect class="water" x="0" y={top} width="100" height={100 - top} />
        )}
        <path class="spill" d={`M0,${100 - 100 / SCALE} H100`} />
      </svg>
      <div>
        <h3>
          {pool.model} <small>on {pool.servers.join(", ")}</small>
        </h3>
        <p>
          <strong>
            {{ out: "✕ ", over: "▲ ", high: "◆ ", low: "● " }[state]}
            {told}
          </strong>
        </p>
        <p>
          {pool.predicted_ms !== null && <>next answer in {ms(pool.predicted_ms)}; </>}
          {pool.spills ? "spills from" : "budgets from"} {ms(pool.spills_at_ms)}
        </p>
        <p>
          {pool.waiting} waiting, {pool.in_flight} with the server
        </p>
      </div>
    </li>
  );
}
