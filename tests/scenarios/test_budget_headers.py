"""A latency budget that makes no sense is refused by every front, and never first in line (D2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from tritonclient.grpc import service_pb2

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, LoopThread, wait_until

from . import malformed
from .refusals import Channel, Reached, Refusal, of_openai, of_v2

HEADER = "x-latency-budget-ms"
MAX_MS = 3_600_000  # limits.max_latency_budget_ms, as it is by default
NOT_POSITIVE, TOO_LARGE, NO_NUMBER = "must be greater than zero", "must be at most", "decimal"
BUDGETS = {
    "-1": NOT_POSITIVE,
    "0": NOT_POSITIVE,
    "-0": NOT_POSITIVE,
    "0.0": NOT_POSITIVE,
    "1e-999": NOT_POSITIVE,
    "-1e-3": NOT_POSITIVE,
    "nan": NOT_POSITIVE,
    "-NaN": NOT_POSITIVE,
    "inf": NOT_POSITIVE,
    "-Infinity": NOT_POSITIVE,
    "1e400": NOT_POSITIVE,
    str(MAX_MS + 1): TOO_LARGE,
    "1e308": TOO_LARGE,
    "18446744073709551616": TOO_LARGE,
    "9" * 33: NO_NUMBER,
    "": NO_NUMBER,
    "soon": NO_NUMBER,
    "100ms": NO_NUMBER,
    "1,5": NO_NUMBER,
    "1 2": NO_NUMBER,
    "1_000": NO_NUMBER,
    "0x10": NO_NUMBER,
    "100;q=1": NO_NUMBER,
}
TENSOR = {**malformed.IN, "name": "INPUT0", "shape": [1, 16]}
MESSAGE = malformed.message(TENSOR, {**TENSOR, "name": "INPUT1"}, raw=[bytes(64), bytes(64)])
REST_TENSOR = {"name": "INPUT0", "datatype": "INT32", "shape": [1, 16], "data": [1] * 16}
REST = {"inputs": [REST_TENSOR, {**REST_TENSOR, "name": "INPUT1"}]}

Call = Callable[[LiveGateway, Channel, str], Refusal]


def v2(gateway: LiveGateway, channel: Channel, budget: str) -> Refusal:
    headers = {HEADER: budget}
    return of_v2(gateway.client.post("/v2/models/simple/infer", json=REST, headers=headers))


def openai(route: str, document: Mapping[str, object]) -> Call:
    def call(gateway: LiveGateway, channel: Channel, budget: str) -> Refusal:
        headers = {HEADER: budget}
        return of_openai(gateway.client.post(f"/v1/{route}", json=document, headers=headers))

    return call


def grpc_unary(gateway: LiveGateway, channel: Channel, budget: str) -> Refusal:
    return channel.infer(MESSAGE, {HEADER: budget})


def grpc_stream(gateway: LiveGateway, channel: Channel, budget: str) -> Refusal:
    first, second = channel.infer_streamed(MESSAGE, MESSAGE, metadata={HEADER: budget})
    assert first == second
    return Refusal("INVALID_ARGUMENT" if first else "OK", first, "invalid_latency_budget")


FRONTS: dict[str, tuple[Call, int | str]] = {
    "v2": (v2, 400),
    "chat": (openai("chat/completions", malformed.CHAT), 400),
    "chat, streamed": (openai("chat/completions", {**malformed.CHAT, "stream": True}), 400),
    "completions": (openai("completions", {"model": "scribe", "prompt": "a"}), 400),
    "embeddings": (openai("embeddings", {"model": "minilm", "input": "a"}), 400),
    "responses": (openai("responses", {"model": "scribe", "input": "a"}), 400),
    "grpc": (grpc_unary, "INVALID_ARGUMENT"),
    "grpc, streamed": (grpc_stream, "INVALID_ARGUMENT"),
}


@pytest.fixture(scope="module")
def channel(gateway: LiveGateway) -> Iterator[Channel]:
    found = Channel(gateway.grpc_target)
    yield found
    found.close()


@pytest.mark.parametrize("front", FRONTS)
def test_a_budget_that_makes_no_sense_is_refused(
    gateway: LiveGateway,
    channel: Channel,
    cloud: SimulatedCloud,
    loop_thread: LoopThread,
    front: str,
) -> None:
    call, status = FRONTS[front]
    before = Reached.now(gateway, cloud, loop_thread)
    for budget, words in BUDGETS.items():
        refusal = call(gateway, channel, budget)
        assert (budget, refusal.status) == (budget, status)
        assert (budget, refusal.reason) == (budget, "invalid_latency_budget")
        assert (budget, words in refusal.message) == (budget, True)
        assert HEADER in refusal.message
    assert Reached.now(gateway, cloud, loop_thread) == before


TIMEOUTS: dict[object, str] = {
    0: NOT_POSITIVE,
    -1: NOT_POSITIVE,
    "-1": NOT_POSITIVE,
    "nan": NOT_POSITIVE,
    "soon": NO_NUMBER,
    MAX_MS * 1000 + 1: TOO_LARGE,
    (1 << 63) - 1: TOO_LARGE,
}


@pytest.mark.parametrize(("timeout", "words"), TIMEOUTS.items())
def test_a_v2_timeout_that_makes_no_sense_is_refused(
    gateway: LiveGateway,
    channel: Channel,
    cloud: SimulatedCloud,
    loop_thread: LoopThread,
    timeout: object,
    words: str,
) -> None:
    before = Reached.now(gateway, cloud, loop_thread)
    document = {**REST, "parameters": {"timeout": timeout}}
    over_rest = of_v2(gateway.client.post("/v2/models/simple/infer", json=document))
    assert (over_rest.status, over_rest.reason) == (400, "invalid_latency_budget")
    request = service_pb2.ModelInferRequest.FromString(MESSAGE)
    if isinstance(timeout, str):
        request.parameters["timeout"].string_param = timeout
    else:
        request.parameters["timeout"].int64_param = timeout
    over_grpc = channel.infer(request.SerializeToString())
    assert (over_grpc.status, over_grpc.reason) == ("INVALID_ARGUMENT", "invalid_latency_budget")
    for refusal in (over_rest, over_grpc):
        assert words in refusal.message
        assert "timeout" in refusal.message
    assert Reached.now(gateway, cloud, loop_thread) == before


@pytest.mark.parametrize("budget", ["5000", "5e3", "+5000", "5000.5", str(MAX_MS)])
def test_a_budget_that_makes_sense_is_taken(
    gateway: LiveGateway, cloud: SimulatedCloud, loop_thread: LoopThread, budget: str
) -> None:
    before = Reached.now(gateway, cloud, loop_thread)
    headers = {HEADER: budget}
    answer = gateway.client.post("/v2/models/simple/infer", json=REST, headers=headers)
    assert answer.status_code == 200
    after = Reached.now(gateway, cloud, loop_thread)
    assert after.attempts != before.attempts  # so the tests above would see a call get through
    wait_until(  # Triton counts once it has answered
        lambda: Reached.now(gateway, cloud, loop_thread).executed != before.executed, 5.0
    )
