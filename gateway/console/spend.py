"""What the cloud cost: the port that the page reads, over today's budgets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from gateway.spill import SpillBudgets


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
    """Until there is a ledger: what spill budgets count, which a restart forgets."""

    def __init__(self, budgets: SpillBudgets) -> None:
        self._budgets = budgets

    def standing(self) -> Spent:
        return Spent(
            period="the last 24 hours, since the start",
            spent_usd=round(self._budgets.spent_usd(), 6),
            reserved_usd=round(self._budgets.reserved_usd(), 6),
            budget_usd=self._budgets.most_usd(),
            all_cloud_usd=None,
            source="budgets",
        )
