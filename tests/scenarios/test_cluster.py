"""Two and three real gateways in front of one real Triton, over mTLS: one owner, whoever dies."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from gateway.demo.cloud.process import SimulatedCloud
from loadtests.http import Client
from tests.live import MODELS, LiveGateway, LoopThread, wait_until
from tests.scenarios.both_ways import Way, infer_message
from tests.scenarios.gateways import NAMES, Gateways, shared_triton
from tests.unit.cluster.authority import Authority

pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")

CARD = "4111 1111 1111 1111"
_PATIENCE_S = 60.0
_TENSOR = {"datatype": "INT32", "shape": [1, 16], "data": list(range(16))}
BODY = json.dumps(
    {"id": "7", "inputs": [{"name": "INPUT0", **_TENSOR}, {"name": "INPUT1", **_TENSOR}]}
).encode()
RESTRICTED = {"x-spillway-sensitivity": "restricted"}


@pytest.fixture(scope="module")
def triton(loop_thread: LoopThread) -> Iterator[tuple[int, int]]:
    if not (MODELS / "minilm" / "1" / "model.onnx").exists():
        pytest.fail("the models are not built: run `make models`")
    with shared_triton(loop_thread) as ports:
        yield ports


@pytest.fixture(scope="module")
def three(
    outside: SimulatedCloud, triton: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateways]:
    scratch = tmp_path_factory.mktemp("trio")
    gateways = Gateways(triton, outside, scratch, Authority(scratch))
    try:
        for name in NAMES:
            gateways.start(name)
        yield gateways
    finally:
        gateways.close()


@pytest.fixture
def trio(three: Gateways) -> Gateways:
    """All of them run and the first decides, whatever the last test did to it."""
    for name in NAMES:
        if three[name].process.poll() is not None:
            three.start(name)
    wait_until(lambda: {three.decided_by(n) for n in NAMES} == {"east"}, _PATIENCE_S)
    for name in NAMES:
        wait_until(functools.partial(_proven, three[name]), _PATIENCE_S)
    return three


def _proven(gateway: LiveGateway) -> bool:
    """Its first canaries have passed: else they would compete with the test's calls."""
    told = [x for x in gateway.metrics().splitlines() if x.startswith("spillway_canaries_total")]
    return sum(float(x.rpartition(" ")[2]) for x in told if '"gpu"' in x) >= 3


def infer(
    gateway: LiveGateway, model: str = "simple", headers: Mapping[str, str] = RESTRICTED
) -> httpx.Response:
    return gateway.client.post(
        f"/v2/models/{model}/infer",
        content=BODY,
        headers={"content-type": "application/json", **headers},
    )


@dataclass(frozen=True, slots=True)
class Ended:
    status: int
    zone: str
    reason: str


async def ask(http: Client, model: str, headers: Mapping[str, str], budget_s: float) -> Ended:
    told = {"x-latency-budget-ms": f"{budget_s * 1000:g}", **headers}
    answer = await http.post(f"/v2/models/{model}/infer", BODY, told)
    found = answer.headers
    zone, reason = found.get("x-spillway-zone", ""), found.get("x-spillway-reason", "")
    return Ended(answer.status, zone, reason)


async def many(
    gateway: LiveGateway,
    count: int,
    headers: Mapping[str, str],
    budget_s: float,
    model: str = "timed",
) -> list[Ended]:
    async with Client(gateway.http_url) as http:
        calls = (ask(http, model, headers, budget_s) for _ in range(count))
        return list(await asyncio.gather(*calls))


# Every protocol


def test_a_rest_answer_by_way_of_the_owner_is_the_owners_byte_for_byte(trio: Gateways) -> None:
    before = trio.counted("east", 'spillway_cluster_received_total{peer="west",result="served"}')
    here, there = infer(trio["east"]), infer(trio["west"])
    assert there.status_code == 200, there.text
    assert there.content == here.content
    assert there.headers["x-spillway-zone"] == "onprem"
    assert there.headers["x-spillway-endpoint"] == "gpu"
    received = 'spillway_cluster_received_total{peer="west",result="served"}'
    assert trio.counted("east", received) == before + 1


