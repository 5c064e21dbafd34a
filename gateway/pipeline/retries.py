"""How many calls may be tried again.

Where everything fails, tries upon tries are what keeps it down. Each call earns a tenth of a second
try, and a reserve as large as what a server that dies takes with it lets those calls go elsewhere;
so the tries of many calls are at most 1.1 times the calls. (Marius Eriksen's retry budgets in
Finagle; Google's SRE book, "Addressing Cascading Failures".)
"""

from __future__ import annotations

from gateway.core import ambient
from gateway.core.deadline import Clock

LONGEST_PAUSE_S = 10.0
"""No call is held longer for another try at the endpoint that failed it; its caller may wait."""

_FIRST_PAUSE_S = 0.1
_CALM_S = 10.0
"""Without a second try for so long, the reserve is full again."""


def pause_s(failures: int, retry_after_s: float | None) -> float:
    """Seconds before the same endpoint is tried again: doubled with each failure, half of it by
    chance, so that calls that failed together do not return together; and not before it said."""
    longest_s = _FIRST_PAUSE_S * 2.0 ** (failures - 1)
    chance = int.from_bytes(ambient.random_bytes(2)) / 65536
    # guard: A5.retry-after minus 1
    return max(longest_s * (1.0 + chance) / 2, retry_after_s or 0.0)


class RetryBudget:
    """A bucket of second tries; counts on one event loop."""

    def __init__(self, clock: Clock, share: float = 0.1, reserve: float = 32.0) -> None:
        self._clock = clock
        self._share = share
        self._reserve = reserve
        self._left = reserve
        self._updated_s = clock()
        self.calls = 0
        """First tries, since a second one was last asked for; whoever sends one adds it."""

    def take(self) -> bool:
        """Try one call again. False: none is in hand."""
        self._left = min(self._reserve, self._left + self.calls * self._share)
        self.calls = 0
        now_s = self._clock()
        if now_s - self._updated_s >= _CALM_S:
            self._left = self._reserve
        self._updated_s = now_s
        if self._left < 1.0:  # guard: A5.retry-budget
            return False
        self._left -= 1.0
        return True

    def give_back(self) -> None:
        """One that was taken and found no place to be used at."""
        self._left = min(self._reserve, self._left + 1.0)
