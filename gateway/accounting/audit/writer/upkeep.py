"""When the journal needs more than records: a gap record, another segment, a checkpoint."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from gateway.core import ambient


class UpkeepTimer:
    """For the loop alone."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[], None]) -> None:
        self._loop = loop
        self._on_due = on_due
        self._clock = ambient.clock()
        self._due_s = math.inf
        self._timer: asyncio.TimerHandle | None = None

    @property
    def due(self) -> bool:
        return self._clock() >= self._due_s

    def by(self, when_s: float) -> None:
        """At that moment (monotonic) at the latest."""
        if when_s < self._due_s:
            self._due_s = when_s
            self.cancel()
            wait_s = max(0.0, when_s - self._clock())
            self._timer = self._loop.call_later(wait_s, self._fire)

    def again(self, wait_s: float) -> None:
        """Then, whatever was due."""
        self._due_s = math.inf
        self.by(self._clock() + wait_s)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self) -> None:
        self._due_s = 0.0
        self._on_due()
