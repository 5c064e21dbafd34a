"""The demo from start to end: a cloud, a gateway, four phases of calls, and what came of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gateway.accounting.audit import alias_key
from gateway.core.aliases import Aliases
from gateway.demo import gateway_process
from gateway.demo.clients import Clients
from gateway.demo.cloud.process import SimulatedCloud
from gateway.demo.decided import DecisionFeed
from gateway.demo.gateway_process import GatewayProcess
from gateway.demo.observed import Observed
from gateway.demo.plan import PHASES, Phase, PlannedCall, plan
from gateway.demo.preparation import prepare
from gateway.demo.proof import Proof, prove
from gateway.demo.summary import Ended, Summary, summarise

CONFIG = Path(__file__).parent / "demo.yaml"
SEED = 20  # the same calls in every run of the same length
CALLS_PER_S = 16.0
_KEY = "demo-only"
_TICK_S = 0.25
_RECORDED_S = 3.0
_BACK_S = 60.0  # for Triton to be up again; it takes about three seconds


@dataclass(frozen=True, slots=True)
class Options:
    models: Path
    directory: Path  # where records, logs and the cloud's byte log go
    seconds: float
    http_port: int
    grpc_port: int

    @property
    def records(self) -> Path:
        return self.directory / "audit"

    @property
    def stop_file(self) -> Path:
        """The kill switch of spilling."""
        return self.directory / "stop-spilling"

    @property
    def gateway_log(self) -> Path:
        return self.directory / "gateway.log"

    @property
    def cloud_bytes(self) -> Path:
        return self.directory / "cloud-bytes.jsonl"


@dataclass(frozen=True, slots=True)
class RunProgress:
    """A look at the run while it goes on."""

    phase: Phase
    elapsed_s: float
    total_s: float
    ended: Sequence[Ended]
    waiting: Mapping[str, int]  # sent and not answered yet, by class
    onprem_up: bool | None  # None: not known
    queued: int  # in the gateway's queue


class Screen(Protocol):
    """Who shows what happens."""

    def step(self, text: str) -> None: ...
    def phase(self, phase: Phase) -> None: ...
    def show(self, view: RunProgress) -> None: ...


@dataclass(frozen=True, slots=True)
class DemoResult:
    summary: Summary
    proof: Proof
    gateway: GatewayProcess
    cloud: SimulatedCloud


@contextlib.asynccontextmanager
async def demonstration(options: Options, screen: Screen) -> AsyncIterator[DemoResult]:
    """The result, while everything goes on serving. Raises GatewayDied or CloudFailed."""
    async with contextlib.AsyncExitStack() as stack:
        screen.step("starting the simulated cloud")
        cloud = await stack.enter_async_context(
            SimulatedCloud.start(options.models, options.cloud_bytes, api_key=_KEY, seed=SEED)
        )
        await prepare(CONFIG, _environment(options, cloud), screen.step)
        screen.step("starting the gateway")
        gateway = await stack.enter_async_context(
            gateway_process.serving(
                ["--config", str(CONFIG), *_ports(options)],
                _environment(options, cloud),
                options.gateway_log,
                screen.step,
            )
        )
        screen.step(f"look at it in a browser: {gateway.http_url}/console")
        ended = await _unless_dead(gateway, _play(options, gateway, screen))
        screen.step("searching what reached the cloud for every restricted call")
        yield DemoResult(summarise(ended), await prove(cloud, ended), gateway, cloud)


def _ports(options: Options) -> list[str]:
    http, grpc = str(options.http_port), str(options.grpc_port)
    return ["--http-port", http, "--grpc-port", grpc]


def _environment(options: Options, cloud: SimulatedCloud) -> dict[str, str]:
    return {
        "SPILLWAY_DEMO_MODELS": str(options.models),
        "SPILLWAY_DEMO_RECORDS": str(options.records),
        "SPILLWAY_DEMO_CLOUD_URL": cloud.http_url,
        "SPILLWAY_DEMO_CLOUD_GRPC": cloud.grpc_target,
        "SPILLWAY_DEMO_CLOUD_KEY": _KEY,
        "SPILLWAY_DEMO_STOP": str(options.stop_file),
    }


async def _unless_dead(
    gateway: GatewayProcess, work: Awaitable[Sequence[Ended]]
) -> Sequence[Ended]:
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(gateway.died())
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            await watching
        return await working
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _play(options: Options, gateway: GatewayProcess, screen: Screen) -> Sequence[Ended]:
    use_no_proxy_on_this_machine(os.environ)
    async with Clients(gateway.http_port, gateway.grpc_port) as clients:
        return await _Traffic(options, gateway, screen, clients.send).run()


def use_no_proxy_on_this_machine(environment: Any) -> None:
    """The SDKs obey HTTP_PROXY even for loopback, unless they are told otherwise."""
    for name in ("no_proxy", "NO_PROXY"):
        listed = [host for host in environment.get(name, "").split(",") if host]
        environment[name] = ",".join(dict.fromkeys([*listed, "127.0.0.1", "localhost"]))


class _Traffic:
    """An open loop: each call is sent at its time, whether others are answered or not."""

    def __init__(
        self,
        options: Options,
        gateway: GatewayProcess,
        screen: Screen,
        send: Callable[[PlannedCall], Awaitable[Observed]],
    ) -> None:
        self._gateway, self._screen, self._send = gateway, screen, send
        self._seconds = options.seconds
        self._plan = plan(SEED, round(options.seconds * CALLS_PER_S), options.seconds)
        self._records = DecisionFeed(options.records)
        self._directory = options.records
        self._aliases: Aliases | None = None
        self._observed: list[Observed] = []
        self._sent = {True: 0, False: 0}
        self._started_s = time.monotonic()
        self._phase = PHASES[0]

    async def run(self) -> Sequence[Ended]:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._observe())
            async with asyncio.TaskGroup() as calls:
                for phase in PHASES:
                    await self._begin(phase)
                    await self._phase_calls(phase, calls)
            looking.cancel()
        await self._recorded()
        return self._ended()

    async def _recorded(self) -> None:
        """How a stream ended is on record a moment after its caller has seen it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RECORDED_S):
                while not all(e.decided and e.decided.final for e in self._ended()):
                    await asyncio.sleep(_TICK_S)
                    self._records.read()

    async def _begin(self, phase: Phase) -> None:
        if phase.name == "recovery":
            await self._triton_is_back()
        self._phase = phase
        self._screen.phase(phase)
        if phase.name == "outage" and not self._gateway.kill_triton():
            self._screen.step("  (its process was not found: it goes on)")

    async def _phase_calls(self, phase: Phase, calls: asyncio.TaskGroup) -> None:
        began_s = time.monotonic()
        for call in self._plan[phase.name]:
            await asyncio.sleep(began_s + call.at_s - time.monotonic())
            self._sent[call.restricted] += 1
            calls.create_task(self._one(call))
        ends_s = began_s + phase.time_share * self._seconds
        await asyncio.sleep(ends_s - time.monotonic())

    async def _one(self, call: PlannedCall) -> None:
        self._observed.append(await self._send(call))

    async def _triton_is_back(self) -> None:
        with contextlib.suppress(TimeoutError):  # the calls to come will show what is wrong
            async with asyncio.timeout(_BACK_S):
                while not _onprem_up(await self._gateway.status()):  # noqa: ASYNC110 - remote
                    await asyncio.sleep(_TICK_S)

    async def _observe(self) -> None:
        while True:
            self._screen.show(await self._view())
            await asyncio.sleep(_TICK_S)

    async def _view(self) -> RunProgress:
        status = await self._gateway.status()
        self._records.read()
        done = {kind: sum(o.call.restricted is kind for o in self._observed) for kind in self._sent}
        return RunProgress(
            phase=self._phase,
            elapsed_s=time.monotonic() - self._started_s,
            total_s=self._seconds,
            ended=self._ended(),
            waiting={
                "restricted": self._sent[True] - done[True],
                "clear": self._sent[False] - done[False],
            },
            onprem_up=None if status is None else _onprem_up(status),
            queued=0 if status is None else _queued(status),
        )

    def _ended(self) -> Sequence[Ended]:
        if self._aliases is None:
            self._aliases = alias_key.known(self._directory)
        by_trace, aliases = self._records.by_trace, self._aliases
        if aliases is None:
            return [Ended(observed, None) for observed in self._observed]
        return [Ended(o, by_trace.get(aliases.trace_alias(o.call.trace))) for o in self._observed]


def _onprem_up(status: Mapping[str, Any] | None) -> bool:
    endpoints = status["endpoints"] if status else ()
    return any(e["up"] and e["zone"] == "onprem" for e in endpoints)


def _queued(status: Mapping[str, Any]) -> int:
    return sum(queue["waiting"] for queue in status["queues"])
