"""Waits that end at a time, without a timer for each.

`asyncio.timeout` sets a timer at every wait and cancels it afterwards, which is most of what a wait
costs when answers come soon. Here a timer that has been set stays, and serves the waits that come
after: when it fires it looks whether the time of the one that is going on has come.
"""

from __future__ import annotations

import asyncio
import math
from asyncio import current_task, get_running_loop
from types import TracebackType

from gateway.core import ambient

_EARLY_S = 0.002  # timers count whole milliseconds, and fire up to so much early


class Patience:
    """One wait: `with patience.within(seconds): await ...` cancels what is waited for and raises
    TimeoutError when they have passed, as `async with asyncio.timeout` does."""

    __slots__ = (
        "_at_s", "_cancelling", "_expired", "_fires_s", "_home", "_rests", "_task", "_timer",
    )  # fmt: skip

    def __init__(self, home: _Home) -> None:
        self._home = home
        self._rests = home.resting.append
        self._timer: asyncio.TimerHandle | None = None
        self._fires_s = math.inf  # without a timer
        self._at_s = 0.0
        self._task: asyncio.Task[object] | None = None  # the one that waits
        self._cancelling = 0
        self._expired = False

    def __enter__(self) -> Patience:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        self._rests(self)
        if self._expired and task is not None:
            self._expired = False
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def when(self) -> float:
        """In seconds of the loop."""
        return self._at_s

    def expired(self) -> bool:
        """Asked while it goes on."""
        return self._expired

    def reschedule(self, at_s: float) -> None:
        """Of the wait that is going on."""
        self._at_s = at_s
        if self._fires_s > at_s:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_s = self._at_s
        self._timer = self._home.loop.call_at(self._at_s, self._check)

    def _check(self) -> None:
        self._timer, self._fires_s = None, math.inf
        task = self._task
        if task is None or self._expired:
            return
        if self._home.now_s() + _EARLY_S < self._at_s:
            self._set_timer()
            return
        self._expired = True
        task.cancel()


class RunningTask:
    """Which task runs, for an object that lives in one loop at a time. `asyncio.current_task` asks
    the system each time whether this process is a fork of the one that the loop began in."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def task(self) -> asyncio.Task[object]:
        """Raises RuntimeError where none does."""
        loop = self._loop
        if loop is None or (task := current_task(loop)) is None:  # or in another one by now
            loop = self._loop = get_running_loop()
            task = current_task(loop)
        if task is None:
            raise RuntimeError("only a task can wait")
        return task


class _Home:
    """Those of one loop that nobody uses now."""

    __slots__ = ("loop", "now_s", "resting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.now_s = ambient.loop_clock(loop)
        self.resting: list[Patience] = []


_home: _Home | None = None


def within(seconds: float) -> Patience:
    """A wait of so many seconds, of none when that is negative. It has begun: enter it at once."""
    global _home
    loop, home = get_running_loop(), _home
    if home is None or home.loop is not loop:
        home = _home = _Home(loop)
    task = current_task(loop)
    if task is None:
        raise RuntimeError("only a task can be patient")
    patience = home.resting.pop() if home.resting else Patience(home)
    patience._task, patience._cancelling = task, task.cancelling()
    patience._at_s = at_s = home.now_s() + seconds if seconds > 0.0 else home.now_s()
    if patience._fires_s > at_s:
        patience._set_timer()
    return patience


def until(at_s: float) -> Patience:
    """A wait that ends at `at_s`, in seconds of the running loop; to be entered at once, too."""
    return within(at_s - ambient.loop_s())
