"""Each way in which the simulated cloud can fail, seen from the clients that will meet it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import openai
import pytest
import tritonclient.grpc.aio as triton_grpc
from tritonclient.utils import InferenceServerException

from gateway.demo.cloud.process import CloudFailed, SimulatedCloud

pytestmark = pytest.mark.anyio
MODELS = Path(__file__).parents[3] / "models"
CHAT: dict[str, Any] = {
    "model": "scribe",
    "messages": [{"role": "user", "content": "hello"}],
    "max_tokens": 8,
}
STREAM = CHAT | {"stream": True}
# Channels to one address share a connection, and its back-off after a refusal, unless told not to.
OWN = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]


@pytest.fixture(scope="module")
async def process(anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud.start(
        MODELS, round_trip_median_ms=1.0, service_ms=0, between_tokens_ms=1
    ) as cloud:
        yield cloud


@pytest.fixture
async def cloud(process: SimulatedCloud) -> SimulatedCloud:
    await process.reset()
    return process


@pytest.fixture
async def client(cloud: SimulatedCloud) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{cloud.http_url}/v1", api_key="any", max_retries=0, timeout=10
    ) as client:
        yield client


@pytest.fixture
async def raw(cloud: SimulatedCloud) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, base_url=cloud.http_url, timeout=10) as raw:
        yield raw


@pytest.fixture
async def rpc(cloud: SimulatedCloud) -> AsyncIterator[Any]:
    async with triton_grpc.InferenceServerClient(cloud.grpc_target, channel_args=OWN) as client:
        yield client


def simple() -> list[Any]:
    inputs = [triton_grpc.InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    for tensor in inputs:
        tensor.set_data_from_numpy(np.ones((1, 16), np.int32))
    return inputs


async def scribe() -> AsyncIterator[dict[str, Any]]:
    prompt = triton_grpc.InferInput("text_input", [1], "BYTES")
    prompt.set_data_from_numpy(np.array([b"hello"], dtype=object))
    streamed = triton_grpc.InferInput("stream", [1], "BOOL")
    streamed.set_data_from_numpy(np.array([True]))
    yield {"model_name": "scribe", "inputs": [prompt, streamed]}


async def pieces(raw: httpx.AsyncClient, into: list[str]) -> None:
    """The data of a streamed chat's events, as far as they come."""
    async with raw.stream("POST", "/v1/chat/completions", json=STREAM) as answer:
        async for line in answer.aiter_lines():
            if line:
                into.append(line)


async def responses(rpc: Any, into: list[Any]) -> None:
    """The responses of a streamed inference, as far as they come."""
    async for result, error in rpc.stream_infer(scribe()):
        assert error is None
        into.append(result)


async def test_the_round_trip_and_the_service_take_their_time(
    cloud: SimulatedCloud, client: openai.AsyncOpenAI
) -> None:
    await cloud.set(
        round_trip_median_ms=80, round_trip_sigma=0, service_ms=40, service_per_token_ms=10
    )
    started = time.monotonic()
    await client.chat.completions.create(**CHAT)
    assert 0.2 <= time.monotonic() - started < 60


async def test_errors_are_5xx_in_each_protocol(
    cloud: SimulatedCloud, client: openai.AsyncOpenAI, raw: httpx.AsyncClient, rpc: Any
) -> None:
    await cloud.set(error_rate=1, error_status=503)
    with pytest.raises(openai.InternalServerError) as failed:
        await client.chat.completions.create(**CHAT)
    assert failed.value.status_code == 503
    v2 = await raw.post("/v2/models/simple/infer", json={"inputs": []})
    assert v2.status_code == 503
    assert isinstance(v2.json()["error"], str)
    with pytest.raises(InferenceServerException) as refused:
        await rpc.infer("simple", simple())
    assert refused.value.status() == "StatusCode.INTERNAL"
    assert await rpc.is_server_ready()


