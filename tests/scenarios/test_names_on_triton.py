"""Names on a real Triton: what it finds, and that whatever happens to it restricts, in time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from gateway.classify import NoScan, ScanFailed, ScanLate, ScannersBusy, ScannerUnfit
from gateway.classify.names import canaries
from gateway.classify.names.canaries import CANARIES
from gateway.classify.names.engines.local import LocalNames
from gateway.classify.names.engines.reader import UnmeasuredLanguage
from gateway.classify.names.engines.triton import THREADS, TRUST_S, TritonNames
from gateway.config import EndpointSettings
from gateway.core.reply import ReplyStream
from gateway.core.types import Finding, InferenceRequest, ServedModel, TensorCall, Zone
from gateway.endpoints.connectors import Connector, OnPremDoor
from gateway.endpoints.connectors.kinds import build_connector
from gateway.endpoints.triton.server.options import TritonOptions
from gateway.endpoints.triton.server.ports import TritonPorts
from gateway.endpoints.triton.server.server import TritonServer
from tests.live import MODELS
from tests.models.serving import running

pytestmark = pytest.mark.anyio

ADA = "Please call Margaret Whitfield about her appointment on Monday."
NOBODY = "Write a short summary of the water cycle."
DOUBTFUL = "How many windows does Hannah smash?"  # the first model alone: "Hannah smash"
RUSSIAN = "Кошка сидела на ковре и долго смотрела в окно."
BUDGET_S = 5.0
SAMPLES = len(CANARIES) + len(canaries.NOBODY)


@pytest.fixture(scope="module")
def built() -> None:
    pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")
    subprocess.run([sys.executable, str(MODELS / "build.py"), "--only", "names"], check=True)


OPTIONS = TritonOptions(
    repositories=(MODELS,), models=("names",), stop_grace_s=1.0, backoff_first_s=0.1
)


@pytest.fixture(scope="module")
def triton(built: None) -> Iterator[TritonServer]:
    with running(OPTIONS) as server:
        assert server.unavailable == {}
        yield server


@pytest.fixture
def own_triton(built: None) -> Iterator[TritonServer]:
    """One that a test may hurt."""
    with running(OPTIONS) as server:
        yield server


class Watched:
    """A door that counts who went through it, and can be held shut."""

    def __init__(self, connector: Connector) -> None:
        self._door = OnPremDoor(connector)
        self.calls: list[InferenceRequest] = []
        self.shut = False

    async def infer(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        self.calls.append(request)
        if self.shut:
            await asyncio.Event().wait()
        return await self._door.infer(request, served)


def connector_of(ports: TritonPorts, kind: str = "triton") -> Connector:
    sides = {
        "triton": {"kind": "triton", "grpc": f"127.0.0.1:{ports.grpc}"},
        "kserve over grpc": {"kind": "kserve", "grpc": f"127.0.0.1:{ports.grpc}"},
        "kserve over http": {"kind": "kserve", "url": f"http://127.0.0.1:{ports.http}"},
    }
    settings = EndpointSettings.model_validate({"zone": "onprem", **sides[kind]})
    assert settings.zone is Zone.ONPREM
    return build_connector(settings, None)


class Clock:
    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


@contextlib.asynccontextmanager
async def names_at(
    ports: TritonPorts,
    kind: str = "triton",
    *,
    max_waiting: int = 256,
    model: str = "names",
    clock: Clock | None = None,
) -> AsyncIterator[tuple[TritonNames, Watched]]:
    connector = connector_of(ports, kind)
    door = Watched(connector)
    names = TritonNames(door, model, ("en", "de"), max_waiting=max_waiting, clock=clock or Clock())
    try:
        await names.start()
        yield names, door
    finally:
        await names.aclose()
        await connector.aclose()


async def outcome(names: TritonNames, text: str = ADA, budget_s: float = BUDGET_S) -> str:
    try:
        (found,) = await names.find([text], budget_s)
    except NoScan as failure:
        return failure.reason
    return "found" if found else "nothing"


async def until(reached: Callable[[], Awaitable[bool]], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not await reached():  # noqa: ASYNC110 - a server in another process has no event
            await asyncio.sleep(0.05)


# What it finds


@pytest.mark.parametrize("kind", ["triton", "kserve over grpc", "kserve over http"])
async def test_an_endpoint_finds_what_the_gateway_finds_by_itself(
    kind: str, triton: TritonServer
) -> None:
    texts = [ADA, NOBODY, "", f"{NOBODY} " * 400 + ADA, "Er heißt Jürgen Kessler, sagt er."]
    texts.append(DOUBTFUL)

    local = LocalNames(("en",))
    await local.start()
    try:
        here = await local.find(texts, BUDGET_S)
    finally:
        await local.aclose()
    async with names_at(triton.ports, kind) as (names, _):
        there = await names.find(texts, BUDGET_S)
    assert [spans(f) for f in there] == [spans(f) for f in here]
    assert [len(f) > 0 for f in there] == [True, False, False, True, True, True]
    assert spans(there[-1]) == [("PERSON", 22, 28)]


def spans(found: list[Finding]) -> list[tuple[str, int, int]]:
    return [(f.type, f.start, f.end) for f in found]


async def test_calls_that_come_together_share_executions(triton: TritonServer) -> None:
    async with names_at(triton.ports) as (names, door):
        texts = [f"{NOBODY} " * (1 + at % 5) for at in range(48)]  # of unequal length
        fewest = len(texts)
        for _ in range(5):  # they come together only if nothing holds this process up
            before = await executions(triton)
            door.calls.clear()
            found = await asyncio.gather(*(names.find([t], 20.0) for t in texts))
            assert found == [[[]]] * len(texts)
            assert len(door.calls) == len(texts)
            fewest = min(fewest, await executions(triton) - before)
        calls, executed = len(texts), fewest
    assert executed < calls / 2


async def executions(triton: TritonServer) -> int:
    import tritonclient.grpc.aio as client  # it starts threads, so not before it is needed

    async with client.InferenceServerClient(f"127.0.0.1:{triton.ports.grpc}") as asked:
        told = await asked.get_inference_statistics("names")
    return int(told.model_stats[0].execution_count)


async def test_no_text_goes_over_the_wire(triton: TritonServer) -> None:
    async with names_at(triton.ports) as (names, door):
        calls, samples = door.calls, len(door.calls)
        await names.find([ADA], BUDGET_S)
    assert len(calls) == samples + 1
    for call in calls:
        assert isinstance(call.payload, TensorCall)
        sent = repr(call).encode() + b"".join(t.data for t in call.payload.inputs)
        assert b"Margaret" not in sent
        assert b"whitfield" not in sent.lower()


async def test_a_text_in_a_language_that_was_not_measured_restricts(triton: TritonServer) -> None:
    async with names_at(triton.ports) as (names, _):
        found = await outcome(names, RUSSIAN)
        assert await outcome(names) == "found"  # and costs the others nothing
        assert found == UnmeasuredLanguage.reason


# What can happen to it


async def test_a_server_that_is_killed_restricts_until_it_is_back(own_triton: TritonServer) -> None:
    async with names_at(own_triton.ports) as (names, door):
        assert await outcome(names) == "found"
        assert own_triton.pid is not None
        os.kill(own_triton.pid, signal.SIGKILL)
        assert await outcome(names, NOBODY, 2.0) in ("failed", "late")
        door.calls.clear()
        await until(lambda: is_found(names))
        rows, at = [text_rows(call) for call in door.calls], 0
        assert rows.pop() == 1
        while rows[at:] and sum(rows[at:]) > SAMPLES:  # those of a server that was not back yet
            at += 1
        assert sum(rows[at:]) == SAMPLES


def text_rows(call: InferenceRequest) -> int:
    assert isinstance(call.payload, TensorCall)
    return call.payload.inputs[0].shape[0]


async def is_found(names: TritonNames) -> bool:
    return await outcome(names, budget_s=2.0) == "found"


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_server_that_hangs_restricts_within_the_budget(
    trusted: bool, own_triton: TritonServer
) -> None:
    clock = Clock()
    async with names_at(own_triton.ports, clock=clock) as (names, _):
        assert await outcome(names) == "found"
        clock.ahead_s = 0.0 if trusted else TRUST_S
        pid = own_triton.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            started_s = time.monotonic()
            many = 3 * THREADS  # more than there are threads
            found = await asyncio.gather(*(outcome(names, NOBODY, 2.0) for _ in range(many)))
            assert found == ["late"] * many
            # One after the other in the threads would be three times the budget.
            assert time.monotonic() - started_s < 2 * 2.0
        finally:
            os.kill(pid, signal.SIGCONT)
        await until(lambda: is_found(names))


async def test_a_server_that_is_not_up_at_the_start_restricts_until_it_is(built: None) -> None:
    server = TritonServer(OPTIONS)
    ports = await server.start()
    await server.aclose()
    async with names_at(ports) as (names, _):
        assert await outcome(names, NOBODY, 1.0) in ("failed", "late")
        options = TritonOptions(repositories=(MODELS,), models=("names",), ports=ports)
        async with TritonServer(options):
            await until(lambda: is_found(names))


async def test_a_model_that_the_server_does_not_have_restricts(triton: TritonServer) -> None:
    async with names_at(triton.ports, model="nobodys") as (names, _):
        assert (await outcome(names, NOBODY)) == "failed"


def test_a_model_with_other_weights_stops_the_start(built: None, tmp_path: Path) -> None:
    """A gateway whose tables are not those of the model would look its words up in vain."""
    repository = tmp_path / "models"
    shutil.copytree(MODELS / "names" / "1", repository / "names" / "1")
    shutil.copy(MODELS / "names" / "config.pbtxt", repository / "names")
    runtime = repository / "names" / "1" / "runtime.py"
    head, run, tail = runtime.read_text().partition("logits = self.session.run")
    assert run
    runtime.write_text(f"{head}rows[..., 4:12] = 7  # other words\n            {run}{tail}")

    async def scenario() -> None:
        options = TritonOptions(repositories=(repository,))
        async with TritonServer(options) as server, names_at(server.ports):
            raise AssertionError("it started")

    with pytest.raises(ScannerUnfit, match="is not the one of this release"):
        asyncio.run(scenario())


def test_an_endpoint_without_a_door_on_the_premises_stops_the_start() -> None:
    async def scenario() -> None:
        names = TritonNames(None, "names", ("en",))
        try:
            await names.start()
        finally:
            await names.aclose()

    with pytest.raises(ScannerUnfit, match="on the premises only"):
        asyncio.run(scenario())


# Trust, and who waits


async def test_a_text_that_cannot_be_read_restricts_without_its_words(triton: TritonServer) -> None:
    async with names_at(triton.ports) as (names, _):
        with pytest.raises(ScanFailed) as caught:
            await names.find([b"MARKER"], BUDGET_S)  # type: ignore[list-item]
        assert await outcome(names) == "found"
        failure = caught.value
    assert "MARKER" not in str(failure)
    assert failure.__cause__ is None


async def test_the_samples_are_read_again_after_a_while(triton: TritonServer) -> None:
    clock = Clock()
    async with names_at(triton.ports, clock=clock) as (names, door):
        samples, counts = len(door.calls), []
        for passed_s in (TRUST_S / 2, TRUST_S):
            clock.ahead_s += passed_s
            assert await outcome(names, NOBODY) == "nothing"
            counts.append(len(door.calls))
        assert counts == [samples + 1, 2 * samples + 2]


async def test_more_calls_than_may_wait_are_busy(triton: TritonServer) -> None:
    async with names_at(triton.ports, max_waiting=2) as (names, _):
        first = [asyncio.create_task(names.find([NOBODY], BUDGET_S)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ScannersBusy):
            await names.find([NOBODY], BUDGET_S)
        assert await asyncio.gather(*first) == [[[]], [[]]]


async def test_callers_that_leave_free_their_threads(triton: TritonServer) -> None:
    async with names_at(triton.ports) as (names, door):
        door.shut = True
        asked = len(door.calls) + THREADS
        tasks = [asyncio.create_task(names.find([ADA], 60.0)) for _ in range(THREADS)]
        await until(lambda: reached(door, asked))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        door.shut = False
        assert await outcome(names) == "found"  # not in a minute


async def reached(door: Watched, calls: int) -> bool:
    return len(door.calls) == calls


async def test_a_closed_one_fails_local_and_keeps_nobody(triton: TritonServer) -> None:
    async with names_at(triton.ports) as (names, door):
        door.shut = True
        asked = len(door.calls) + 1
        waiting = asyncio.create_task(names.find([ADA], 60.0))
        await until(lambda: reached(door, asked))
        async with asyncio.timeout(5.0):
            await names.aclose()
        with pytest.raises(ScanFailed):
            await waiting
        door.shut = False
        with pytest.raises(ScanFailed):
            await names.find([ADA], BUDGET_S)


@pytest.mark.parametrize("budget_s", [0.0, -1.0, float("nan")])
async def test_no_budget_is_late_at_once(budget_s: float, triton: TritonServer) -> None:
    async with names_at(triton.ports) as (names, door):
        door.calls.clear()
        with pytest.raises(ScanLate):
            await names.find([ADA], budget_s)
        assert door.calls == []
