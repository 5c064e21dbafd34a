"""Which process holds a lease, and whether it is still there.

The name holds what tells processes of one machine apart for ever: the boot, the PID namespace, the
number, and when it started. Of a process elsewhere nobody here can know; its leases expire.
"""

from __future__ import annotations

import os
from pathlib import Path

from gateway.core import ambient

_PROC = Path("/proc")


def this_process() -> str:
    """With an end of its own, as several gateways may live in one process."""
    started = _started(os.getpid())
    return "/".join((_machine(), str(os.getpid()), started, ambient.random_hex(4)))


def is_gone(owner: str) -> bool:
    """Whether it certainly is: it ran here, and does not any more."""
    machine, pid, started, _ = owner.rsplit("/", 3) if owner.count("/") >= 3 else ("", "", "", "")
    if machine != _machine() or not pid.isdigit():
        return False
    return _started(int(pid)) != started


def _machine() -> str:
    """What process numbers are unique in."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:  # no Linux: leases expire
        return ambient.random_hex(8)


def _started(pid: int) -> str:
    """In clock ticks since the boot, which no second process of that number shares."""
    try:
        after_name = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if after_name[0] in "ZX" else after_name[19]  # field 22 of proc(5)
