"""Labels whose values are not a closed set, such as tenants: so many, and then one for the rest.

Each value is a time series for as long as the process lives, in the gateway and in whatever
scrapes it.
"""

from __future__ import annotations

MOST = 1000
OTHER = "other"


class CappedLabels:
    """Whoever comes first has a label of its own, and keeps it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._own: set[str] = set()

    def of(self, value: str) -> str:
        if value in self._own:
            return value
        if len(self._own) >= self._most:
            return OTHER
        self._own.add(value)
        return value
