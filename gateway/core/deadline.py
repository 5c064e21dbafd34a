"""Time as the gateway sees it: one monotonic clock, one deadline per call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from gateway.core import ambient
from gateway.core.structs import value

Clock = Callable[[], float]
"""Seconds from a monotonic clock. Injected wherever time is read, so that tests own it."""

_EARLY_S = 0.002
"""Timers count whole milliseconds: uvloop's fire up to 1.3 ms early (measured, 0.22, 31 % of them).
Who is woken by one finds nothing left that could be used, and takes the deadline as passed."""


@value
class Deadline:
    """The instant (monotonic seconds) after which an answer is worthless to the caller."""

    at_s: float
    clock: Clock = field(default_factory=ambient.clock, repr=False, compare=False)

    @classmethod
    def after(cls, seconds: float, clock: Clock | None = None) -> Deadline:
        if clock is None:
            clock = ambient.clock()
        return cls(clock() + seconds, clock)

    def remaining_s(self) -> float:
        return self.at_s - self.clock()

    def passed(self) -> bool:
        return self.at_s - self.clock() <= _EARLY_S

    def allows(self, need_s: float) -> bool:
        return self.at_s - self.clock() >= need_s
