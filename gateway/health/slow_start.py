"""An endpoint that is back gets its calls by degrees: caches are cold, and the crowd has waited."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gateway.deadline import Clock

_LEAST = 0.1  # of the window, from the first moment


@dataclass(slots=True)
class SlowStart:
    clock: Clock
    ramp_s: float
    began_s: float = -math.inf

    def begin(self) -> None:
        self.began_s = self.clock()

    def share(self) -> float:
        """Of the usual window that may be used now, in (0, 1]."""
        if self.began_s == -math.inf:
            return 1.0
        passed_s = self.clock() - self.began_s
        if passed_s >= self.ramp_s:
            return 1.0
        return max(_LEAST, passed_s / self.ramp_s)

    def of(self, window: int) -> int:
        return max(1, math.ceil(window * self.share()))
