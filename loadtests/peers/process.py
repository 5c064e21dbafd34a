"""Processes that this run starts, and ends."""

from __future__ import annotations

import ctypes
import http.client
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loadtests.peers import Absent

_STOP_S = 10.0
_TAIL = 400
_LIBC = ctypes.CDLL(None)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


class Process:
    """Ends with this process, whatever ends that."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        cores: Sequence[int] = (),
    ) -> None:
        self._log = log
        kept = {k: v for k, v in os.environ.items() if k.lower() not in _PROXIES}
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [str(argument) for argument in arguments],
                env={**kept, **(environment or {})},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=_with_parent,
            )
        if cores:
            os.sched_setaffinity(self._process.pid, cores)

    @property
    def pid(self) -> int:
        return self._process.pid

    def said(self) -> str:
        return self._log.read_bytes()[-_TAIL:].decode("utf-8", "replace").strip()

    def await_file(self, path: Path, within_s: float) -> None:
        """Raises Absent when the process ends, or is not ready within that time."""
        self._await(path.exists, within_s)

    def await_answer(
        self,
        port: int,
        path: str,
        within_s: float,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Until this path is answered with 200; a POST with a body. Raises Absent as above."""
        self._await(lambda: _answers(port, path, body, headers or {}), within_s)

    def stop(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                os.killpg(self._process.pid, number)
                try:
                    self._process.wait(_STOP_S)
                except subprocess.TimeoutExpired:
                    continue

    def _await(self, ready: Callable[[], bool], within_s: float) -> None:
        until_s = time.monotonic() + within_s
        while not ready():
            if self._process.poll() is not None:
                raise Absent(f"it ended with {self._process.returncode}: {self.said()}")
            if time.monotonic() > until_s:
                self.stop()
                raise Absent(f"not ready within {within_s:.0f} s: {self.said()}")
            time.sleep(0.1)


def _answers(port: int, path: str, body: bytes | None, headers: Mapping[str, str]) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        method = "GET" if body is None else "POST"
        given = {"content-type": "application/json", **headers} if body is not None else headers
        connection.request(method, path, body, dict(given))
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _with_parent() -> None:
    _LIBC.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
