"""What the cloud may cost in a day, for everybody and for each tenant (BEHAVIOURS S5).

Reserve before an attempt, settle after it: calls under way count with what they are expected to
cost, so that no burst can overshoot. The day is the last 24 hours, in 96 steps. A budget that is
used up closes the cloud and opens it again only when a tenth of it is free (S1), or each step
would let a handful out and shut again. A restart forgets what was spent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from gateway.deadline import Clock

_DAY_S = 24 * 3600.0
_STEPS = 96
_OPENS_AT = 0.9
_ROUNDING = 1e-9  # of sums of prices


class Reserved:
    """Money put aside for one attempt. Settled exactly once."""

    __slots__ = ("_expected_usd", "_of", "_settled")

    def __init__(self, of: tuple[_Budget, ...], expected_usd: float) -> None:
        self._of = of
        self._expected_usd = expected_usd
        self._settled = False
        for budget in of:
            budget.reserved_usd += expected_usd

    def settle(self, usd: float) -> None:
        """What it cost in the end, in US dollars; 0 for an attempt that never went."""
        if self._settled:
            return
        self._settled = True
        for budget in self._of:
            budget.reserved_usd -= self._expected_usd
            budget.spend(usd)


class SpillBudgets:
    """`all_usd`: of all tenants together, in US dollars of any 24 hours. None: no limit."""

    def __init__(
        self, all_usd: float | None, of_tenants: Mapping[str, float], clock: Clock
    ) -> None:
        self._everybody = _Budget(math.inf if all_usd is None else all_usd, clock)
        self._of = {tenant: _Budget(usd, clock) for tenant, usd in of_tenants.items()}

    def closed(self, tenant: str) -> str:
        """Why no call of this tenant may leave; empty when one may."""
        if not self._everybody.open:
            return "spill_budget"
        own = self._of.get(tenant)
        return "tenant_spill_budget" if own is not None and not own.open else ""

    def reserve(self, tenant: str, expected_usd: float) -> Reserved | None:
        """None when the money is not there."""
        own = self._of.get(tenant)
        budgets = (self._everybody,) if own is None else (self._everybody, own)
        if not all(budget.affords(expected_usd) for budget in budgets):
            return None
        return Reserved(budgets, expected_usd)

    def spent_usd(self) -> float:
        """Of everybody, in the last 24 hours."""
        return self._everybody.spent_usd

    def most_usd(self) -> float | None:
        """What everybody may spend in 24 hours; None: as much as they like."""
        return self._everybody.limit_usd

    def reserved_usd(self) -> float:
        """Put aside for attempts under way."""
        return self._everybody.reserved_usd


class _Budget:
    def __init__(self, most_usd: float, clock: Clock) -> None:
        self._most_usd = most_usd
        self._clock = clock
        self._steps = [0.0] * _STEPS
        self._at = int(clock() / _DAY_S * _STEPS)
        self._was_open = True
        self.reserved_usd = 0.0

    @property
    def limit_usd(self) -> float | None:
        return None if math.isinf(self._most_usd) else self._most_usd

    @property
    def spent_usd(self) -> float:
        self._pass_time()
        return sum(self._steps)

    @property
    def open(self) -> bool:
        used_usd = self.spent_usd + self.reserved_usd
        share = 1.0 - _ROUNDING if self._was_open else _OPENS_AT
        self._was_open = used_usd < self._most_usd * share
        return self._was_open

    def affords(self, usd: float) -> bool:
        used_usd = self.spent_usd + self.reserved_usd
        return self.open and used_usd + usd <= self._most_usd * (1 + _ROUNDING)

    def spend(self, usd: float) -> None:
        self._pass_time()
        self._steps[self._at % _STEPS] += usd

    def _pass_time(self) -> None:
        now = int(self._clock() / _DAY_S * _STEPS)
        for step in range(self._at + 1, min(now, self._at + _STEPS) + 1):
            self._steps[step % _STEPS] = 0.0
        self._at = max(self._at, now)
