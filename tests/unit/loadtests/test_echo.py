"""The backend and the generator of all measurements, with each other, as processes of their own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests.load import mixed
from loadtests.load.generator import run
from loadtests.load.messages import KINDS, RecordedCall, Shape, messages, recorded_calls
from loadtests.load.plan import Plan
from loadtests.peers import Absent, Running
from loadtests.peers.process import Process
from loadtests.peers.rounds import Effort, measure
from loadtests.peers.table import DIRECT, as_json
from loadtests.ports import free_port

pytestmark = pytest.mark.anyio

_START_S = 60.0


@pytest.fixture(scope="module", params=[0])
def backend(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Running]:
    port, grpc_port = free_port(), free_port()
    ports = ["--port", str(port), "--grpc-port", str(grpc_port), "--chunks", "7"]
    ports += ["--gap-ms", str(request.param)]
    log = tmp_path_factory.mktemp("echo") / "log"
    process = Process([sys.executable, "-m", "loadtests.echo", *ports], log)
    try:
        process.await_answer(port, "/v2/health/ready", _START_S)
        url = f"http://127.0.0.1:{port}"
        yield Running((process.pid,), url, url, f"127.0.0.1:{grpc_port}")
    finally:
        process.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_call_is_answered(backend: Running, kind: str) -> None:
    url = backend.grpc_target if kind == "grpc" else backend.chat_url
    assert url is not None
    shape = Shape(kind=kind)
    plan = Plan(url, shape, connections=2, window_s=0.4, warm_up_s=0.1, pids=backend.pids)
    result = await run(plan)
    assert not result.failed
    assert result.sent == result.answered > 0
    assert result.chunks == (9 * result.answered if kind == "stream" else 0)  # the end, [DONE]
    assert result.cpu_s is not None


@pytest.mark.parametrize("backend", [100], indirect=True)
async def test_the_chunks_of_a_burst_do_not_wait_for_each_other(backend: Running) -> None:
    found = await measure({DIRECT: backend}, Effort(1, 1.0, ("streams", "burst"), 0.1), print)
    paced, at_once = found[DIRECT].last["streams"], found[DIRECT].last["burst"]
    assert paced.latency.quantile_s(0.5) > 0.7 > 0.4 > at_once.latency.quantile_s(0.5)
    told = as_json(found, {})[DIRECT]
    assert told["bursts_per_s"] > told["streams_per_s"] > 0
    assert paced.chunks == 9 * paced.answered
    assert at_once.chunks == 9 * at_once.answered


async def test_peers_are_measured_in_turns_and_what_they_do_not_speak_is_left_out(
    backend: Running,
) -> None:
    chat_only = replace(backend, v2_url=None, grpc_target=None)
    told: list[str] = []
    peers = {DIRECT: backend, "router": chat_only}
    found = await measure(peers, Effort(2, 0.2, ("single", "v2"), 0.1), told.append)
    turns = [line.split(":")[0] for line in told if line.startswith("round")]
    assert turns == [
        "round 1, single, direct",
        "round 1, single, router",
        "round 1, v2, direct",
        "round 2, single, direct",
        "round 2, single, router",
        "round 2, v2, direct",
    ]
    assert len(found[DIRECT].figures["v2_rps"]) == 2
    assert as_json(found, {})["router"]["v2_rps"] is None


def test_what_does_not_start_is_absent_with_its_own_words(tmp_path: Path) -> None:
    process = Process([sys.executable, "-c", "raise SystemExit('no such model')"], tmp_path / "log")
    with pytest.raises(Absent, match="no such model"):
        process.await_answer(free_port(), "/", _START_S)
    idle = Process([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "idle")
    with pytest.raises(Absent, match="not ready within"):
        idle.await_file(tmp_path / "never", 0.5)


async def test_recorded_calls_are_sent_as_they_are_and_each_round_has_its_own(
    backend: Running,
) -> None:
    recorded = [RecordedCall(call["headers"], call["body"]) for call in mixed.calls(20_000, 5)]
    effort = Effort(2, 0.2, ("mixed", "single"), 0.1, recorded)
    assert not set(map(id, effort.calls_of(0))) & set(map(id, effort.calls_of(1)))
    found = await measure({DIRECT: backend}, effort, print)
    assert not found[DIRECT].failed
    assert len(found[DIRECT].figures["mixed_cpu_ms"]) == 2
    (message,) = [messages(Shape(model="m", calls=recorded[:1]), "host").next()]
    head, _, body = message.partition(b"\r\n\r\n")
    assert json.loads(body) == {**recorded[0].body, "model": "m"}
    assert all(f"{k}: {v}".encode() in head for k, v in recorded[0].headers.items())


def test_a_file_of_calls_says_which_line_is_none(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_text("\n".join(map(json.dumps, mixed.calls(3, 1))))
    assert [call.body["messages"] for call in recorded_calls(file)] == [
        call["body"]["messages"] for call in mixed.calls(3, 1)
    ]
    file.write_text(file.read_text() + '\n{"body": {}}')
    with pytest.raises(ValueError, match=r"calls\.jsonl:4: .*headers"):
        recorded_calls(file)
    file.write_text("")
    with pytest.raises(ValueError, match="no calls"):
        recorded_calls(file)
