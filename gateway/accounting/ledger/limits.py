"""How much may be spent, and over which stretches of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.accounting.pricing import nano

EVERYBODY = "*"
"""The scope of all tenants together; the others are tenants' names, which cannot be this."""

STEP_S = 900
STEPS = 96
"""A day is the last 24 hours, in steps of a quarter of one."""


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """In nano-dollars; None: no limit."""

    day: int | None = None
    month: int | None = None
    total: int | None = None

    @classmethod
    def usd(
        cls, day: float | None = None, month: float | None = None, total: float | None = None
    ) -> BudgetLimits:
        return cls(*(None if usd is None else nano(usd) for usd in (day, month, total)))

    def __bool__(self) -> bool:
        return not (self.day is None and self.month is None and self.total is None)


@dataclass(frozen=True, slots=True)
class SpentAmounts:
    """By one scope, in nano-dollars."""

    day: int = 0
    month: int = 0
    total: int = 0

    def left(self, limits: BudgetLimits) -> int | None:
        """The least that any limit leaves; None without limits."""
        pairs = ((limits.day, self.day), (limits.month, self.month), (limits.total, self.total))
        return min((most - used for most, used in pairs if most is not None), default=None)


def step_at(at_s: float) -> int:
    """Which quarter of an hour since 1970."""
    return int(at_s // STEP_S)


def month_at(at_s: float) -> int:
    """Which calendar month (UTC), counted from the year 0."""
    at = datetime.fromtimestamp(at_s, UTC)
    return at.year * 12 + at.month - 1


def day_text(at_s: float) -> str:
    """The calendar day (UTC), as 2026-11-22."""
    return datetime.fromtimestamp(at_s, UTC).date().isoformat()
