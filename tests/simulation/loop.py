"""An event loop without threads and without sockets, whose time passes only when nothing can run.

When no callback is ready, time leaps to the next timer. So a minute of waiting costs nothing, and
what runs when depends on nothing but what was asked for.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable
from typing import Any

_SAME_INSTANT_S = 1e-9
_MOST_STEPS = 200_000  # a world takes some thousands


class Stuck(Exception):
    """Everything waits and no timer runs, or nothing ever waits."""


class VirtualLoop(asyncio.BaseEventLoop):
    """`after_step` is called after every round of callbacks, `complained` with whatever asyncio
    would have logged."""

    # What BaseEventLoop keeps its callbacks in (3.11 to 3.13).
    _ready: deque[events.Handle]
    _scheduled: list[events.TimerHandle]
    _stopping: bool

    def __init__(
        self, after_step: Callable[[], None], complained: Callable[[str], None], start_s: float
    ) -> None:
        super().__init__()
        self.now_s = start_s
        self.steps = 0
        self.tasks: list[asyncio.Task[Any]] = []  # all_tasks() of a process is slower to ask
        self._after_step = after_step
        self._complained = complained

    def time(self) -> float:
        return self.now_s

    def create_task(self, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, **kwargs)
        self.tasks.append(task)
        return task

    def running(self) -> list[asyncio.Task[Any]]:
        return [task for task in self.tasks if not task.done()]

    def unwatched(self) -> None:
        """Nobody is interested in what happens from here on."""
        self._after_step = lambda: None
        self._complained = lambda what: None
        self._stopping = False  # what it was halted in may have been its last step
        self._scheduled.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._complained(f"{context.get('message')}: {error!r}")

    def _run_once(self) -> None:
        """One round, in the place of the selector's wait and what follows it in asyncio."""
        ready = self._ready
        if not ready:
            self._leap()
        self._take_due()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise Stuck(f"no end after {_MOST_STEPS} steps")
        self._after_step()

    def _leap(self) -> None:
        timers = self._scheduled
        while timers and timers[0].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise Stuck("every task waits and no timer runs")
        self.now_s = max(self.now_s, timers[0].when())

    def _take_due(self) -> None:
        timers, until_s = self._scheduled, self.now_s + _SAME_INSTANT_S
        while timers and timers[0].when() <= until_s:
            timer = heapq.heappop(timers)
            if not timer.cancelled():
                self._ready.append(timer)

    def _process_events(self, event_list: object) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody calls from another thread."""
