"""The process of a scan worker: how it is started, and how one is started ahead of its pool.

Half of what a worker takes to be ready is imports, which need no settings. `start_ahead` starts one
as soon as there is a loop, so that it imports on one core what it will need while the gateway
imports and reads its settings on another; the first pool that asks for such a worker gets it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process

from gateway.classify import ScanFailed
from gateway.classify.scan_workers import frames

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
    return await spawned("gateway.classify.scan_workers.worker", *how)


async def spawned(module: str, *how: str) -> Process:
    """A process of this package's that gets its parent and `how`, and answers over pipes."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", module, str(os.getpid()), *how),
        stdin=PIPE,
        stdout=PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(),
    )


class WorkerProcess:
    """A process that answers each frame with a frame, from the gateway's side."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ending: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, frame: bytes) -> bytes:
        """Raises ScanFailed when the process has died."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(frame)
            await stdin.drain()
            length = int.from_bytes(await stdout.readexactly(frames.HEADER_BYTES), "big")
            if length > frames.MAX_FRAME_BYTES:
                raise ScanFailed("the worker's answer is too long")
            return await stdout.readexactly(length)
        except (OSError, RuntimeError, asyncio.IncompleteReadError):
            # uvloop raises RuntimeError where a pipe is written to that it has closed
            raise ScanFailed("the worker has died") from None

    async def kill(self) -> None:
        """End the process and close its pipes, whoever asks and however often. A caller that is
        cancelled leaves the ending to run on; asking again waits for it."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        stdin.close()
        # asyncio closes the transport at the end of both pipes, which may come after the process's.
        while await stdout.read(frames.HEADER_BYTES * 1024):
            pass
        with contextlib.suppress(OSError):
            await stdin.wait_closed()
        await self._process.wait()
