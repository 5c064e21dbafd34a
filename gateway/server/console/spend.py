"""What the cloud cost: the port that the page reads, over the budgets and the ledger."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from gateway.accounting.ledger.database import LedgerDown, LedgerError
from gateway.accounting.ledger.report import Saved
from gateway.accounting.pricing import usd
from gateway.accounting.spill import SpillBudgets
from gateway.core.deadline import Clock

_REFRESH_S = 10.0


@dataclass(frozen=True, slots=True)
class PeriodSpend:
    """US dollars. None: not known, or no limit."""

    period: str  # in words
    spent_usd: float
    reserved_usd: float
    budget_usd: float | None
    all_cloud_usd: float | None  # what the same calls would have cost, had all gone to the cloud
    saved_usd: float | None  # today (UTC), as `spillway costs` reports it: GPU time is paid for
    source: str  # 'budgets': counted since the start; 'ledger': kept

    def document(self) -> dict[str, Any]:
        return asdict(self)


class Spend(Protocol):
    def status(self) -> PeriodSpend:
        """Synchronous and quick: asked four times a second while somebody looks."""
        ...


class BudgetSpend:
    """What spill budgets count, where no ledger is kept: a restart forgets it."""

    def __init__(self, budgets: SpillBudgets) -> None:
        self._budgets = budgets

    def status(self) -> PeriodSpend:
        return _period_spend(self._budgets, "the last 24 hours, since the start", None, "budgets")


class LedgerSpend:
    """What the ledger keeps. What the on-prem answers of today (UTC) saved is read beside the loop,
    while somebody looks."""

    def __init__(
        self,
        budgets: SpillBudgets,
        saved_today: Callable[[], Awaitable[Saved]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        clock: Clock,
    ) -> None:
        """`saved_today` raises LedgerError or LedgerDown."""
        self._budgets = budgets
        self._saved_today, self._spawn, self._clock = saved_today, spawn, clock
        self._saved: Saved | None = None
        self._refreshed_s = -math.inf

    def status(self) -> PeriodSpend:
        now_s = self._clock()
        if now_s - self._refreshed_s >= _REFRESH_S:
            self._refreshed_s = now_s
            self._spawn(self._refresh())
        return _period_spend(self._budgets, "the last 24 hours", self._saved, "ledger")

    async def _refresh(self) -> None:
        try:
            self._saved = await self._saved_today()
        except (LedgerError, LedgerDown):
            self._saved = None


def _period_spend(
    budgets: SpillBudgets, period: str, saved: Saved | None, source: str
) -> PeriodSpend:
    spent, most = usd(budgets.spent()), budgets.most()
    return PeriodSpend(
        period=period,
        spent_usd=round(spent, 6),
        reserved_usd=round(usd(budgets.reserved()), 6),
        budget_usd=None if most is None else usd(most),
        all_cloud_usd=None if saved is None else round(spent + usd(saved.in_the_cloud), 6),
        saved_usd=None if saved is None else round(usd(saved.nano_usd), 6),
        source=source,
    )