def test_a_grpc_answer_by_way_of_the_owner_is_the_owners_byte_for_byte(trio: Gateways) -> None:
    raw = struct.pack("<16i", *range(16))
    message = infer_message("simple", {n: ("INT32", [1, 16], raw) for n in ("INPUT0", "INPUT1")})
    answers = []
    for name in NAMES:
        way = Way(trio[name].http_url, trio[name].grpc_target)
        answers.append(way.unary(message))
        way.close()
    assert isinstance(answers[0], bytes), answers[0]
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("text", ["Count to ten.", f"Charge the card {CARD}."])
def test_an_openai_stream_comes_by_way_of_the_owner(trio: Gateways, text: str) -> None:
    told = []
    for name in ("east", "north"):
        client = openai.OpenAI(base_url=f"{trio[name].http_url}/v1", api_key="none")
        stream = client.chat.completions.create(
            model="scribe",
            messages=[{"role": "user", "content": text}],
            max_tokens=12,
            seed=3,
            temperature=0,
            stream=True,
        )
        told.append([c.choices[0].delta.content for c in stream if c.choices])
    assert len(told[0]) > 3
    assert told[0] == told[1]


def test_the_record_is_kept_by_the_gateway_that_took_the_call(trio: Gateways) -> None:
    answer = infer(trio["north"])
    record = trio["north"].record(answer.headers["x-request-id"])
    assert record["outcome"] == "served"
    assert [a["endpoint"] for a in record["attempts"]] == ["gpu"]
    elsewhere = [r["id"] for n in ("east", "west") for r in trio[n].records()]
    assert record["id"] not in elsewhere


def test_a_model_error_comes_by_way_of_the_owner_in_the_servers_words(trio: Gateways) -> None:
    wrong = {"inputs": [{"name": "INPUT0", **_TENSOR}]}
    answers = [
        trio[name].client.post("/v2/models/simple/infer", json=wrong) for name in ("east", "west")
    ]
    assert answers[0].status_code >= 400
    assert [a.status_code for a in answers] == [answers[0].status_code] * 2
    assert answers[0].content == answers[1].content


# Where calls go


