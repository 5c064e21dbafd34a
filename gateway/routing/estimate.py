"""How long a call will take, from what the gateway itself has seen of a model on an endpoint.

First version: quantiles of the last service times. Conservative when cold: until the first
observation the configured expectation counts, neither best nor excluded (BEHAVIOURS D6).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque


class ServiceTimes:
    """Quantiles of the last `size` service times in seconds."""

    def __init__(self, expected_s: float, size: int = 128) -> None:
        self._expected_s = expected_s
        self._size = size
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def observe(self, took_s: float) -> None:
        if len(self._recent) == self._size:
            oldest = self._recent.popleft()
            del self._sorted[bisect_left(self._sorted, oldest)]
        self._recent.append(took_s)
        insort(self._sorted, took_s)

    @property
    def cold(self) -> bool:
        return not self._recent

    def quantile_s(self, q: float) -> float:
        if not self._sorted:
            return self._expected_s
        return self._sorted[min(len(self._sorted) - 1, int(q * len(self._sorted)))]


def completion_s(service_s: float, ahead: int, window: int) -> float:
    """Seconds until a call is answered that joins behind `ahead` calls of which `window` are
    served at once, each taking `service_s`."""
    return service_s * (1 + ahead / window if ahead >= window else 1)
