"""A child that is killed with SIGKILL while it works, and what it had told by then."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any


def killed(
    work: Callable[[int], Coroutine[Any, Any, None]], after_s: float, once_it_told: bool = False
) -> bytes:
    """Whatever `work` wrote to the descriptor that it was given. With `once_it_told`, `after_s`
    counts from its first word. Raises SystemExit when it ended by itself."""
    pid, reading = _forked(work)
    try:
        told = os.read(reading, 65536) if once_it_told else b""
        time.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
        while some := os.read(reading, 65536):
            told += some
    finally:
        os.close(reading)
        _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit("the child that was to be killed ended by itself")
    return told


def _forked(work: Callable[[int], Coroutine[Any, Any, None]]) -> tuple[int, int]:
    reading, told = os.pipe()
    pid = os.fork()
    if pid:
        os.close(told)
        return pid, reading
    try:
        asyncio.run(work(told))
    finally:
        os._exit(1)