async def test_rate_limits_say_when_to_come_back_only_if_told_to(
    cloud: SimulatedCloud, client: openai.AsyncOpenAI, rpc: Any
) -> None:
    await cloud.set(rate_limited_rate=1)
    with pytest.raises(openai.RateLimitError) as silent:
        await client.chat.completions.create(**CHAT)
    assert "retry-after" not in silent.value.response.headers
    await cloud.set(retry_after_s=2, retry_after_ms=1500)
    with pytest.raises(openai.RateLimitError) as polite:
        await client.chat.completions.create(**CHAT)
    assert polite.value.code == "rate_limit_exceeded"
    assert polite.value.response.headers["retry-after"] == "2"
    assert polite.value.response.headers["retry-after-ms"] == "1500"
    with pytest.raises(InferenceServerException) as refused:
        await rpc.infer("simple", simple())
    assert refused.value.status() == "StatusCode.RESOURCE_EXHAUSTED"


async def test_the_sdks_own_retry_gets_through(cloud: SimulatedCloud) -> None:
    await cloud.set(rate_limited_rate=0.5, retry_after_ms=1, seed=3)
    async with openai.AsyncOpenAI(
        base_url=f"{cloud.http_url}/v1", api_key="any", max_retries=10
    ) as client:
        for _ in range(5):
            await client.chat.completions.create(**CHAT)
    answers = (await cloud.traffic()).answers
    assert answers["200"] == 5
    assert answers["429"] >= 1


async def test_more_calls_than_the_limit_are_429(
    cloud: SimulatedCloud, client: openai.AsyncOpenAI
) -> None:
    await cloud.set(concurrency_limit=2, service_ms=300)
    answers = await asyncio.gather(
        *(client.chat.completions.create(**CHAT) for _ in range(6)), return_exceptions=True
    )
    limited = [answer for answer in answers if isinstance(answer, openai.RateLimitError)]
    assert len(limited) == 4


async def test_refused_connections_come_back_on_the_same_port(
    cloud: SimulatedCloud, client: openai.AsyncOpenAI, rpc: Any
) -> None:
    await client.chat.completions.create(**CHAT)
    await cloud.set(outage="refuse")
    with pytest.raises(openai.APIConnectionError) as refused:
        await client.chat.completions.create(**CHAT)
    assert not isinstance(refused.value, openai.APITimeoutError)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*cloud.grpc_target.split(":"))
    with pytest.raises(InferenceServerException) as down:
        await rpc.infer("simple", simple(), client_timeout=5)
    assert down.value.status() == "StatusCode.UNAVAILABLE"
    await cloud.set(outage="none")
    await client.chat.completions.create(**CHAT)
    async with triton_grpc.InferenceServerClient(cloud.grpc_target, channel_args=OWN) as again:
        assert await again.is_server_live()


async def test_a_hanging_cloud_takes_the_call_and_never_answers(
    cloud: SimulatedCloud, client: openai.AsyncOpenAI, rpc: Any
) -> None:
    await cloud.set(outage="hang")
    with pytest.raises(openai.APITimeoutError):
        await client.with_options(timeout=0.3).chat.completions.create(**CHAT)
    with pytest.raises(InferenceServerException) as late:
        await rpc.infer("simple", simple(), client_timeout=0.3)
    assert late.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    assert {hit.door for hit in await cloud.search(["hello", "INPUT0"])} == {"http", "grpc"}


async def test_a_cut_stream_ends_after_its_chunks(
    cloud: SimulatedCloud, raw: httpx.AsyncClient, rpc: Any
) -> None:
    await cloud.set(outage="cut", cut_after_chunks=3)
    got: list[str] = []
    with pytest.raises(httpx.RemoteProtocolError):
        await pieces(raw, got)
    assert len(got) == 3
    received: list[Any] = []
    with pytest.raises(grpc.aio.AioRpcError) as cut:  # tritonclient lets it through
        await responses(rpc, received)
    assert len(received) <= 3
    assert cut.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(InferenceServerException):
        await rpc.infer("simple", simple(), client_timeout=5)


async def test_an_answer_in_one_piece_is_cut_in_its_middle(
    cloud: SimulatedCloud, raw: httpx.AsyncClient
) -> None:
    await cloud.set(outage="cut")
    with pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
        await raw.post("/v1/chat/completions", json=CHAT)


