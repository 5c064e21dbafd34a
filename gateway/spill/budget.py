"""What the cloud may cost, for everybody and for each tenant (BEHAVIOURS S5): what decisions read.

Reserve before an attempt, settle after it: calls under way count with the most that they can cost,
so that no burst can overshoot. A day is the last 24 hours, in 96 steps; a month is the calendar's
(UTC). A budget that is used up closes the cloud and opens it again only when a tenth of it is free
(S1), or each step would let a handful out and shut again.

It is a view of the ledger: filled from it at the start and told what other processes spend. That no
two processes spend the same money is held by the ledger's leases, at the door.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.deadline import Clock
from gateway.ledger.limits import EVERYBODY, STEP_S, STEPS, Limits, month_of, step_of
from gateway.ledger.store import Already


class Reserved:
    """Money put aside for one attempt. Settled exactly once."""

    __slots__ = ("_expected", "_of", "_settled")

    def __init__(self, of: tuple[_Budget, ...], expected: int) -> None:
        self._of = of
        self._expected = expected
        self._settled = False
        for budget in of:
            budget.reserved += expected

    def settle(self, nano_usd: int) -> None:
        """What it cost in the end; 0 for an attempt that never went."""
        if self._settled:
            return
        self._settled = True
        for budget in self._of:
            budget.reserved -= self._expected
            budget.spend(nano_usd)


class SpillBudgets:
    """In whole nano-dollars. `everybody`: of all tenants together."""

    def __init__(
        self,
        everybody: Limits,
        of_tenants: Mapping[str, Limits],
        clock: Clock,
        wall_s: Callable[[], float] | None = None,
    ) -> None:
        """`wall_s`: seconds since 1970, for the calendar; by default the clock's own."""
        self._wall_s = wall_s or clock
        self._everybody = _Budget(everybody, clock, self._wall_s)
        self._of = {tenant: _Budget(own, clock, self._wall_s) for tenant, own in of_tenants.items()}

    def allow(self, limits: Mapping[str, Limits]) -> None:
        """Other amounts for the same; what was spent stays spent."""
        for scope, budget in ((EVERYBODY, self._everybody), *self._of.items()):
            budget.limits = limits.get(scope, budget.limits)

    @property
    def limits(self) -> Mapping[str, Limits]:
        of = {tenant: budget.limits for tenant, budget in self._of.items()}
        return {EVERYBODY: self._everybody.limits, **of}

    def closed(self, tenant: str) -> str:
        """Why no call of this tenant may leave; empty when one may."""
        if not self._everybody.open:
            return "spill_budget"
        own = self._of.get(tenant)
        return "tenant_spill_budget" if own is not None and not own.open else ""

    def reserve(self, tenant: str, expected: int) -> Reserved | None:
        """None when the money is not there."""
        own = self._of.get(tenant)
        budgets = (self._everybody,) if own is None else (self._everybody, own)
        if not all(budget.affords(expected) for budget in budgets):
            return None
        return Reserved(budgets, expected)

    def spent(self) -> int:
        """By everybody, in the last 24 hours."""
        return self._everybody.day

    def reserved(self) -> int:
        """For calls under way."""
        return self._everybody.reserved + sum(own.reserved for own in self._of.values())

    def left(self) -> int | None:
        """Of everybody's, until the first of its limits; None without limits."""
        return self._everybody.left

    def restore(self, already: Already) -> None:
        """What the ledger knows of, at the start."""
        for scope, budget in ((EVERYBODY, self._everybody), *self._of.items()):
            budget.restore(
                already.steps.get(scope, {}),
                already.month.get(scope, 0),
                already.total.get(scope, 0),
            )

    def others_spent(self, tenant: str, nano_usd: int) -> None:
        """Another process has, a moment ago."""
        self._everybody.spend(nano_usd)
        if own := self._of.get(tenant):
            own.spend(nano_usd)

    def most(self) -> int | None:
        """What everybody may spend in 24 hours; None: as much as they like."""
        return self._everybody.limits.day


class _Budget:
    __slots__ = (
        "_at",
        "_clock",
        "_in_day",
        "_in_month",
        "_month",
        "_mosts",
        "_step_ends_s",
        "_steps",
        "_total",
        "_wall_s",
        "_was_open",
        "limits",
        "reserved",
    )  # fmt: skip

    def __init__(self, limits: Limits, clock: Clock, wall_s: Callable[[], float]) -> None:
        self.limits = limits
        stated = (limits.day, limits.month, limits.total)
        self._mosts = [(at, most) for at, most in enumerate(stated) if most is not None]
        self._clock, self._wall_s = clock, wall_s
        self._steps: list[int] | None = None  # most of ten thousand tenants spend nothing
        self._in_day = 0
        self._at = int(clock() // STEP_S)
        self._step_ends_s = (self._at + 1) * STEP_S
        self._month, self._in_month, self._total = month_of(wall_s()), 0, 0
        self._was_open = True
        self.reserved = 0

    @property
    def day(self) -> int:
        self._pass_time()
        return self._in_day

    @property
    def left(self) -> int | None:
        return min((most - used for most, used in self._used()), default=None)

    @property
    def open(self) -> bool:
        was_open = self._was_open
        for most, used in self._used():
            if not (most * 9 > used * 10 or (was_open and most > used)):
                self._was_open = False
                return False
        self._was_open = True
        return True

    def affords(self, nano_usd: int) -> bool:
        return self.open and all(used + nano_usd <= most for most, used in self._used())

    def spend(self, nano_usd: int) -> None:
        self._pass_time()
        self._in_month += nano_usd
        self._total += nano_usd
        if nano_usd:
            if self._steps is None:
                self._steps = [0] * STEPS
            self._steps[self._at % STEPS] += nano_usd
            self._in_day += nano_usd

    def restore(self, steps: Mapping[int, int], month: int, total: int) -> None:
        self._pass_time()
        now = step_of(self._wall_s())
        self._in_month += month
        self._total += total
        for step, nano_usd in steps.items():
            if 0 <= (age := now - step) < STEPS:
                self._steps = self._steps or [0] * STEPS
                self._steps[(self._at - age) % STEPS] += nano_usd
                self._in_day += nano_usd

    def _used(self) -> list[tuple[int, int]]:
        """Each limit, and how much of it is used or put aside."""
        self._pass_time()
        by = (self._in_day, self._in_month, self._total)
        return [(most, by[at] + self.reserved) for at, most in self._mosts]

    def _pass_time(self) -> None:
        if (now_s := self._clock()) < self._step_ends_s:
            return
        now = int(now_s // STEP_S)
        if self._steps is not None:
            for step in range(self._at + 1, min(now, self._at + STEPS) + 1):
                self._in_day -= self._steps[step % STEPS]
                self._steps[step % STEPS] = 0
        self._at = max(self._at, now)
        self._step_ends_s = (self._at + 1) * STEP_S
        if (month := month_of(self._wall_s())) != self._month:
            self._month, self._in_month = month, 0
