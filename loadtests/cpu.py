"""What a process and all below it have used of the processor, as /proc says (Linux)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def used_s(pid: int) -> float:
    """User and system time of the process, its descendants, and those of them that have ended.

    Raises OSError when there is no such process, or no /proc.
    """
    ticks = _ticks(Path(f"/proc/{pid}"))
    for child in descendants(pid):
        with contextlib.suppress(OSError):  # ended since: its parent has its time now
            ticks += _ticks(Path(f"/proc/{child}"))
    return ticks / _TICKS_PER_S


def _ticks(process: Path) -> int:
    # The name stands in parentheses and may hold anything, spaces too.
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return sum(int(fields[at]) for at in (11, 12, 13, 14))  # utime, stime, cutime, cstime


def descendants(pid: int) -> list[int]:
    """Of a process, all that are there now."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                for child in (task / "children").read_text().split():
                    found += [int(child), *descendants(int(child))]
    return found
