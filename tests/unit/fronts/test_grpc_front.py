"""The gRPC front on a real socket, with unmodified clients, over a stand-in for the pipeline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest

from gateway.auth import Callers
from gateway.config import LimitSettings
from gateway.core.errors import (
    DeadlineExceeded,
    Forbidden,
    GatewayError,
    InternalError,
    NoEligibleEndpoint,
    OnpremUnavailable,
    Saturated,
    UpstreamFailed,
    UpstreamRefused,
)
from gateway.core.reply import Frame, GrpcMessage, InferenceReply, JsonBody, RestBody, ServerEvent
from gateway.core.types import ONPREM_ONLY, InferenceRequest
from gateway.server.grpc.front import GrpcFront
from tests.laps import within
from tests.unit.grpc_rig import (
    OPTIONS,
    PLACEMENT,
    Frames,
    Pipeline,
    failure,
    infer_request,
    infer_response,
    key,
    payload_of,
    reply,
    running_front,
    told,
)
from tests.unit.http2.peers import DATA, END_STREAM, INFER, caller, frame, message, request

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

AUTHORIZED = (("authorization", "Bearer secret"),)


async def test_a_call_goes_through_the_pipeline_and_its_answer_comes_back_untouched() -> None:
    raw = infer_response("mine").SerializeToString() + b"\x9a\x06\x02hi"  # an unknown field
    frames = Frames(_frames(GrpcMessage(raw)))
    seen: list[InferenceRequest] = []

    async def handle(request: InferenceRequest) -> InferenceReply:
        seen.append(request)
        return InferenceReply(PLACEMENT, frames)

    async with running_front(handle) as run:
        infer = run.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        call = infer(infer_request(call="mine").SerializeToString(), timeout=5)
        assert await call == raw
        trailers = dict(await call.trailing_metadata())
    (request,) = seen
    assert request.model == "simple"
    assert [t.name for t in payload_of(request).inputs] == ["INPUT0", "INPUT1"]
    assert not request.streamed
    assert 4 < request.deadline.remaining_s() < 5 * 1.01  # gRPC rounds a timeout up
    assert trailers["x-spillway-zone"] == "onprem"
    assert trailers["x-spillway-reason"] == "onprem_room"
    assert trailers["x-spillway-attempts"] == "1"
    assert frames.closed.is_set()


async def _frames(*frames: Frame) -> AsyncIterator[Frame]:
    for each in frames:
        yield each


async def test_the_answer_of_a_rest_endpoint_is_written_as_a_message() -> None:
    body = b'{"model_name":"simple","model_version":"1","outputs":[{"name":"O","datatype":"INT32",'
    body += b'"shape":[2],"data":[3,4]}]}'

    async def handle(request: InferenceRequest) -> InferenceReply:
        return InferenceReply(PLACEMENT, Frames(_frames(RestBody(body))))

    async with running_front(handle) as run:
        answer = await run.stub.ModelInfer(infer_request())
    assert answer.outputs[0].name == "O"
    assert list(answer.raw_output_contents) == [b"\x03\0\0\0\x04\0\0\0"]


@pytest.mark.parametrize("frames", [(), (JsonBody(b"{}"),), (ServerEvent(b"{}"),)])
async def test_an_answer_that_is_none_is_a_failure(frames: tuple[Frame, ...]) -> None:
    async def handle(request: InferenceRequest) -> InferenceReply:
        return InferenceReply(PLACEMENT, Frames(_frames(*frames)))

    async with running_front(handle) as run:
        error = await failure(run.stub.ModelInfer(infer_request()))
    assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL)


@pytest.mark.parametrize(
    "error",
    [
        UpstreamRefused("its words", http_status=404, grpc_status="NOT_FOUND"),
        UpstreamFailed("broken"),
        DeadlineExceeded("late"),
        Saturated("no room", retry_after_s=1.5),
        OnpremUnavailable("down", retry_after_s=2),
        NoEligibleEndpoint("none"),
        Forbidden("not yours"),
        InternalError("a bug"),
    ],
)
async def test_every_failure_has_its_status_words_and_trailers(error: GatewayError) -> None:
    async with running_front(Pipeline(error).handle) as run:
        found = await failure(run.stub.ModelInfer(infer_request()))
    assert found.code().name == error.grpc_status
    # gRPC's own words for it, which clients look for, stand before ours.
    late = "Deadline Exceeded: " if isinstance(error, DeadlineExceeded) else ""
    assert found.details() == late + error.message
    trailers = told(found)
    assert trailers["x-spillway-reason"] == error.reason
    assert trailers["x-request-id"] == "call-0"
    assert trailers.get("retry-after") == (
        None if error.retry_after_s is None else trailers["retry-after"]
    )
    assert ("retry-after-ms" in trailers) == (error.retry_after_s is not None)


async def test_an_unexpected_exception_tells_nothing_of_itself() -> None:
    async def handle(request: InferenceRequest) -> InferenceReply:
        raise ValueError("SECRET")

    async with running_front(handle) as run:
        found = await failure(run.stub.ModelInfer(infer_request()))
    assert found.code() is grpc.StatusCode.INTERNAL
    assert "SECRET" not in (found.details() or "")


async def test_a_caller_that_leaves_is_noticed_at_once() -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    async def handle(request: InferenceRequest) -> InferenceReply:
        entered.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            left.set()
            raise
        raise AssertionError

    async with running_front(handle) as run:
        for lap in within(0.1):
            entered.clear()
            left.clear()
            call = run.stub.ModelInfer(infer_request())
            await asyncio.wait_for(entered.wait(), 5)
            lap.begins()
            call.cancel()
            await asyncio.wait_for(left.wait(), 5)
            lap.ends()


async def test_a_caller_that_leaves_within_an_answer_closes_it() -> None:
    async def slow() -> AsyncIterator[Frame]:
        await asyncio.sleep(30)
        yield GrpcMessage(b"")

    answers: list[Frames] = []
    entered = asyncio.Event()

    async def handle(request: InferenceRequest) -> InferenceReply:
        entered.set()
        answers.append(Frames(slow()))
        return InferenceReply(PLACEMENT, answers[-1])

    async with running_front(handle) as run:
        for lap in within(0.1):
            entered.clear()
            call = run.stub.ModelInfer(infer_request())
            await asyncio.wait_for(entered.wait(), 5)
            await asyncio.sleep(0.01)
            lap.begins()
            call.cancel()
            await asyncio.wait_for(answers[-1].closed.wait(), 5)
            lap.ends()


async def test_a_pipeline_that_hangs_does_not_outlive_the_deadline() -> None:
    async def handle(request: InferenceRequest) -> InferenceReply:
        await asyncio.sleep(30)
        raise AssertionError

    async with running_front(handle) as run:
        began_s = time.monotonic()
        call = run.stub.ModelInfer(infer_request(), metadata=(("x-latency-budget-ms", "100"),))
        found = await failure(call)
    assert found.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert told(found)["x-spillway-reason"] == "deadline_exceeded"
    assert 0.1 <= time.monotonic() - began_s < 5


@pytest.mark.parametrize(
    ("metadata", "seconds"), [((("x-latency-budget-ms", "250"),), 0.25), ((), 3.0)]
)
async def test_the_tightest_budget_wins(metadata: Any, seconds: float) -> None:
    pipeline = Pipeline()
    async with running_front(pipeline.handle) as run:
        await run.stub.ModelInfer(infer_request(), timeout=3, metadata=metadata)
    request = pipeline.seen[0]
    assert request.deadline.at_s - request.received_s == pytest.approx(seconds, abs=0.05)


async def test_callers_can_tighten_the_placement_but_not_with_two_words() -> None:
    pipeline = Pipeline()
    async with running_front(pipeline.handle) as run:
        stay = ("x-spillway-placement", "onprem")
        await run.stub.ModelInfer(infer_request(), metadata=(stay,))
        assert pipeline.seen[0].zones == ONPREM_ONLY
        twice = (stay, ("x-spillway-placement", "any"))
        found = await failure(run.stub.ModelInfer(infer_request(), metadata=twice))
    assert found.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(pipeline.seen) == 1


BAD: dict[str, tuple[Any, str]] = {
    "unknown model": (infer_request("nope"), "NOT_FOUND"),
    "no model": (infer_request(""), "NOT_FOUND"),
    "short data": (infer_request(values=range(16)), "INVALID_ARGUMENT"),
    "negative timeout": (infer_request(timeout=-1), "INVALID_ARGUMENT"),
    "text timeout": (infer_request(timeout="soon"), "INVALID_ARGUMENT"),
    "shared memory": (infer_request(), "UNIMPLEMENTED"),
    "extra raw contents": (infer_request(), "INVALID_ARGUMENT"),
}
BAD["short data"][0].raw_input_contents[0] = b"abc"
BAD["shared memory"][0].inputs[0].parameters["shared_memory_region"].string_param = "x"
BAD["extra raw contents"][0].raw_input_contents.append(b"hidden")


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_request_never_reaches_the_pipeline(name: str) -> None:
    message, status = BAD[name]
    pipeline = Pipeline()
    async with running_front(pipeline.handle) as run:
        found = await failure(run.stub.ModelInfer(message))
    assert found.code().name == status
    assert not pipeline.seen


async def test_a_message_that_is_none_is_refused() -> None:
    async with running_front() as run:
        infer = run.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        found = await failure(infer(b"\xff\xff\xff"))
    assert found.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("compression", list(grpc.Compression))
async def test_a_message_over_the_cap_is_refused_however_it_is_packed(
    compression: grpc.Compression,
) -> None:
    pipeline = Pipeline()
    async with running_front(pipeline.handle, limits=LimitSettings(max_body_bytes=100_000)) as run:
        large = infer_request(values=[0] * 100_000)
        found = await failure(run.stub.ModelInfer(large, compression=compression))
        assert found.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await run.stub.ModelInfer(infer_request(values=[0] * 10_000), compression=compression)
    assert len(pipeline.seen) == 1


async def test_draining_finishes_what_is_in_flight() -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def handle(request: InferenceRequest) -> InferenceReply:
        entered.set()
        await go_on.wait()
        return reply(infer_response("last"))

    async with running_front(handle) as run:
        call = run.stub.ModelInfer(infer_request())
        await asyncio.wait_for(entered.wait(), 5)
        draining = asyncio.create_task(run.front.drain(5))
        await asyncio.sleep(0.05)
        async with grpc.aio.insecure_channel(run.target, options=OPTIONS) as channel:
            late: Any = channel
            infer = late.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            found = await failure(infer(b"", timeout=0.5))
            assert found.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        go_on.set()
        assert (await call).id == "last"
        await asyncio.wait_for(draining, 1)


async def test_a_second_server_on_the_port_is_an_error() -> None:
    async with running_front() as run:
        second = GrpcFront(run.services, "127.0.0.1", run.port)
        with pytest.raises(OSError, match="cannot listen"):
            await second.start()


async def test_a_call_comes_to_the_settings_of_the_moment_when_it_is_whole() -> None:
    """Whatever was called before over the same connection."""
    before, after = Pipeline(), Pipeline()
    async with running_front(before.handle) as run, caller(run.port) as peer:
        peer.send(peer.call(1, infer_request().SerializeToString()))
        assert (await peer.answer(1))[1]["grpc-status"] == "0"
        peer.send(peer.head(3, request(INFER)))  # its message comes later
        await peer.until_read()
        known = Callers({"k": key()})
        run.front.serve(replace(run.services, handle=after.handle, callers=known))
        peer.send(frame(DATA, END_STREAM, 3, message(infer_request().SerializeToString())))
        assert (await peer.fields(3))["grpc-status"] == "16"
        peer.send(peer.call(5, infer_request().SerializeToString()))
        assert (await peer.fields(5))["grpc-status"] == "16"
        more = request(INFER, *AUTHORIZED)
        peer.send(peer.head(7, more))
        peer.send(frame(DATA, END_STREAM, 7, message(infer_request().SerializeToString())))
        assert (await peer.answer(7))[1]["grpc-status"] == "0"
    assert (len(before.seen), len(after.seen)) == (1, 1)
