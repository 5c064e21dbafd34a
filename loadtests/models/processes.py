"""What processes may run on, and what they used."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    return found


def cpu_s(pid: int) -> float:
    """Seconds of processor that a process and all that it started have used."""
    return sum(_cpu_s(one) for one in tree(pid))


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has just ended
    return (int(fields[11]) + int(fields[12])) * _TICK_S


@contextlib.contextmanager
def starting_on(cores: set[int] | None) -> Iterator[None]:
    """What is started in here stays on these cores; None: on all of them."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if cores is None else cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
