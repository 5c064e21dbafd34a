"""Waits that end at a time, all of a loop on one timer: a timer wheel.

`asyncio.timeout` sets a timer at every wait and cancels it afterwards, which is most of what a wait
costs when answers come soon. A wheel sorts waits by the time at which they end, into slots of a few
milliseconds (Varghese and Lauck, 1987), and the loop has one timer, which stands at the first slot.
It stays there when a wait ends before its time, as most do.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task, get_running_loop
from types import TracebackType
from typing import Final, Protocol

from gateway.core import ambient

SLOTS_PER_S: Final = 256
"""A wait may end a slot late."""
_NEVER: Final = 1 << 60  # the number of no slot
EARLY_S: Final = 0.002
"""Timers count whole milliseconds, and fire up to so much early."""


class Expiring(Protocol):
    """What ends at a time."""

    def expire(self) -> None:
        """Called once, when its time has come. It may add itself again."""
        ...


Slot = dict[Expiring, None]
"""What ends in the same few milliseconds: `slot.pop(entry, None)` takes one out."""


class TimerWheel:
    """The waits of one loop."""

    __slots__ = ("_first", "_now_s", "_slots", "_timer", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._now_s = ambient.loop_clock(loop)
        self._slots: dict[int, Slot] = {}
        self._first = _NEVER  # the slot at which the timer stands
        self._timer: asyncio.TimerHandle | None = None

    def add(self, entry: Expiring, after_s: float) -> Slot:
        """Have it expire after so many seconds; at once when that is negative."""
        number = int((self._now_s() + after_s) * SLOTS_PER_S) + 1
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = {}
            if number < self._first:
                self._stand_at(number)
        slot[entry] = None
        return slot

    def _stand_at(self, number: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._first = number
        self._timer = self.loop.call_at(number / SLOTS_PER_S, self._turn)

    def _turn(self) -> None:
        self._timer, self._first = None, _NEVER
        now = int((self._now_s() + EARLY_S) * SLOTS_PER_S)
        try:
            for number in sorted(number for number in self._slots if number <= now):
                slot = self._slots[number]
                for entry in tuple(slot):
                    if entry in slot:  # else another one's end has ended it
                        del slot[entry]
                        entry.expire()
        finally:  # those behind one that fails are due in the next turn
            self._slots = {number: slot for number, slot in self._slots.items() if slot}
            first = min(self._slots, default=_NEVER)
            if first < self._first:
                self._stand_at(first)


class Wait:
    """What waits on a wheel: when its time has come it cancels what its task waits for, and its
    `with` statement raises TimeoutError."""

    expired = False  # it has cancelled
    _cancelling = 0
    _task: asyncio.Task[object] | None = None
    _slot: Slot = {}  # noqa: RUF012 - no slot: nothing is ever in it

    def _begins(self) -> None:
        """Raises RuntimeError where no task runs."""
        self._task = task = running_task()
        self._cancelling = task.cancelling()

    def _ends(self, error: BaseException | None) -> None:
        """Raises TimeoutError where it has cancelled what was waited for, and nobody else has."""
        # guard: A10.waiting-task -> task = self._task
        task, self._task = self._task, None  # which may have this as its result, or in its failure
        if self.expired:
            self.expired = False
            assert task is not None
            if task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
                raise TimeoutError from error

    def _cancel(self) -> None:
        if self._task is not None:
            self.expired = True
            self._task.cancel()


class Timeout(Wait):
    """One wait: `with timeouts.within(seconds): await ...` cancels what is waited for and raises
    TimeoutError when they have passed, as `async with asyncio.timeout` does."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s

    def __enter__(self) -> Timeout:
        """Raises RuntimeError where no task runs."""
        self._begins()
        self._slot = running_wheel().add(self, self._after_s)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._slot.pop(self, None)
        self._ends(error)

    def expire(self) -> None:
        self._cancel()


_wheel: TimerWheel | None = None


def running_wheel() -> TimerWheel:
    """The running loop's."""
    global _wheel
    loop, wheel = get_running_loop(), _wheel
    if wheel is None or wheel.loop is not loop:
        wheel = _wheel = TimerWheel(loop)
    return wheel


def running_task() -> asyncio.Task[object]:
    """The one that runs. Raises RuntimeError where none does."""
    task = current_task()
    if task is None:
        raise RuntimeError("only a task can wait")
    return task


within: Final = Timeout
