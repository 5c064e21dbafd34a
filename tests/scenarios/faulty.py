"""A gateway whose Triton can be killed, stopped, slowed, hung and made to fail, and a stream of
calls to it that says what became of each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, serving

SWITCHED = Path(__file__).parent / "switched"
_EVERY_S = 0.05
_BUDGET_MS = "8000"
_TENSOR = {"datatype": "INT32", "shape": [1, 16], "data": list(range(16))}
_BODY = {"inputs": [{"name": "INPUT0", **_TENSOR}, {"name": "INPUT1", **_TENSOR}]}


@dataclass(frozen=True, slots=True)
class Call:
    """What became of one."""

    restricted: bool
    sent_s: float
    done_s: float
    status: int
    zone: str
    reason: str
    retry_after: str = ""


@dataclass
class Patient:
    """One gateway over the switched model, and what can happen to its Triton."""

    gateway: LiveGateway
    repository: Path

    def switch(self, **state: Any) -> None:
        part = self.repository / "switch.part"
        part.write_text(json.dumps(state))
        part.replace(self.repository / "switch.json")

    def kill(self) -> None:
        os.kill(self.gateway.triton_pid(), signal.SIGKILL)

    def stop(self) -> Callable[[], None]:
        """Returns what sets it going again."""
        pid = self.gateway.triton_pid()
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)

    def kill_stub(self) -> None:
        triton = self.gateway.triton_pid()
        children = Path(f"/proc/{triton}/task/{triton}/children").read_text().split()
        for child in map(int, children):
            if b"switched" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(child, signal.SIGKILL)

    def health(self) -> dict[str, Any]:
        """Of the model on its server, as /status says."""
        status = self.gateway.client.get("/status").json()
        local = next(e for e in status["endpoints"] if e["endpoint"] == "local")
        found: dict[str, Any] = local["models"].get("switched", {})
        return {**found, "up": local["up"], "statistics": local["statistics"]}

    def proven(self) -> bool:
        return 'spillway_canaries_total{endpoint="local",result="passed"}' in self.gateway.metrics()


@contextlib.contextmanager
def patient(cloud: SimulatedCloud, scratch: Path, **changes: Any) -> Iterator[Patient]:
    repository = scratch / "repository"
    shutil.copytree(SWITCHED, repository)
    (repository / "switch.json").write_text("{}")
    document = {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "health": {"embedded_silent_s": 600.0},  # it is stopped for as long as a test takes
        "endpoints": {
            "local": {
                "kind": "triton", "zone": "onprem", "embedded": True,
                "repository": str(repository), "expected_ms": 20,
            },
            "away": {"kind": "kserve", "zone": "cloud", "url": cloud.http_url, "expected_ms": 50},
        },
        "models": {
            "switched": {
                "tensors": "clear",
                "served_by": [
                    {"endpoint": "local"},
                    {"endpoint": "away", "model": "simple", "substitute": False,
                     "price_usd": 0.001},
                ],
            }
        },
        **changes,
    }  # fmt: skip
    with serving(document, scratch) as gateway:
        yield Patient(gateway, repository)


@dataclass
class Pump:
    """Calls one after the other, clear and restricted in turn, none waiting for another."""

    url: str
    calls: list[Call] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        pumping = asyncio.create_task(self._pump())
        try:
            yield
        finally:
            pumping.cancel()
            await asyncio.gather(pumping, return_exceptions=True)

    async def _pump(self) -> None:
        limits = httpx.Limits(max_connections=2000, max_keepalive_connections=50)
        async with (
            httpx.AsyncClient(
                base_url=self.url, trust_env=False, timeout=30, limits=limits
            ) as client,
            asyncio.TaskGroup() as group,
        ):
            while True:
                for restricted in (False, True):
                    group.create_task(self._call(client, restricted))
                    await asyncio.sleep(_EVERY_S)

    async def _call(self, client: httpx.AsyncClient, restricted: bool) -> None:
        headers = {"x-latency-budget-ms": _BUDGET_MS}
        if restricted:
            headers["x-spillway-sensitivity"] = "restricted"
        sent_s = time.monotonic()
        answer = await client.post("/v2/models/switched/infer", json=_BODY, headers=headers)
        told = answer.headers
        self.calls.append(
            Call(
                restricted,
                sent_s,
                time.monotonic(),
                answer.status_code,
                told.get("x-spillway-zone", ""),
                told.get("x-spillway-reason", ""),
                told.get("retry-after", ""),
            )
        )

    async def until(self, seen: Callable[[Call], bool], within_s: float) -> Call:
        """The first call that was answered from now on and is as wanted."""
        at, end_s = len(self.calls), time.monotonic() + within_s
        while time.monotonic() < end_s:
            for call in self.calls[at:]:
                if seen(call):
                    return call
            at = len(self.calls)
            await asyncio.sleep(0.01)
        raise AssertionError(f"not within {within_s:g} s; last: {self.calls[-5:]}")
