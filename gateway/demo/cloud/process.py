"""Starts a simulated cloud as a process of its own, and speaks to its control port."""

import asyncio
import contextlib
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from gateway.demo.cloud.search import NeedleHit
from gateway.demo.cloud.settings import Setting

_START_S = 30.0  # the models are loaded before the ports open
_CONTROL_S = 60.0  # a search reads the whole log


class CloudFailed(RuntimeError):
    """The process did not start, or refused what the control port was asked."""


@dataclasses.dataclass(frozen=True, slots=True)
class CloudTraffic:
    """What reached the cloud since it started, or since `reset`."""

    records: int
    bytes: int
    connections: int
    routes: Mapping[str, int]  # "POST /v1/chat/completions", "grpc ModelInfer", ...
    models: Mapping[str, int]
    answers: Mapping[str, int]  # HTTP statuses


class SimulatedCloud:
    """`async with SimulatedCloud.start(models, error_rate=0.1) as cloud: ...`"""

    def __init__(self, ready: Mapping[str, Any], control: httpx.AsyncClient) -> None:
        self.http_url = f"http://127.0.0.1:{ready['http_port']}"
        self.grpc_target = f"127.0.0.1:{ready['grpc_port']}"
        self.control_url = f"http://127.0.0.1:{ready['control_port']}"
        self.byte_log = Path(ready["byte_log"])
        self.pid: int = ready["pid"]
        self._control = control

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls, models: Path, byte_log: Path | None = None, **settings: Setting
    ) -> "AsyncIterator[SimulatedCloud]":
        """It ends with the block, or (PR_SET_PDEATHSIG) with the thread that started it."""
        with tempfile.TemporaryDirectory(prefix="simulated-cloud-") as scratch:
            config, errors = Path(scratch, "settings.yaml"), Path(scratch, "stderr")
            _write(config, yaml.safe_dump(settings))
            process = await _spawn(
                errors,
                *("--models", str(models), "--config", str(config)),
                *("--byte-log", str(byte_log or Path(scratch, "bytes.jsonl"))),
            )
            try:
                ready = await _ready(process, errors)
                url = f"http://127.0.0.1:{ready['control_port']}"
                transport = httpx.AsyncHTTPTransport()  # explicit: no proxy of the environment
                async with httpx.AsyncClient(
                    base_url=url, transport=transport, trust_env=False, timeout=_CONTROL_S
                ) as control:
                    yield cls(ready, control)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    async def set(self, **settings: Setting) -> None:
        """Change some settings and keep the others; true of the ports when it returns."""
        await self._post("/control/settings", settings)

    async def reset(self) -> None:
        """As it was when it started: settings, dice, counts of zero, an empty byte log."""
        await self._post("/control/reset", {})

    async def state(self) -> Mapping[str, Any]:
        return _checked(await self._control.get("/control/state"))

    async def traffic(self) -> CloudTraffic:
        return CloudTraffic(**_checked(await self._control.get("/control/log")))

    async def search(self, needles: Sequence[str]) -> list[NeedleHit]:
        """Where the needles occur. Raises if something received could not be decompressed."""
        document = await self._post("/control/search", {"needles": list(needles)})
        if document["opaque_bodies"]:
            raise CloudFailed(f"{document['opaque_bodies']} received bodies could not be searched")
        return [NeedleHit(**hit) for hit in document["hits"]]

    async def _post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return _checked(await self._control.post(path, json=body))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


async def _spawn(errors: Path, *arguments: str) -> asyncio.subprocess.Process:
    stderr = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway.demo.cloud", "--parent", str(os.getpid())),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
        )
    finally:
        os.close(stderr)


def _tail(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[-2000:]


async def _ready(process: asyncio.subprocess.Process, errors: Path) -> Mapping[str, Any]:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_S):
            line = await process.stdout.readline()
    except TimeoutError:
        line = b""
    if not line:
        raise CloudFailed(f"the simulated cloud did not start: {_tail(errors)}")
    ready: Mapping[str, Any] = json.loads(line)
    return ready


def _checked(response: httpx.Response) -> Mapping[str, Any]:
    body: Mapping[str, Any] = response.json()
    if response.is_error:
        raise CloudFailed(str(body.get("error")))
    return body
