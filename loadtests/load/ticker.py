"""A clock that calls back at points in time, to some tens of microseconds.

Timers of event loops are good for a millisecond, which is more than a fast gateway adds to a call.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable

_MONOTONIC, _NONBLOCK_CLOEXEC, _ABSOLUTE = 1, os.O_NONBLOCK | os.O_CLOEXEC, 1


class _Timespec(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


class _Timer(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Ticker:
    """`due` is called on the loop soon after the time last given to `at`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[], None]) -> None:
        self._loop, self._due = loop, due
        self._handle: asyncio.TimerHandle | None = None
        self._fd = -1
        if sys.platform == "linux":  # Python 3.13 has os.timerfd_create
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.timerfd_create(_MONOTONIC, _NONBLOCK_CLOEXEC)
            self._timer = _Timer()
        if self._fd >= 0:
            loop.add_reader(self._fd, self._rang)

    def at(self, when_s: float) -> None:
        """`when_s` by time.monotonic()."""
        if self._fd < 0:
            self._handle = self._loop.call_later(when_s - time.monotonic(), self._due)
            return
        whole = int(when_s)
        self._timer.value.s = whole
        self._timer.value.ns = max(1, int((when_s - whole) * 1e9))
        self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(self._timer), None)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _rang(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        self._due()
