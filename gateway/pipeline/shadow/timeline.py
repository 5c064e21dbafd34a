"""What will happen where nothing does, in the order of its times."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Event = Callable[[float], None]


class Timeline:
    """Time passes when somebody asks for it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._events: list[tuple[float, int, Event]] = []
        self._order = count()

    def at(self, when_s: float, event: Event) -> None:
        """What is late happens next."""
        heapq.heappush(self._events, (max(when_s, self.now_s), next(self._order), event))

    def run(self, until_s: float, enough: Callable[[], bool]) -> bool:
        """Let happen what is due. False: it was `enough` before all of it had."""
        events = self._events
        while events and events[0][0] <= until_s:
            self.now_s, _, event = heapq.heappop(events)
            event(self.now_s)
            if enough():  # guard: O4.time-slice
                return not (events and events[0][0] <= until_s)
        self.now_s = max(self.now_s, until_s)
        return True
