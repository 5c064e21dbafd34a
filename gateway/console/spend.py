"""What the cloud cost: the port that the page reads, over the budgets and the ledger."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from gateway.deadline import Clock
from gateway.ledger.database import LedgerDown, LedgerError
from gateway.pricing import usd
from gateway.spill import SpillBudgets

_ASKED_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Spent:
    """US dollars. None: not known, or no limit."""

    period: str  # in words
    spent_usd: float
    reserved_usd: float
    budget_usd: float | None
    all_cloud_usd: float | None  # what the same calls would have cost, had all gone to the cloud
    source: str  # 'budgets': counted since the start; 'ledger': kept

    def document(self) -> dict[str, Any]:
        return asdict(self)


class Spend(Protocol):
    def standing(self) -> Spent:
        """Synchronous and quick: asked four times a second while somebody looks."""
        ...


class BudgetSpend:
    """What spill budgets count, where no ledger is kept: a restart forgets it."""

    def __init__(self, budgets: SpillBudgets) -> None:
        self._budgets = budgets

    def standing(self) -> Spent:
        return _standing(self._budgets, "the last 24 hours, since the start", None, "budgets")


class LedgerSpend:
    """What the ledger keeps. How much the calls that were answered here today (UTC) would have
    cost in the cloud is asked of it beside the loop, while somebody looks."""

    def __init__(
        self,
        budgets: SpillBudgets,
        avoided: Callable[[], Awaitable[int]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        clock: Clock,
    ) -> None:
        """`avoided`: in nano-dollars; raises LedgerError or LedgerDown."""
        self._budgets = budgets
        self._ask, self._spawn, self._clock = avoided, spawn, clock
        self._avoided: int | None = None
        self._asked_s = -math.inf

    def standing(self) -> Spent:
        now_s = self._clock()
        if now_s - self._asked_s >= _ASKED_EVERY_S:
            self._asked_s = now_s
            self._spawn(self._look())
        return _standing(self._budgets, "the last 24 hours", self._avoided, "ledger")

    async def _look(self) -> None:
        try:
            self._avoided = await self._ask()
        except (LedgerError, LedgerDown):
            self._avoided = None


def _standing(budgets: SpillBudgets, period: str, avoided: int | None, source: str) -> Spent:
    spent, most = usd(budgets.spent()), budgets.most()
    return Spent(
        period=period,
        spent_usd=round(spent, 6),
        reserved_usd=round(usd(budgets.reserved()), 6),
        budget_usd=None if most is None else usd(most),
        all_cloud_usd=None if avoided is None else round(spent + usd(avoided), 6),
        source=source,
    )
