"""What the cloud may cost, for everybody and for each tenant (BEHAVIOURS S5): what decisions read.

Reserve before an attempt, settle after it: calls under way count with the most that they can cost,
so that no burst can overshoot. A day is the last 24 hours, in 96 steps; a month is the calendar's
(UTC). A budget that is used up closes the cloud and opens it again only when a tenth of it is free
(S1), or each step would let a handful out and shut again.

It is a view of the ledger: filled from it at the start and told what other processes spend. That no
two processes spend the same money is held by the ledger's leases, at the door.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol

from gateway.accounting.ledger.limits import (
    EVERYBODY,
    STEP_S,
    STEPS,
    BudgetLimits,
    month_at,
    step_at,
)
from gateway.accounting.ledger.store import PriorSpend
from gateway.core.deadline import Clock


class Leased(Protocol):
    """This process's part of the budgets, exact over all processes: the ledger's leases."""

    @property
    def down(self) -> bool: ...
    def has(self, tenant: str, nano_usd: int) -> bool: ...
    async def take(self, tenant: str, nano_usd: int) -> str: ...
    def settle(self, tenant: str, reserved: int, spent: int) -> None: ...
    def allow(self, limits: Mapping[str, BudgetLimits]) -> None: ...


class Reservation:
    """Money put aside for one attempt. Settled exactly once."""

    __slots__ = ("_budgets", "_settled", "expected", "leased", "leases", "tenant")

    def __init__(self, budgets: tuple[_Budget, ...], tenant: str, expected: int) -> None:
        self._budgets = budgets
        self.tenant, self.expected = tenant, expected
        self._settled = False
        self.leased = True  # nothing has to be asked of the ledger any more
        self.leases: Leased | None = None
        """Where it was taken of as well."""
        for budget in budgets:
            budget.reserved += expected
            budget.left_now -= expected  # guard: S5.inflight-spend

    def settle(self, nano_usd: int) -> None:
        """What it cost in the end, in nano-dollars; 0 for an attempt that never went."""
        if self._settled:
            return
        self._settled = True
        budgets, expected = self._budgets, self.expected
        now_s = budgets[0].clock()
        for budget in budgets:
            budget.settle(expected, nano_usd, now_s)
        if self.leases is not None:
            self.leases.settle(self.tenant, expected, nano_usd)


class Unlimited(Reservation):
    """In the place of one, for all calls, where nobody's money can be used up: what they cost is
    counted, and nothing has to be put aside."""

    __slots__ = ("_budget",)

    def __init__(self, budget: _Budget) -> None:
        super().__init__((), EVERYBODY, 0)
        self._budget = budget

    def settle(self, nano_usd: int) -> None:
        budget = self._budget
        if budget.clock() >= budget._step_ends_s:
            budget._pass_time(budget.clock())
        budget._unbooked += nano_usd


class SpillBudgets:
    """In whole nano-dollars. `everybody`: of all tenants together."""

    def __init__(
        self,
        everybody: BudgetLimits,
        tenant_limits: Mapping[str, BudgetLimits],
        clock: Clock,
        wall_s: Callable[[], float] | None = None,
    ) -> None:
        """`wall_s`: seconds since 1970, for the calendar; by default the clock's own."""
        self._clock, self._wall_s = clock, wall_s or clock
        self._everybody = _Budget("spill_budget", everybody, clock, self._wall_s)
        self._own = {
            tenant: _Budget("tenant_spill_budget", own, clock, self._wall_s)
            for tenant, own in tenant_limits.items()
        }
        self._others = (self._everybody,)  # what pays for a tenant without a budget of its own
        # guard: S5.tenant-budget without own
        # guard: S5.global-budget without self._everybody
        self._budgets = {tenant: (self._everybody, own) for tenant, own in self._own.items()}
        self.limited = any(self.limits.values())
        """Whether anybody's money can be used up at all."""
        self.unlimited = Unlimited(self._everybody)

    def allow(self, limits: Mapping[str, BudgetLimits]) -> None:
        """Other amounts for the same; what was spent stays spent."""
        for scope, budget in self._scopes():
            budget.allow(limits.get(scope, budget.limits))
        self.limited = any(self.limits.values())

    @property
    def limits(self) -> Mapping[str, BudgetLimits]:
        return {scope: budget.limits for scope, budget in self._scopes()}

    def _scopes(self) -> tuple[tuple[str, _Budget], ...]:
        return ((EVERYBODY, self._everybody), *self._own.items())

    def closed(self, tenant: str) -> str:
        """Why no call of this tenant may leave; empty when one may."""
        now_s = self._clock()
        for budget in self._budgets.get(tenant, self._others):
            if not budget.opens(now_s):
                return budget.why
        return ""

    def reserve(self, tenant: str, expected: int) -> Reservation | None:
        """None when the money is not there."""
        now_s, budgets = self._clock(), self._budgets.get(tenant, self._others)
        for budget in budgets:
            if not budget.affords(expected, now_s):
                return None
        return Reservation(budgets, tenant, expected)

    def spent(self) -> int:
        """By everybody, in the last 24 hours."""
        return self._everybody.day

    def reserved(self) -> int:
        """For calls under way; nothing where nobody's money is limited."""
        return self._everybody.reserved + sum(own.reserved for own in self._own.values())

    def left(self) -> int | None:
        """Of everybody's, until the first of its limits; None without limits."""
        return self._everybody.left

    def restore(self, already: PriorSpend) -> None:
        """What the ledger knows of, at the start."""
        for scope, budget in self._scopes():
            budget.restore(
                already.steps.get(scope, {}),
                already.month.get(scope, 0),
                already.total.get(scope, 0),
            )

    def others_spent(self, tenant: str, nano_usd: int) -> None:
        """Another process has, a moment ago."""
        now_s = self._clock()
        for budget in self._budgets.get(tenant, self._others):
            budget.settle(0, nano_usd, now_s)

    def most(self) -> int | None:
        """What everybody may spend in 24 hours; None: as much as they like."""
        return self._everybody.limits.day