def test_clear_calls_leave_from_where_they_came_and_restricted_ones_never(
    trio: Gateways, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    """More than the server can do in time, by the two gateways that do not own it. Where a call
    takes its budget only to come there, it has twice as much."""

    async def overload(budget_s: float) -> list[list[Ended]]:
        return list(
            await asyncio.gather(
                many(trio["west"], 16, {}, budget_s, "crawling"),
                many(trio["north"], 16, {}, budget_s, "crawling"),
                many(trio["west"], 4, RESTRICTED, 60.0, "crawling"),
                many(trio["north"], 4, RESTRICTED, 60.0, "crawling"),
            )
        )

    asyncio.run(many(trio["west"], 8, RESTRICTED, 60.0, "crawling"))  # its times are learnt
    for budget_s in (4.0, 8.0, 16.0, 32.0):
        spilled = {n: _in_cloud(trio, n) for n in trio.names}
        ends = asyncio.run(overload(budget_s))
        if all(any(e.zone == "cloud" for e in clear) for clear in ends[:2]):
            break
    for clear, name in zip(ends[:2], ("west", "north"), strict=True):
        left = [e for e in clear if e.zone == "cloud"]
        assert left, Counter((e.status, e.zone, e.reason) for e in clear)
        assert {e.reason for e in left} <= {"spill_deadline", "spill_unavailable", "failover"}
        assert _in_cloud(trio, name) == spilled[name] + len(left)
    assert _in_cloud(trio, "east") == spilled["east"]
    for restricted in ends[2:]:
        assert {e.zone for e in restricted} <= {"onprem", ""}
        assert [e.status for e in restricted] == [200] * 4
    found = loop_thread.run(outside.search([CARD, CARD.replace(" ", "")]))
    assert not list(found)


def _in_cloud(gateways: Gateways, name: str) -> float:
    """Calls that its own door let out and that were answered."""
    lines = gateways[name].metrics().splitlines()
    told = [x for x in lines if x.startswith("spillway_attempts_total") and 'zone="cloud"' in x]
    return sum(float(x.rpartition(" ")[2]) for x in told if 'result="served"' in x)


def test_a_card_stays_whichever_gateway_takes_it(
    trio: Gateways, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    for name in trio.names:
        body = {"model": "scribe", "max_tokens": 4,
                "messages": [{"role": "user", "content": f"charge {CARD}"}]}  # fmt: skip
        answer = trio[name].client.post("/v1/chat/completions", json=body)
        assert answer.headers["x-spillway-zone"] == "onprem"
        assert answer.headers["x-spillway-sensitivity"] == "restricted"
    assert not list(loop_thread.run(outside.search([CARD, CARD.replace(" ", "")])))


# Who is listened to


def _refused(trio: Gateways, certificate: tuple[Path, Path] | None) -> bool:
    """Whether the owner's peer port gives such a client nothing at all."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(str(trio.authority.ca))
    if certificate is not None:
        context.load_cert_chain(*map(str, certificate))
    told = b"POST /spillway/cluster/state HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
    with socket.create_connection(("127.0.0.1", trio.ports["east"]), timeout=10) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="east") as secure:
                secure.sendall(told)
                return secure.recv(1000) == b""
        except OSError:
            return True


def test_nobody_is_heard_without_a_certificate_of_the_authority_for_a_gateway(
    trio: Gateways, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    assert not _refused(trio, trio.authority.issue("west"))
    assert _refused(trio, None)
    assert _refused(trio, other.issue("west"))
    assert _refused(trio, trio.authority.issue("south"))
    assert _refused(trio, trio.authority.issue("east"))  # no gateway is its own peer


# Gateways that die, stop and come back


def _waits(gateways: Gateways, name: str, count: int) -> bool:
    told: dict[str, Any] = gateways[name].client.get("/status").json()
    return bool(sum(q["waiting"] for q in told["queues"]) >= count)


async def _many_and(gateways: Gateways, fault: Callable[[], None]) -> list[Ended]:
    """Calls by way of those that do not own the server, which has more than it can begin, and what
    happens meanwhile."""
    async with asyncio.TaskGroup() as group:
        running = [
            group.create_task(many(gateways[n], 6, RESTRICTED, 60.0, "crawling"))
            for n in ("north", "west")
        ]
        await asyncio.to_thread(wait_until, lambda: _waits(gateways, "east", 4), _PATIENCE_S)
        fault()
    return [e for task in running for e in task.result()]


def test_a_killed_owner_costs_none_of_the_waiting_calls(trio: Gateways) -> None:
    """Started again, it has its servers back after the dwell."""
    takeovers = trio.counted("north", "spillway_cluster_takeovers_total")
    ends = asyncio.run(_many_and(trio, lambda: trio.kill("east")))
    assert Counter((e.status, e.zone) for e in ends) == {(200, "onprem"): 12}
    wait_until(lambda: {trio.decided_by(n) for n in ("north", "west")} == {"north"}, _PATIENCE_S)
    assert trio.counted("north", "spillway_cluster_takeovers_total") > takeovers
    trio.start("east")
    assert infer(trio["east"]).status_code == 200  # forwarded to the one that stands in
    wait_until(lambda: {trio.decided_by(n) for n in NAMES} == {"east"}, _PATIENCE_S)
    assert infer(trio["west"]).status_code == 200


def test_a_stopped_owner_costs_none_of_the_waiting_calls(trio: Gateways) -> None:
    pid = trio["east"].process.pid
    try:
        ends = asyncio.run(_many_and(trio, lambda: os.kill(pid, signal.SIGSTOP)))
        assert Counter(e.status for e in ends) == {200: 12}
        wait_until(lambda: trio.decided_by("west") == "north", _PATIENCE_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: {trio.decided_by(n) for n in NAMES} == {"east"}, _PATIENCE_S)
    assert infer(trio["west"]).status_code == 200


def test_an_owner_that_is_told_to_stop_hands_over_and_nobody_notices(trio: Gateways) -> None:
    async def stop_while_calls_wait() -> list[Ended]:
        running = asyncio.create_task(many(trio["west"], 12, RESTRICTED, 60.0, "crawling"))
        await asyncio.to_thread(wait_until, lambda: _waits(trio, "east", 4), _PATIENCE_S)
        trio["east"].process.send_signal(signal.SIGTERM)
        return await running

    ends = asyncio.run(stop_while_calls_wait())
    assert Counter(e.status for e in ends) == {200: 12}
    wait_until(lambda: trio.decided_by("west") == "north", _PATIENCE_S)
    assert trio["east"].process.wait(_PATIENCE_S) == 0
