"""How much of a server's time each call took, where calls run in batches and side by side.

While n calls are at a server each of them uses an n-th of it. So the shares of all calls add up to
the time in which the server had any, to the nanosecond: nothing is counted twice, and what is left
of the day is the time in which it was idle.
"""

from __future__ import annotations

from gateway.core.deadline import Clock

_NS = 1e9


class GpuTime:
    """O(1) for each call: the clock of a call that would have been there all the time."""

    __slots__ = ("_at_s", "_clock", "_each_ns", "_sharing")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s = clock()
        self._each_ns = 0.0  # what such a call would have been given so far
        self._sharing = 0

    def enters(self) -> float:
        """A mark that `leaves_ns` is asked with."""
        self._pass_time()
        self._sharing += 1
        return self._each_ns

    def leaves_ns(self, mark: float) -> int:
        """Once for each mark."""
        self._pass_time()
        self._sharing -= 1
        return round(self._each_ns - mark)

    def _pass_time(self) -> None:
        now_s = self._clock()
        if self._sharing and now_s > self._at_s:
            # guard: B2.shared-time -> self._each_ns += (now_s - self._at_s) * _NS
            self._each_ns += (now_s - self._at_s) * _NS / self._sharing
        self._at_s = now_s
