"""What an event loop costs while it serves an input: the longest of its turns, by the processor's
time of its thread, and the memory of the process.
"""

from __future__ import annotations

import asyncio
import ctypes
import re
import selectors
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

_PEAK = re.compile(rb"VmHWM:\s+([0-9]+) kB")
_NOW = re.compile(rb"VmRSS:\s+([0-9]+) kB")
_LIBC = ctypes.CDLL(None)


class MeteredLoop(asyncio.SelectorEventLoop):
    """Of one thread. Figures are of all turns since `clear`."""

    def __init__(self) -> None:
        super().__init__(selectors.EpollSelector())
        self.longest_ns = self.total_ns = self.turns = 0

    def clear(self) -> None:
        self.longest_ns = self.total_ns = self.turns = 0

    def _run_once(self) -> None:
        begun_ns = time.thread_time_ns()
        super()._run_once()  # type: ignore[misc]
        spent_ns = time.thread_time_ns() - begun_ns
        self.turns += 1
        self.total_ns += spent_ns
        self.longest_ns = max(self.longest_ns, spent_ns)


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts calls of functions, Python's and C's, in the place of time: the same on each machine.
    `most_calls` is of one turn."""

    def __init__(self) -> None:
        super().__init__(selectors.EpollSelector())
        self.most_calls = self.calls = 0
        self._of_turn = 0

    def clear(self) -> None:
        self.most_calls = self.calls = 0

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self._of_turn += 1

    def _run_once(self) -> None:
        self._of_turn = 0
        sys.setprofile(self._count)
        try:
            super()._run_once()  # type: ignore[misc]
        finally:
            sys.setprofile(None)
        self.calls += self._of_turn
        self.most_calls = max(self.most_calls, self._of_turn)


def resident_bytes(pid: int | str = "self") -> int:
    return _read(_NOW, pid)


def peak_bytes(pid: int | str = "self") -> int:
    return _read(_PEAK, pid)


def clear_peak(pid: int | str = "self") -> None:
    """From now on `peak_bytes` counts."""
    if pid == "self":
        _LIBC.malloc_trim(0)
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _read(kind: re.Pattern[bytes], pid: int | str) -> int:
    found = kind.search(Path(f"/proc/{pid}/status").read_bytes())
    return 0 if found is None else int(found[1]) * 1024