class _Budget:
    """What is left of it is kept, and drawn anew only where time has passed: whatever is put aside
    or spent, counts against its day, its month and its total alike. What was spent is booked there
    when somebody asks."""

    __slots__ = (
        "_at", "_in_day", "_in_month", "_month", "_step_ends_s", "_steps", "_total", "_unbooked",
        "_wall_s", "_was_open", "clock", "left_now", "limits", "reserved", "why",
    )  # fmt: skip

    def __init__(
        self, why: str, limits: BudgetLimits, clock: Clock, wall_s: Callable[[], float]
    ) -> None:
        """`why`: the reason code of calls that it keeps here."""
        self.why, self.limits = why, limits
        self.clock, self._wall_s = clock, wall_s
        self._steps: list[int] | None = None  # most of ten thousand tenants spend nothing
        self._in_day = 0
        self._at = int(clock() // STEP_S)
        self._step_ends_s = (self._at + 1) * STEP_S
        self._month, self._in_month, self._total = month_at(wall_s()), 0, 0
        self._was_open = True
        self.reserved = 0
        self._unbooked = 0  # spent in this step
        self.left_now: float = math.inf  # until the first of its limits; an int where it has one
        self._draw()

    def allow(self, limits: BudgetLimits) -> None:
        self.limits = limits
        self._draw()

    @property
    def day(self) -> int:
        self._pass_time(self.clock())
        self._book()
        return self._in_day

    @property
    def left(self) -> int | None:
        self._pass_time(self.clock())
        return None if self.left_now == math.inf else int(self.left_now)

    def opens(self, now_s: float) -> bool:
        """Whether it lets calls out; one that did not does so when a tenth of it is free."""
        if now_s >= self._step_ends_s:
            self._pass_time(now_s)
        # guard: S1.budget-hysteresis -> is_open = self._was_open = self.left_now > 0
        is_open = self._was_open = (self.left_now if self._was_open else self._again()) > 0
        return is_open

    def affords(self, nano_usd: int, now_s: float) -> bool:
        """Whether so much may be put aside; nothing is while it lets nobody out."""
        return self.opens(now_s) and nano_usd <= self.left_now  # guard: S5.spend-reserve minus 2

    def settle(self, expected: int, nano_usd: int, now_s: float) -> None:
        """So much of what was put aside is spent."""
        if now_s >= self._step_ends_s:
            self._pass_time(now_s)
        self.reserved -= expected
        self.left_now += expected - nano_usd
        self._unbooked += nano_usd

    def _book(self) -> None:
        nano_usd, self._unbooked = self._unbooked, 0
        if nano_usd:
            if self._steps is None:
                self._steps = [0] * STEPS
            self._steps[self._at % STEPS] += nano_usd
            self._in_day += nano_usd
            self._in_month += nano_usd
            self._total += nano_usd

    def restore(self, steps: Mapping[int, int], month: int, total: int) -> None:
        self._pass_time(self.clock())
        now = step_at(self._wall_s())
        self._in_month += month
        self._total += total
        for step, nano_usd in steps.items():
            if 0 <= (age := now - step) < STEPS:
                self._steps = self._steps or [0] * STEPS
                self._steps[(self._at - age) % STEPS] += nano_usd
                self._in_day += nano_usd
        self._draw()

    def _draw(self) -> None:
        self.left_now = min((most - used for most, used in self._used()), default=math.inf)

    def _again(self) -> float:
        """Ten times what is left of nine tenths of its limits."""
        return min((most * 9 - used * 10 for most, used in self._used()), default=math.inf)

    def _used(self) -> list[tuple[int, int]]:
        """Each of its limits, and what is spent and put aside of it."""
        self._book()
        limits = self.limits
        # guard: B1.budget-periods -> stated = (limits.day, None, None)
        stated = (limits.day, limits.month, limits.total)
        spent = (self._in_day, self._in_month, self._total)
        return [
            (most, some + self.reserved)
            for most, some in zip(stated, spent, strict=True)
            if most is not None
        ]

    def _pass_time(self, now_s: float) -> None:
        if now_s < self._step_ends_s:
            return
        self._book()
        now = int(now_s // STEP_S)
        if self._steps is not None:
            for step in range(self._at + 1, min(now, self._at + STEPS) + 1):
                self._in_day -= self._steps[step % STEPS]
                self._steps[step % STEPS] = 0
        self._at = max(self._at, now)
        self._step_ends_s = (self._at + 1) * STEP_S
        if (month := month_at(self._wall_s())) != self._month:
            self._month, self._in_month = month, 0
        self._draw()
