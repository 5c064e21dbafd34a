"""How long a call will take, from what the gateway itself has seen of a model on an endpoint.

First version: quantiles of the last service times. Conservative when cold: until the first
observation the configured expectation counts, neither best nor excluded (BEHAVIOURS D6). Figures
that have not been renewed for half a minute are cold again: they still rank, but prove nothing, or
one slow spell would have every later call refused as provably late, and nothing could tell that the
spell is over.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque

from gateway.deadline import Clock

_STALE_S = 30.0


class ServiceTimes:
    """Quantiles of the last `size` service times in seconds."""

    def __init__(self, expected_s: float, clock: Clock, size: int = 128) -> None:
        self._clock = clock
        self._renewed_s = -math.inf
        self._expected_s = expected_s
        self._size = size
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def observe(self, took_s: float) -> None:
        recent, ordered = self._recent, self._sorted
        if len(recent) == self._size:
            del ordered[bisect_left(ordered, recent.popleft())]
        self._renewed_s = self._clock()
        recent.append(took_s)
        insort(ordered, took_s)

    def forget_over(self, took_s: float) -> None:
        """What took longer was of a spell that is over."""
        self._recent = deque(took for took in self._recent if took <= took_s)
        self._sorted = sorted(self._recent)

    @property
    def cold(self) -> bool:
        return self.cold_at(self._clock())

    def cold_at(self, now_s: float) -> bool:
        return now_s - self._renewed_s > _STALE_S

    @property
    def sample(self) -> int:
        return len(self._sorted)

    def quantile_s(self, q: float) -> float:
        found = self._sorted
        if not found:
            return self._expected_s
        at, count = int(q * len(found)), len(found)
        return found[at if at < count else count - 1]


def completion_s(service_s: float, ahead: int, window: int) -> float:
    """Seconds until a call is answered that joins behind `ahead` calls of which `window` are
    served at once, each taking `service_s`."""
    return service_s * (1 + ahead / window if ahead >= window else 1)
