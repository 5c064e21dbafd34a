"""Waits that end at a time, without a timer for each.

`asyncio.timeout` sets a timer at every wait and cancels it afterwards, which is most of what a wait
costs when answers come soon. Here a timer that has been set stays, and serves the waits that come
after: when it fires it looks whether the time of the one that is going on has come.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from gateway import ambient

_EARLY_S = 0.002  # timers count whole milliseconds, and fire up to so much early


class Patience:
    """One wait: `with patience.until(at_s): await ...` cancels what is waited for and raises
    TimeoutError at `at_s`, in seconds of the loop, as `async with asyncio.timeout_at` does."""

    __slots__ = (
        "_at_s", "_cancelling", "_expired", "_fires_s", "_home", "_task", "_timer", "_waits",
    )  # fmt: skip

    def __init__(self, home: _Home) -> None:
        self._home = home
        self._timer: asyncio.TimerHandle | None = None
        self._fires_s = self._at_s = 0.0
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._waits = self._expired = False

    def __enter__(self) -> Patience:
        task = asyncio.current_task(self._home.loop)
        if task is None:
            raise RuntimeError("only a task can be patient")
        self._task, self._cancelling = task, task.cancelling()
        self._expired, self._waits = False, True
        if self._timer is None or self._fires_s > self._at_s:
            self._set_timer()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._waits = False
        task, self._task = self._task, None
        expired = self._expired
        self._home.rests(self)
        if not expired or task is None:
            return
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def when(self) -> float:
        return self._at_s

    def expired(self) -> bool:
        return self._expired

    def reschedule(self, at_s: float) -> None:
        """Of the wait that is going on."""
        self._at_s = at_s
        if self._timer is None or self._fires_s > at_s:
            self._set_timer()

    def _begin(self, at_s: float) -> Patience:
        self._at_s = at_s
        return self

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_s = self._at_s
        self._timer = self._home.loop.call_at(self._at_s, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._waits or self._expired:
            return
        if ambient.loop_s() + _EARLY_S < self._at_s:
            self._set_timer()
            return
        self._expired = True
        assert self._task is not None
        self._task.cancel()


class _Home:
    """Those of one loop that nobody uses now."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.resting: list[Patience] = []

    def rests(self, patience: Patience) -> None:
        self.resting.append(patience)


_home: _Home | None = None


def until(at_s: float) -> Patience:
    """For a wait that ends at `at_s`, seconds of the running loop."""
    global _home
    loop = asyncio.get_running_loop()
    if _home is None or _home.loop is not loop:
        _home = _Home(loop)
    found = _home.resting.pop() if _home.resting else Patience(_home)
    return found._begin(at_s)


def within(seconds: float) -> Patience:
    """For a wait of so many seconds; of none when that is negative."""
    return until(ambient.loop_s() + max(0.0, seconds))
