"""An endpoint that is back gets its calls by degrees: caches are cold, and the crowd has waited."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gateway.core.deadline import Clock
from gateway.endpoints.health.breaker import unwatched

_LEAST = 0.1  # of the window, from the first moment


@dataclass(slots=True)
class SlowStart:
    clock: Clock
    ramp_s: float
    going: bool = False  # it may be over, and nobody has asked since
    changed: Callable[[], None] = unwatched
    """Called when it has begun or ended."""
    _began_s: float = 0.0

    def begin(self) -> None:
        self._began_s, self.going = self.clock(), True
        self.changed()  # guard: S11.start-change

    def share(self) -> float:
        """Of the usual window that may be used now, in (0, 1]."""
        if not self.going:
            return 1.0
        passed_s = self.clock() - self._began_s
        if passed_s >= self.ramp_s:
            self.going = False
            self.changed()  # guard: S11.start-change
            return 1.0
        return max(_LEAST, passed_s / self.ramp_s)

    def limit(self, window: int) -> int:
        return max(1, math.ceil(window * self.share()))
