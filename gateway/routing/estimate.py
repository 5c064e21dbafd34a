"""How long a call will take, from what the gateway itself has seen of a model on an endpoint.

Quantiles of the last service times. Conservative when cold: until the first
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
    """Quantiles of the last `size` service times in seconds.

    Those that every call asks for are drawn when a time is told, and kept: `usual_s`, the median;
    `slow_s`, the 95th percentile; `high_s`, the 99th. `sample`: of so many times.
    """

    __slots__ = (
        "_clock", "_expected_s", "_high_at", "_recent", "_renewed_s", "_size", "_slow_at",
        "_sorted", "_usual_at", "high_s", "sample", "slow_s", "usual_s",
    )  # fmt: skip

    def __init__(self, expected_s: float, clock: Clock, size: int = 128) -> None:
        self._clock = clock
        self._renewed_s = -math.inf
        self._expected_s = expected_s
        self._size = size
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []
        self._draw()

    def observe(self, took_s: float) -> None:
        recent, ordered = self._recent, self._sorted
        self._renewed_s = self._clock()
        recent.append(took_s)
        insort(ordered, took_s)
        if self.sample < self._size:
            self._draw()
            return
        del ordered[bisect_left(ordered, recent.popleft())]
        self.usual_s = ordered[self._usual_at]
        self.slow_s = ordered[self._slow_at]
        self.high_s = ordered[self._high_at]

    def forget_over(self, took_s: float) -> None:
        """What took longer was of a spell that is over."""
        self._recent = deque(took for took in self._recent if took <= took_s)
        self._sorted = sorted(self._recent)
        self._draw()

    def _draw(self) -> None:
        ordered = self._sorted
        count = self.sample = len(ordered)
        self._usual_at, self._slow_at, self._high_at = (
            count // 2,
            count * 95 // 100,
            count * 99 // 100,
        )
        if count:
            self.usual_s = ordered[self._usual_at]
            self.slow_s = ordered[self._slow_at]
            self.high_s = ordered[self._high_at]
        else:
            self.usual_s = self.slow_s = self.high_s = self._expected_s

    @property
    def cold(self) -> bool:
        return self.cold_at(self._clock())

    def cold_at(self, now_s: float) -> bool:
        return now_s - self._renewed_s > _STALE_S

    def quantile_s(self, q: float) -> float:
        found = self._sorted
        if not found:
            return self._expected_s
        at, count = int(q * len(found)), len(found)
        return found[at if at < count else count - 1]
