"""Time as the gateway sees it: one monotonic clock, one deadline per call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Clock = Callable[[], float]
"""Seconds from a monotonic clock. Injected wherever time is read, so that tests own it."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The instant (monotonic seconds) after which an answer is worthless to the caller."""

    at_s: float
    clock: Clock = field(default=time.monotonic, repr=False, compare=False)

    @classmethod
    def after(cls, seconds: float, clock: Clock = time.monotonic) -> Deadline:
        return cls(clock() + seconds, clock)

    def remaining_s(self) -> float:
        return self.at_s - self.clock()

    def passed(self) -> bool:
        return self.remaining_s() <= 0

    def allows(self, need_s: float) -> bool:
        return self.remaining_s() >= need_s
