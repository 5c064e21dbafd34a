"""How long a cloud takes, as the empirical distribution of its last answers by size."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Sequence

GRID = 128  # steps in which a distribution is drawn for those who ask about many calls at once
_REDRAWN_EVERY = 32  # observations
_WINDOW = 512
_SPREAD = 0.5  # sigma of the lognormal that stands in until enough has been seen
_PRIOR = 16  # observations that the expectation weighs as much as
_NORMAL_QUANTILES = (-1.86, -1.32, -1.01, -0.78, -0.58, -0.40, -0.24, -0.08,
                     0.08, 0.24, 0.40, 0.58, 0.78, 1.01, 1.32, 1.86)  # fmt: skip


class Tail:
    """P(latency > t) of one endpoint for calls of one size."""

    __slots__ = ("_observed", "_recent", "_sorted")

    def __init__(self, expected_s: float) -> None:
        if not (math.isfinite(expected_s) and expected_s > 0):
            raise ValueError("an expected latency is above 0 seconds")
        prior = [expected_s * math.exp(_SPREAD * q) for q in _NORMAL_QUANTILES]
        self._recent = deque(prior[(7 * i) % _PRIOR] for i in range(_PRIOR))  # leaves evenly
        self._sorted = sorted(prior)
        self._observed = 0

    def observe(self, took_s: float) -> None:
        if len(self._recent) >= _WINDOW:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]
        self._recent.append(took_s)
        insort(self._sorted, took_s)
        self._observed += 1

    def learn(self, answers_s: Sequence[float]) -> None:
        """Be what somebody else has measured, drawn evenly from it; nothing of before counts."""
        if not all(math.isfinite(took_s) and took_s > 0 for took_s in answers_s or [0.0]):
            raise ValueError("latencies are above 0 seconds")
        times_s = sorted(answers_s)
        if times_s != self._sorted:
            self._sorted, self._recent = times_s, deque(times_s)
            self._observed += _REDRAWN_EVERY

    def __deepcopy__(self, memo: object) -> Tail:
        return self  # what is measured is nobody's own

    @property
    def version(self) -> int:
        """Changes when the grid is worth drawing again."""
        return self._observed // _REDRAWN_EVERY

    def grid(self) -> tuple[float, list[float]]:
        """Steps per second, and `late` at each step; the last one stands for all that follow."""
        step_s = self._sorted[-1] * 1.01 / GRID
        n = len(self._sorted)
        late = [1.0 - bisect_right(self._sorted, i * step_s) / n for i in range(GRID + 1)]
        return 1.0 / step_s, late

    def late(self, within_s: float) -> float:
        """The share of answers that take longer than this."""
        return 1.0 - bisect_right(self._sorted, within_s) / len(self._sorted)

    def quantile_s(self, q: float) -> float:
        return self._sorted[min(len(self._sorted) - 1, int(q * len(self._sorted)))]


class CloudLatency:
    """One endpoint's latency by the size of the call, in steps of a factor of two."""

    __slots__ = ("_fixed_s", "_per_work_s", "_tails")

    def __init__(self, fixed_s: float, per_work_s: float = 0.0) -> None:
        self._fixed_s = fixed_s
        self._per_work_s = per_work_s
        self._tails: dict[int, Tail] = {}

    def tail(self, work: float) -> Tail:
        step = round(math.log2(work)) if work > 0 else 0
        tail = self._tails.get(step)
        if tail is None:
            expected_s = self._fixed_s + self._per_work_s * 2.0**step
            tail = self._tails[step] = Tail(expected_s)
        return tail

    def observe(self, work: float, took_s: float) -> None:
        self.tail(work).observe(took_s)
