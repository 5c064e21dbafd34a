"""The gRPC connectors against a fake server on a real socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from gateway.core.deadline import Deadline
from gateway.core.errors import (
    DeadlineExceeded,
    ModelDead,
    ModelFailed,
    NotOffered,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamUnreachable,
)
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, InferenceRequest, Payload, ServedModel, WireProtocol
from gateway.endpoints.connectors.kserve.grpc import kserve_grpc
from gateway.endpoints.connectors.open_inference.grpc import GrpcTarget, OipGrpcClient, bearer
from gateway.endpoints.connectors.open_inference.grpc_failures import error_from_status, in_stream
from gateway.endpoints.connectors.triton.grpc import triton_grpc
from gateway.protocols.oip.grpc import decode_request
from gateway.protocols.oip.stream_frames import StreamFrame
from tests.laps import within
from tests.unit.grpc_rig import (
    FakeTriton,
    all_of,
    event,
    fake_triton,
    infer_request,
    infer_response,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

ID = "0a0b0c0d-0000-4000-8000-000000000001"
TRACE = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
SERVED = ServedModel("there", version="3")

ROUNDED_UP = 1.01  # gRPC sends a timeout in few digits, rounded up


@pytest.fixture
async def triton() -> AsyncIterator[tuple[FakeTriton, OipGrpcClient]]:
    async with fake_triton() as (fake, address):
        client = triton_grpc(GrpcTarget(address))
        yield fake, client
        await client.aclose()


def call(
    payload: Payload | None = None, budget_s: float = 5.0, **parameters: Any
) -> InferenceRequest:
    return InferenceRequest(
        id=ID,
        protocol=WireProtocol.KSERVE_GRPC,
        tenant="t",
        model="simple",
        payload=payload or decode_request(infer_request(**parameters)),
        deadline=Deadline.after(budget_s),
        traceparent=TRACE,
    )


def streamed(budget_s: float = 5.0, **parameters: Any) -> InferenceRequest:
    return call(decode_request(infer_request(**parameters), streamed=True), budget_s)


async def test_what_was_read_is_what_is_sent(triton: tuple[FakeTriton, OipGrpcClient]) -> None:
    fake, client = triton
    sent = infer_request(call="mine", sequence_id=7, sequence_start=True)
    sent.outputs.add(name="OUTPUT0").parameters["classification"].int64_param = 2
    found = await all_of(await client.open(call(decode_request(sent)), SERVED))
    (seen,) = fake.requests
    assert [r.id for r in found] == ["mine"]
    assert (seen.model_name, seen.model_version, seen.id) == ("there", "3", "mine")
    assert list(seen.inputs) == list(sent.inputs)
    assert list(seen.outputs) == list(sent.outputs)
    assert list(seen.raw_input_contents) == list(sent.raw_input_contents)
    assert seen.parameters["sequence_id"].int64_param == 7
    assert fake.metadata[0]["x-request-id"] == ID
    assert fake.metadata[0]["traceparent"] == TRACE


@pytest.mark.parametrize(("given", "returned", "taken"), [
    ("mine", "mine", True), ("mine", "yours", False), ("mine", "", True), ("", "its-own", True),
])  # fmt: skip
async def test_an_answer_has_the_id_of_its_call(
    triton: tuple[FakeTriton, OipGrpcClient], given: str, returned: str, taken: bool
) -> None:
    """A server may leave it out: the stream of HTTP/2 says to which call an answer belongs."""
    fake, client = triton

    async def answers(request: Any, context: Any) -> Any:
        return infer_response(returned)

    fake.infer = answers
    request = call(decode_request(infer_request(call=given)))
    if taken:
        assert [r.id for r in await all_of(await client.open(request, SERVED))] == [returned]
    else:
        with pytest.raises(UpstreamFailed, match="another call"):
            await client.open(request, SERVED)


async def test_triton_gets_the_remaining_time_twice(
    triton: tuple[FakeTriton, OipGrpcClient],
) -> None:
    fake, client = triton
    await all_of(await client.open(call(budget_s=2.0, timeout=10**9), SERVED))
    assert 1.5 < fake.remaining_s[0] <= 2.0 * ROUNDED_UP
    assert 1.5e6 < fake.requests[0].parameters["timeout"].int64_param <= 2e6


async def test_a_kserve_endpoint_gets_its_key_and_no_triton_parameters() -> None:
    async with fake_triton() as (fake, address):
        client = kserve_grpc(GrpcTarget(address, metadata=bearer("secret")))
        await all_of(await client.open(call(timeout=5, priority=1, sequence_id=4), SERVED))
        await client.aclose()
        assert set(fake.requests[0].parameters) == {"sequence_id"}
        assert fake.metadata[0]["authorization"] == "Bearer secret"
        assert 4 < fake.remaining_s[0] <= 5 * ROUNDED_UP


async def test_the_answer_is_the_bytes_that_came(triton: tuple[FakeTriton, OipGrpcClient]) -> None:
    fake, client = triton
    # Field 99 is nobody's: whoever parses and writes anew might drop or move it.
    raw = infer_response("x").SerializeToString() + b"\x9a\x06\x02hi"

    async def infer(request: Any, context: Any) -> Any:
        return type(infer_response()).FromString(raw)

    fake.infer = infer
    (frame,) = [f async for f in await client.open(call(), SERVED)]
    assert getattr(frame, "message") == raw  # noqa: B009 - of whatever frame it is


async def test_a_stream_gives_every_response_and_then_ends(
    triton: tuple[FakeTriton, OipGrpcClient],
) -> None:
    fake, client = triton

    async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
        for at in range(3):
            yield event(infer_response(str(at), final=at == 2))

    fake.stream = stream
    found = await all_of(await client.open(streamed(), SERVED))
    assert [r.id for r in found] == ["0", "1", "2"]
    assert len(fake.requests) == 1


@pytest.mark.parametrize("way", ["close", "cancel"])
async def test_closing_a_stream_cancels_it_upstream_at_once(
    triton: tuple[FakeTriton, OipGrpcClient], way: str
) -> None:
    fake, client = triton

    async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
        yield event(infer_response("first"))
        await asyncio.sleep(30)

    fake.stream = stream
    for lap in within(0.1):
        fake.cancelled.clear()
        reply = await client.open(streamed(), SERVED)
        await anext(reply)
        lap.begins()
        if way == "close":
            await reply.aclose()
            await reply.aclose()
        else:
            reading = asyncio.ensure_future(anext(reply))
            await asyncio.sleep(0.01)
            lap.begins()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        await asyncio.wait_for(fake.cancelled.wait(), 5)
        lap.ends()
        with pytest.raises(StopAsyncIteration):
            await anext(reply)


async def test_cancelling_the_open_cancels_it_upstream_at_once(
    triton: tuple[FakeTriton, OipGrpcClient],
) -> None:
    fake, client = triton

    async def infer(request: Any, context: Any) -> Any:
        await asyncio.sleep(30)

    fake.infer = infer
    for lap in within(0.1):
        fake.entered.clear()
        fake.cancelled.clear()
        opening = asyncio.ensure_future(client.open(call(), SERVED))
        await asyncio.wait_for(fake.entered.wait(), 5)
        lap.begins()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await asyncio.wait_for(fake.cancelled.wait(), 5)
        lap.ends()


async def test_a_passed_deadline_ends_a_hung_call_and_reaches_the_server(
    triton: tuple[FakeTriton, OipGrpcClient],
) -> None:
    fake, client = triton

    async def infer(request: Any, context: Any) -> Any:
        await asyncio.sleep(30)

    async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(30)
        yield event(infer_response())

    fake.infer, fake.stream = infer, stream
    for make in (call, streamed):
        request = make(budget_s=0.15)
        fake.cancelled.clear()
        began_s = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            await all_of(await client.open(request, SERVED))
        assert 0.1 < time.monotonic() - began_s < 5  # far from the 30 s
        await asyncio.wait_for(fake.cancelled.wait(), 5)
    with pytest.raises(DeadlineExceeded):
        await client.open(call(budget_s=-1), SERVED)


async def test_an_error_within_a_stream_is_raised_after_what_came_before(
    triton: tuple[FakeTriton, OipGrpcClient],
) -> None:
    fake, client = triton

    async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
        yield event(infer_response("one"))
        yield event(infer_response(), "the model broke")

    fake.stream = stream
    reply = await client.open(streamed(), SERVED)
    await anext(reply)
    with pytest.raises(UpstreamFailed, match="the model broke"):
        await anext(reply)


@pytest.mark.parametrize(
    ("code", "error", "http_status", "grpc_status"),
    [
        ("INVALID_ARGUMENT", UpstreamRefused, 400, "INVALID_ARGUMENT"),
        ("NOT_FOUND", UpstreamRefused, 404, "NOT_FOUND"),
        ("UNIMPLEMENTED", UpstreamRefused, 400, "UNIMPLEMENTED"),
        ("FAILED_PRECONDITION", UpstreamRefused, 400, "FAILED_PRECONDITION"),
        ("ALREADY_EXISTS", UpstreamRefused, 409, "ALREADY_EXISTS"),
        ("RESOURCE_EXHAUSTED", UpstreamBusy, 429, "RESOURCE_EXHAUSTED"),
        ("UNAVAILABLE", UpstreamUnreachable, 502, "UNAVAILABLE"),
        ("CANCELLED", UpstreamUnreachable, 502, "UNAVAILABLE"),
        ("DEADLINE_EXCEEDED", DeadlineExceeded, 504, "DEADLINE_EXCEEDED"),
        ("INTERNAL", ModelFailed, 500, "INTERNAL"),
        ("UNKNOWN", ModelFailed, 500, "UNKNOWN"),
        ("DATA_LOSS", ModelFailed, 500, "DATA_LOSS"),
        ("UNAUTHENTICATED", UpstreamFailed, 502, "UNAVAILABLE"),
        ("PERMISSION_DENIED", UpstreamFailed, 502, "UNAVAILABLE"),
    ],
)
async def test_every_status_has_its_meaning(
    triton: tuple[FakeTriton, OipGrpcClient],
    code: str,
    error: type[Exception],
    http_status: int,
    grpc_status: str,
) -> None:
    fake, client = triton

    async def infer(request: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode[code], "its words")

    async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
        yield event(infer_response())
        await context.abort(grpc.StatusCode[code], "its words")

    fake.infer, fake.stream = infer, stream
    for request in (call(), streamed()):
        with pytest.raises(error) as caught:
            await all_of(await client.open(request, SERVED))
        assert type(caught.value) is error
        found: Any = caught.value
        assert (found.http_status, found.grpc_status) == (http_status, grpc_status)
        assert found.__cause__ is None
        if error is UpstreamRefused:
            assert found.message == "its words"


@pytest.mark.parametrize(
    ("words", "model", "error", "grpc_status"),
    [
        ("Request for unknown model: 'x' is not found", "", UpstreamRefused, "NOT_FOUND"),
        ("unexpected inference input 'X'", "", UpstreamRefused, "INVALID_ARGUMENT"),
        ("division by zero", "simple", ModelFailed, "INTERNAL"),
        ("Stub process 'simple_0_0' is not healthy.", "simple", ModelDead, "UNAVAILABLE"),
        ("no such unit: Stub process 'a' is not healthy.", "simple", ModelFailed, "INTERNAL"),
        (
            "Request for unknown model: 'x' has no available versions",
            "",
            UpstreamUnreachable,
            "UNAVAILABLE",
        ),
        ("Exceeds maximum queue size", "simple", UpstreamUnreachable, "UNAVAILABLE"),
    ],
)
def test_an_error_within_a_stream_has_words_alone(
    words: str, model: str, error: type[Exception], grpc_status: str
) -> None:
    found = in_stream(StreamFrame(infer_response(model=model).SerializeToString(), words))
    assert type(found) is error
    assert found.grpc_status == grpc_status


def test_a_message_that_is_too_large_is_not_a_busy_server() -> None:
    found = error_from_status(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "SERVER: Received message larger than max (9 vs. 4)"
    )
    assert isinstance(found, UpstreamRefused)
    assert found.http_status == 413


async def test_what_is_not_of_the_protocol_is_a_failure(
    triton: tuple[FakeTriton, OipGrpcClient],
) -> None:
    with pytest.raises(UpstreamFailed):
        StreamFrame.decode(b"\xff\xff\xff")
    _, client = triton
    with pytest.raises(UpstreamRefused):
        await client.open(call(DocumentCall(CHAT, {})), SERVED)


async def test_nothing_that_changes_a_server_can_be_asked(
    triton: tuple[FakeTriton, OipGrpcClient],
) -> None:
    fake, client = triton
    for method in ("RepositoryModelLoad", "LogSettings", "SystemSharedMemoryStatus", "ModelInfer"):
        with pytest.raises(NotOffered):
            await client.grpc(method, b"", 1.0)
    assert b"fake" in await client.grpc("ModelMetadata", b"\n\x06simple", 1.0)
    assert fake.requests[-1].name == "simple"


async def test_an_endpoint_that_is_down_is_unreachable_and_not_ready() -> None:
    client = triton_grpc(GrpcTarget("127.0.0.1:1"))
    for request in (call(budget_s=2), streamed(budget_s=2)):
        with pytest.raises(UpstreamUnreachable):
            await all_of(await client.open(request, SERVED))
    assert not await client.ready()
    await client.aclose()


async def test_the_environment_cannot_divert_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with fake_triton() as (_, address):
        client = triton_grpc(GrpcTarget(address))
        assert await client.ready()
        await client.aclose()
