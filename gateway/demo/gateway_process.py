"""The product, run as a user would: `spillway serve` in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

_START_S = 120.0
_STOP_S = 20.0  # it drains for a few seconds, and then Triton has its own
_POLL_S = 0.1
_STATUS_S = 2.0
_TAIL_LINES = 15

# So that nothing is left running when the demo itself is killed: the kernel tells the gateway, and
# the gateway stops its Triton. (A function between fork and exec could do it too, and can deadlock
# in a process with threads.)
_LAUNCHER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class GatewayDied(RuntimeError):
    """The gateway ended, or did not come up; the message ends with the tail of its log."""


@dataclass(slots=True)
class GatewayProcess:
    process: asyncio.subprocess.Process
    log: Path
    http_port: int
    grpc_port: int
    _client: httpx.AsyncClient = field(repr=False)

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    async def status(self) -> Mapping[str, Any] | None:
        """What /status says; None while it is too busy to say."""
        try:
            document: Mapping[str, Any] = (await self._client.get("/status")).json()
        except (httpx.HTTPError, ValueError):
            return None
        return document

    async def died(self) -> None:
        """Returns never; raises GatewayDied when the process ends by itself."""
        code = await self.process.wait()
        raise died(f"the gateway ended by itself (exit code {code})", self.log)

    def kill_triton(self) -> bool:
        """kill -9 of the embedded server, which is the gateway's to notice and to mend."""
        killed = False
        for pid in _children(self.process.pid):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/exe").endswith("/tritonserver"):
                    os.kill(pid, signal.SIGKILL)
                    killed = True
        return killed


@contextlib.asynccontextmanager
async def serving(
    arguments: list[str], environment: Mapping[str, str], log: Path, report: Callable[[str], None]
) -> AsyncIterator[GatewayProcess]:
    """A gateway that serves until the block ends. Raises GatewayDied when it does not start."""
    ready = log.with_name("ready.json")
    ready.unlink(missing_ok=True)
    process = await _spawn([*arguments, "--ready-file", str(ready)], environment, log)
    try:
        ports = await _ready(process, ready, log, report)
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{ports['http_port']}",
            transport=httpx.AsyncHTTPTransport(),  # explicit: no proxy of the environment
            trust_env=False,
            timeout=_STATUS_S,
        ) as client:
            yield GatewayProcess(process, log, ports["http_port"], ports["grpc_port"], client)
    finally:
        await asyncio.shield(_stop(process))
        ready.unlink(missing_ok=True)


def died(what: str, log: Path) -> GatewayDied:
    lines = log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:]
    return GatewayDied("\n".join([f"{what}; the end of {log}:", *(f"  {line}" for line in lines)]))


async def _spawn(
    arguments: list[str], environment: Mapping[str, str], log: Path
) -> asyncio.subprocess.Process:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
    serve = [sys.executable, "-m", "gateway", "serve", *arguments]
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *serve),
            env={**os.environ, **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # Ctrl-C is the demo's, which then stops it in order
        )
    finally:
        os.close(out)


async def _ready(
    process: asyncio.subprocess.Process, ready: Path, log: Path, report: Callable[[str], None]
) -> Mapping[str, int]:
    last_line = ""
    try:
        async with asyncio.timeout(_START_S):
            while (ports := _ports(ready)) is None:
                if process.returncode is not None:
                    raise died("the gateway did not start", log)
                if (step := _last_step(log)) and step != last_line:
                    report(last_line := step)
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise died(f"the gateway did not start within {_START_S:.0f} s", log) from None
    return ports


def _ports(ready: Path) -> Mapping[str, int] | None:
    ports: Mapping[str, int] | None = json.loads(ready.read_text()) if ready.exists() else None
    return ports


def _last_step(log: Path) -> str:
    """Where it does not speak to a terminal, all that the gateway writes are lines of JSON."""
    messages = map(_message, log.read_text("utf-8", "replace").splitlines())
    steps = [message for message in messages if message.startswith("starting")]
    return steps[-1] if steps else ""


def _message(line: str) -> str:
    """Of a line of the log; empty for one that is no JSON, or not whole yet."""
    try:
        entry = json.loads(line)
    except ValueError:
        return ""
    return str(entry.get("message", "")) if isinstance(entry, dict) else ""


async def _stop(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            children += [int(child) for child in (task / "children").read_text().split()]
    return children
