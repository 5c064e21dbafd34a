"""The process of a scan worker: how it is started, and how one is started ahead of its pool.

Half of what a worker takes to be ready is imports, which need no settings. `start_ahead` starts one
as soon as there is a loop, so that it imports on one core what it will need while the gateway
imports and reads its settings on another; the first pool that asks for such a worker gets it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process

FIRST = "gateway.classify.scan_workers.factories:build_first"
"""The factory of verdicts: whoever serves has such a worker."""

_PRESIDIO_REGEX_S = "3600"
_PASSED_ENV = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "TMPDIR",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
)

_ahead: Process | None = None


def environment() -> dict[str, str]:
    """What a worker needs and no more: no proxies, no secrets. REGEX_TIMEOUT_SECONDS is the limit
    at which Presidio skips a pattern and carries on as if it had not matched; a scan of ours ends
    long before, by our own clock, and counts as late."""
    passed = {name: os.environ[name] for name in _PASSED_ENV if name in os.environ}
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    return passed | {"PYTHONPATH": path, "REGEX_TIMEOUT_SECONDS": _PRESIDIO_REGEX_S}


async def start_ahead() -> None:
    """One for `FIRST`. It ends by itself when nobody asked for it and this process is gone."""
    global _ahead
    _ahead = await _started("ahead")


async def none_ahead() -> None:
    """It turned out that this process scans nothing, or not any more."""
    global _ahead
    idle, _ahead = _ahead, None
    if idle is not None and idle.returncode is None:
        idle.kill()
        await idle.wait()


async def started(factory: str) -> Process:
    """One that waits for its spec on standard input."""
    global _ahead
    if factory == FIRST and _ahead is not None:
        process, _ahead = _ahead, None
        if process.returncode is None:
            return process
    return await _started()


async def _started(*how: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "gateway.classify.scan_workers.worker", str(os.getpid()), *how),
        stdin=PIPE,
        stdout=PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(),
    )
