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

from gateway.core.deadline import Clock

_STALE_S = 30.0


class ServiceTimes:
    """Quantiles of the last `size` service times in seconds.

    Those that every call asks for are drawn when a time is told, and kept: `usual_s`, the median;
    `slow_s`, the 95th percentile; `high_s`, the 99th. `sample`: of so many times.
    """

    __slots__ = (
        "_clock", "_expected_s", "_high_at", "_outlasted", "_recent", "_renewed_s", "_size",
        "_slow_at", "_sorted", "_usual_at", "high_s", "sample", "slow_s", "usual_s",
    )  # fmt: skip

    def __init__(self, expected_s: float, clock: Clock, size: int = 128) -> None:
        self._clock = clock
        self._renewed_s = -math.inf
        self._expected_s = expected_s
        self._size = size
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []
        self._outlasted: list[float] = []  # by answers that nobody awaited any more, since the last
        self._draw()

    def outlasted(self, waited_s: float) -> None:
        """An answer was awaited for so long and no longer: it would have taken more. It counts once
        another one shows that the endpoint answers at all."""
        if waited_s > self.usual_s and len(self._outlasted) < self._size:
            self._outlasted.append(waited_s)

    def observe(self, took_s: float) -> None:
        if self._outlasted:
            waited, self._outlasted = self._outlasted, []
            for waited_s in waited:
                self._add(waited_s, -waited_s)
        self._add(took_s, took_s)

    def known_s(self, q: float, least: int) -> float:
        """A quantile by the answers that came and those that were not awaited any more, which say
        that they would have taken longer (Edward Kaplan and Paul Meier, "Nonparametric Estimation
        from Incomplete Observations", 1958). Infinite where nobody knows: of fewer than `least`
        answers, and where too few were awaited for so long."""
        left, share = len(self._recent), 1.0
        count = sum(1 for took_s in self._recent if took_s >= 0.0)
        if count < least:
            return math.inf
        for took_s, cut in sorted((abs(took_s), took_s < 0.0) for took_s in self._recent):
            if not cut:
                share *= (left - 1) / left
                if share <= 1.0 - q:
                    return took_s
            left -= 1
        return math.inf

    def _add(self, took_s: float, signed_s: float) -> None:
        """`signed_s`: negative for what was not awaited."""
        recent, ordered = self._recent, self._sorted
        self._renewed_s = self._clock()
        recent.append(signed_s)
        insort(ordered, took_s)
        if self.sample < self._size:
            self._draw()
            return
        del ordered[bisect_left(ordered, abs(recent.popleft()))]
        self.usual_s = ordered[self._usual_at]
        self.slow_s = ordered[self._slow_at]
        self.high_s = ordered[self._high_at]

    def forget_over(self, took_s: float) -> None:
        """What took longer was of a spell that is over."""
        self._outlasted.clear()
        self._recent = deque(took for took in self._recent if abs(took) <= took_s)
        self._sorted = sorted(map(abs, self._recent))
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
            # guard: D6.expected-time self._expected_s -> 0.0
            self.usual_s = self.slow_s = self.high_s = self._expected_s

    @property
    def cold(self) -> bool:
        return self.cold_at(self._clock())

    def cold_at(self, now_s: float) -> bool:
        return now_s - self._renewed_s > _STALE_S  # guard: D6.stale-estimate -> return False

    def quantile_s(self, q: float) -> float:
        times_s = self._sorted
        if not times_s:
            return self._expected_s
        at, count = int(q * len(times_s)), len(times_s)
        return times_s[at if at < count else count - 1]
