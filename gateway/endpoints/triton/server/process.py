"""One run of the server: its process group, its output and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from gateway.core import ambient
from gateway.endpoints.triton.server.home import ServerDirectory
from gateway.endpoints.triton.server.log import LOADED, LogFilter

logger = logging.getLogger("gateway.triton")

_POLL_S = 0.01
KILL_MARGIN_S = 2.0  # past the grace that Triton itself was given

# The kernel signals the server when the thread that started it ends. A function run between fork
# and exec would do the same and can deadlock in a process with threads (grpc has them), hence a
# launcher that becomes the server. The parent is compared: it may be gone before the request.
_LAUNCHER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class TritonProcess:
    """One run of the server: its process group, its output and its end."""

    def __init__(self, command: list[str], environment: Mapping[str, str], shm: str) -> None:
        self.log = LogFilter()
        self.loaded: list[str] = []
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._shm = shm
        self._reaping = threading.Lock()
        self._reaped = False
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._popen.stdout is not None
        for work, argument in (
            (self._read, self._popen.stdout),
            (self._wait, self.exited.get_loop()),
        ):
            threading.Thread(target=work, args=(argument,), name="triton", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def signal(self, number: signal.Signals) -> None:
        """To the server alone, so that it can end its stubs; SIGKILL goes to the whole group."""
        with self._reaping:
            if self._reaped:  # its number may be another process's by now
                return
            if number is signal.SIGKILL:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)

    async def end(self, grace_s: float) -> None:
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(self.exited), grace_s)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await asyncio.shield(self.exited)
        except asyncio.CancelledError:
            self.signal(signal.SIGKILL)
            raise

    def _read(self, output: IO[bytes]) -> None:
        with output:
            for raw in output:
                line = raw.decode("utf-8", "replace")
                if (model := LOADED.search(line)) and not self.log.serving:
                    self.loaded.append(model["model"])
                if record := self.log.record(line):
                    logger.log(*record)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        # Left unreaped until its group is dead: so long the number cannot name another group.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._reaping:
            os.killpg(self.pid, signal.SIGKILL)
            self._reaped = True
            code = self._popen.wait()
        self._await_stubs()
        ServerDirectory.free_shared_memory(self._shm)
        with contextlib.suppress(RuntimeError):  # the loop may be closed already
            loop.call_soon_threadsafe(self._note_exit, code)

    def _await_stubs(self) -> None:
        """A stub that is still dying may still be making shared memory."""
        give_up = ambient.monotonic_s() + KILL_MARGIN_S
        while _living(self.pid) and ambient.monotonic_s() < give_up:
            time.sleep(_POLL_S)

    def _note_exit(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)


def _living(group: int) -> bool:
    """Whether a process group has members that are more than zombies, which nobody may reap."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, leader = stat.read_text().rpartition(")")[2].split()[:3]
            if int(leader) == group and state not in "ZX":
                return True
    return False
