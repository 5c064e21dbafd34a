import { percent, usd } from "./format";
import type { Spend } from "./types";

export function SpendView({ spend }: { spend: Spend }) {
  const used = spend.spent_usd + spend.reserved_usd;
  const share = spend.budget_usd === null ? null : used / Math.max(spend.budget_usd, 1e-9);
  return (
    <section class="panel" aria-labelledby="spend">
      <h2 id="spend">
        Cloud spend <small>{spend.period}</small>
      </h2>
      <p class="big">
        {usd(spend.spent_usd)}
        {spend.budget_usd !== null && <small> of {usd(spend.budget_usd)}</small>}
      </p>
      {share === null ? (
        <p>No budget is set (routing.spill_budget_usd_per_day).</p>
      ) : (
        <>
          <meter min={0} max={1} high={0.9} value={Math.min(1, share)} aria-label="budget used">
            {percent(share)}
          </meter>
          <p>
            {percent(share)} used{spend.reserved_usd > 0 && `, ${usd(spend.reserved_usd)} of it under way`}
            {share >= 1 && <strong> ▲ used up: clear calls stay on the premises</strong>}
          </p>
        </>
      )}
      {spend.saved_usd === null ? (
        <p class="facts">Against all-cloud: not known without a ledger.</p>
      ) : (
        <p>
          Against all-cloud, GPU time included, today (UTC):{" "}
          {spend.saved_usd < 0 ? `${usd(-spend.saved_usd)} more` : `saved ${usd(spend.saved_usd)}`}.
        </p>
      )}
    </section>
  );
}