async def test_a_reset_comes_in_the_middle_of_the_body(
    cloud: SimulatedCloud, raw: httpx.AsyncClient, rpc: Any
) -> None:
    await cloud.set(outage="reset", cut_after_chunks=2)
    got: list[str] = []
    with pytest.raises(httpx.ReadError):
        await pieces(raw, got)
    assert len(got) >= 2
    with pytest.raises(httpx.ReadError):
        await raw.post("/v1/chat/completions", json=CHAT)
    with pytest.raises(InferenceServerException) as reset:
        await rpc.infer("simple", simple(), client_timeout=5)
    assert reset.value.status() == "StatusCode.UNAVAILABLE"


async def test_a_drip_is_slow_and_whole(
    cloud: SimulatedCloud, raw: httpx.AsyncClient, rpc: Any
) -> None:
    whole = (await raw.post("/v1/completions", json=CHAT | {"prompt": "x"})).json()
    await cloud.set(outage="drip", drip_bytes_per_s=1000)
    started = time.monotonic()
    dripped = (await raw.post("/v1/completions", json=CHAT | {"prompt": "x"})).json()
    assert time.monotonic() - started > 0.2
    assert dripped["choices"] == whole["choices"]
    started = time.monotonic()
    await rpc.infer("simple", simple())
    assert time.monotonic() - started > 0.2


async def test_malformed_answers_do_not_parse(
    cloud: SimulatedCloud, client: openai.AsyncOpenAI, raw: httpx.AsyncClient, rpc: Any
) -> None:
    await cloud.set(outage="malformed")
    answer = await raw.post("/v1/chat/completions", json=CHAT)
    assert answer.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        answer.json()
    stream = await client.chat.completions.create(**STREAM)
    with pytest.raises(json.JSONDecodeError):
        [chunk async for chunk in stream]
    # grpc.aio hands out None where a message does not parse, instead of raising.
    assert (await rpc.infer("simple", simple())).get_response() is None


async def test_an_error_event_comes_with_200(
    cloud: SimulatedCloud, client: openai.AsyncOpenAI, raw: httpx.AsyncClient, rpc: Any
) -> None:
    await cloud.set(outage="error_event")
    answer = await raw.post("/v1/chat/completions", json=CHAT)
    assert answer.status_code == 200
    assert answer.json()["error"]["type"] == "server_error"
    stream = await client.chat.completions.create(**STREAM)
    with pytest.raises(openai.APIError, match="server had an error"):
        [chunk async for chunk in stream]
    errors = [error async for _, error in rpc.stream_infer(scribe())]
    assert errors[:2] == [None, None]
    assert "server had an error" in str(errors[2])


async def test_an_outage_can_hit_a_share_of_the_calls_the_same_each_time(
    cloud: SimulatedCloud, raw: httpx.AsyncClient
) -> None:
    async def outcomes() -> list[bool]:
        await cloud.reset()
        await cloud.set(outage="error_event", outage_rate=0.5, seed=11)
        answers = [await raw.post("/v1/chat/completions", json=CHAT) for _ in range(12)]
        return ["error" in answer.json() for answer in answers]

    first = await outcomes()
    assert {True, False} == set(first)
    assert await outcomes() == first


async def test_settings_that_do_not_exist_are_refused(cloud: SimulatedCloud) -> None:
    with pytest.raises(CloudFailed, match="unknown settings: round_trip"):
        await cloud.set(round_trip=3)
    with pytest.raises(CloudFailed, match="outage: must be one of"):
        await cloud.set(outage="meteor")


async def test_a_caller_that_leaves_frees_its_place(cloud: SimulatedCloud) -> None:
    await cloud.set(between_tokens_ms=50)
    async with (
        httpx.AsyncClient(trust_env=False, base_url=cloud.http_url) as client,
        client.stream("POST", "/v1/chat/completions", json=STREAM | {"max_tokens": 500}) as answer,
    ):
        assert answer.status_code == 200
        assert (await cloud.state())["in_flight"] == 1
    async with asyncio.timeout(2):
        while (await cloud.state())["in_flight"]:
            pass  # each look is a round trip to the process
