"""ModelStreamInfer: many calls in one stream, each through the pipeline."""

from __future__ import annotations

import asyncio
import queue
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from gateway.auth import Callers
from gateway.core.errors import UpstreamFailed
from gateway.core.held_bytes import HeldBytes
from gateway.core.reply import Frame, GrpcMessage, InferenceReply
from gateway.core.types import InferenceRequest
from gateway.server.grpc.stream import MAX_IN_FLIGHT
from tests.laps import within
from tests.unit.grpc_rig import (
    PLACEMENT,
    Frames,
    Pipeline,
    answers,
    infer_request,
    infer_response,
    key,
    payload_of,
    reply,
    running_front,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]
Messages = AsyncIterator[Any]


def frames_of(messages: Messages) -> InferenceReply:
    async def written() -> AsyncIterator[Frame]:
        async for message in messages:
            yield GrpcMessage(message.SerializeToString())

    return InferenceReply(PLACEMENT, Frames(written()))


class Gates:
    """Calls that wait until their id is let through; each is answered once."""

    def __init__(self) -> None:
        self.open: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.begun: list[str] = []
        self.cancelled: list[str] = []

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        name = payload_of(request).id
        self.begun.append(name)
        try:
            await self.open[name].wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        if name.startswith("bad"):
            raise UpstreamFailed(f"{name} failed")
        return reply(infer_response(name, final=True))


async def until(condition: Callable[[], bool], wait_s: float = 5.0) -> None:
    async with asyncio.timeout(wait_s):
        while not condition():  # noqa: ASYNC110 - of what the server sees, which tells no one
            await asyncio.sleep(0.002)


async def said(stream: Any, count: int) -> list[str]:
    """The next events: ids, or `id!words` for an error."""
    found = []
    for _ in range(count):
        event = await asyncio.wait_for(stream.read(), 2)
        if event is grpc.aio.EOF:  # type: ignore[attr-defined]
            found.append("end")
        elif event.error_message:
            found.append(f"{event.infer_response.id}!{event.error_message}")
        else:
            found.append(event.infer_response.id)
    return found


async def test_a_call_can_have_many_responses_which_go_out_as_they_come() -> None:
    step: asyncio.Queue[int] = asyncio.Queue()

    async def parts() -> Messages:
        while (number := await step.get()) >= 0:
            yield infer_response(f"part{number}", final=False)
        yield infer_response("end", final=True)

    async def handle(request: InferenceRequest) -> InferenceReply:
        assert request.streamed
        return frames_of(parts())

    async with running_front(handle) as run:
        stream = run.stub.ModelStreamInfer()
        await stream.write(infer_request("repeat"))
        for number in range(3):
            step.put_nowait(number)
            assert await said(stream, 1) == [f"part{number}"]
        step.put_nowait(-1)
        await stream.done_writing()
        assert await said(stream, 2) == ["end", "end"]
        assert await stream.code() is grpc.StatusCode.OK
        assert dict(await stream.trailing_metadata())["x-spillway-zone"] == "onprem"


async def test_calls_run_side_by_side_and_answer_in_the_order_of_the_calls() -> None:
    gates = Gates()
    async with running_front(gates.handle) as run:
        stream = run.stub.ModelStreamInfer()
        for name in ("a", "b", "bad", "c"):
            await stream.write(infer_request(call=name))
        await stream.done_writing()
        await until(lambda: len(gates.begun) == 4)
        for name in ("c", "bad", "b"):
            gates.open[name].set()
        reading = asyncio.create_task(said(stream, 5))
        await asyncio.sleep(0.05)
        assert not reading.done()
        gates.open["a"].set()
        assert await reading == ["a", "b", "bad!bad failed", "c", "end"]


async def test_answers_that_wait_for_those_before_them_hold_no_place_at_a_server() -> None:
    """One place, and the call that came last gets it first: the first would wait for ever."""
    waiting: list[asyncio.Future[None]] = []

    class Placed(Frames):
        async def aclose(self) -> None:
            await super().aclose()
            if waiting:
                waiting.pop().set_result(None)

    async def handle(request: InferenceRequest) -> InferenceReply:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        if len(waiting) == 3:
            waiting.pop().set_result(None)
        await turn
        return InferenceReply(PLACEMENT, Placed(answers(infer_response(payload_of(request).id))))

    async with running_front(handle) as run:
        stream = run.stub.ModelStreamInfer()
        for name in ("a", "b", "c"):
            await stream.write(infer_request(call=name))
        await stream.done_writing()
        assert await asyncio.wait_for(said(stream, 4), 5) == ["a", "b", "c", "end"]


async def test_what_waits_to_be_sent_in_order_counts_for_its_caller() -> None:
    """A server that gives answers without end and never says that they are many."""
    budget = HeldBytes(8 << 20)
    large = infer_response("x")
    large.raw_output_contents.append(bytes(60_000))  # each too small to be counted by itself
    given = 0

    async def endless() -> Messages:
        nonlocal given
        while given < 1000:
            given += 1
            yield large

    async def handle(request: InferenceRequest) -> InferenceReply:
        return frames_of(endless())

    async with running_front(handle) as first:
        made = replace(first.services, held_answers=budget)
    async with running_front(made=made) as run:
        stream = run.stub.ModelStreamInfer()
        await stream.write(infer_request())
        await stream.done_writing()
        errors = [e.error_message async for e in stream if e.error_message]
        assert len(errors) == 1
        assert "as many bytes of answers for this caller" in errors[0]
        assert given <= (4 << 20) // 60_000 + 2
        await until(lambda: budget.bytes == 0)


async def test_a_decoupled_call_holds_nobody_up() -> None:
    go_on = asyncio.Event()

    async def parts() -> Messages:
        yield infer_response("first", final=False)
        await go_on.wait()
        yield infer_response("last", final=False)

    async def handle(request: InferenceRequest) -> InferenceReply:
        if request.model == "repeat":
            return frames_of(parts())
        return reply(infer_response("single", final=True))

    async with running_front(handle) as run:
        stream = run.stub.ModelStreamInfer()
        await stream.write(infer_request("repeat"))
        await stream.write(infer_request())
        await stream.done_writing()
        assert sorted(await said(stream, 2)) == ["first", "single"]
        go_on.set()
        assert await said(stream, 2) == ["last", "end"]


async def test_calls_of_one_sequence_never_overlap_and_keep_their_order() -> None:
    running: dict[Any, int] = defaultdict(int)
    begun: list[str] = []
    together = 0

    async def handle(request: InferenceRequest) -> InferenceReply:
        nonlocal together
        call = payload_of(request)
        running[call.sequence] += 1
        assert running[call.sequence] == 1
        begun.append(call.id)
        together = max(together, sum(running.values()))
        await asyncio.sleep(0.001 * (int(call.id[-1]) % 3))
        running[call.sequence] -= 1
        return reply(infer_response(call.id, final=True))

    async with running_front(handle) as run:
        stream = run.stub.ModelStreamInfer()
        for at in range(9):
            for sequence in ("x", "y"):
                await stream.write(
                    infer_request("seq", call=f"{sequence}{at}", sequence_id=sequence)
                )
        await stream.done_writing()
        await said(stream, 19)
    for sequence in ("x", "y"):
        assert [c for c in begun if c[0] == sequence] == [f"{sequence}{at}" for at in range(9)]
    assert together == 2


BAD: dict[str, Any] = {
    "unknown model": (infer_request("nope", call="q"), "Request for unknown model"),
    "bad budget": (infer_request(call="q", timeout=-1), "timeout"),
    "bad data": (infer_request(call="q"), "byte size"),
}
BAD["bad data"][0].raw_input_contents[0] = b"abc"


@pytest.mark.parametrize("name", BAD)
async def test_a_call_that_fails_says_so_and_the_stream_goes_on(name: str) -> None:
    message, words = BAD[name]
    gates = Gates()
    gates.open["good"].set()
    async with running_front(gates.handle) as run:
        stream = run.stub.ModelStreamInfer()
        await stream.write(message)
        await stream.write(infer_request(call="good"))
        await stream.done_writing()
        error, good, end = await said(stream, 3)
    assert error.startswith("q!")
    assert words in error
    assert (good, end) == ("good", "end")
    assert gates.begun == ["good"]


async def test_what_is_not_a_message_is_told_in_the_stream() -> None:
    async with running_front(Gates().handle) as run:
        call = run.channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")()
        await call.write(b"\xff\xff")
        await call.done_writing()
        event = service_pb2.ModelStreamInferResponse.FromString(await call.read())
    assert "not a ModelInferRequest" in event.error_message


async def test_an_unexpected_exception_tells_nothing_of_itself() -> None:
    async def handle(request: InferenceRequest) -> InferenceReply:
        raise ValueError("SECRET")

    async with running_front(handle) as run:
        stream = run.stub.ModelStreamInfer()
        await stream.write(infer_request(call="q"))
        await stream.done_writing()
        error, end = await said(stream, 2)
    assert error.startswith("q!")
    assert "SECRET" not in error
    assert end == "end"


async def test_a_caller_that_leaves_ends_everything_in_flight_at_once() -> None:
    gates, answers = Gates(), [Frames(_hang())]

    async def handle(request: InferenceRequest) -> InferenceReply:
        if payload_of(request).id == "open":
            gates.begun.append("open")
            return InferenceReply(PLACEMENT, answers[-1])
        return await gates.handle(request)

    def all_left() -> bool:
        return sorted(gates.cancelled) == ["a", "b"] and answers[-1].closed.is_set()

    async with running_front(handle) as run:
        for lap in within(0.1):
            gates.begun.clear()
            gates.cancelled.clear()
            answers.append(Frames(_hang()))
            stream = run.stub.ModelStreamInfer()
            for name in ("a", "b", "open"):
                await stream.write(infer_request(call=name))
            await until(lambda: len(gates.begun) == 3)
            lap.begins()
            stream.cancel()
            await until(all_left)
            lap.ends()


async def _hang() -> AsyncIterator[Frame]:
    await asyncio.sleep(30)
    yield GrpcMessage(b"")


async def test_the_deadline_of_the_stream_bounds_all_of_it() -> None:
    gates = Gates()
    async with running_front(gates.handle) as run:
        stream = run.stub.ModelStreamInfer(timeout=0.2)
        await stream.write(infer_request(call="a"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: gates.cancelled == ["a"])


async def test_a_call_has_its_own_budget_within_the_stream() -> None:
    gates = Gates()
    gates.open["b"].set()
    async with running_front(gates.handle) as run:
        stream = run.stub.ModelStreamInfer()
        await stream.write(infer_request(call="a", timeout=100_000))
        await stream.write(infer_request(call="b"))
        await stream.done_writing()
        late, good, _ = await said(stream, 3)
    assert late.startswith("a!the latency budget passed")
    assert good == "b"


async def test_a_stream_with_too_many_calls_is_read_no_further() -> None:
    gates = Gates()
    async with running_front(gates.handle) as run:
        stream = run.stub.ModelStreamInfer()
        total = MAX_IN_FLIGHT + 10
        for at in range(total):
            await stream.write(infer_request(call=str(at)))
        await stream.done_writing()
        await until(lambda: len(gates.begun) == MAX_IN_FLIGHT)
        await asyncio.sleep(0.05)
        assert len(gates.begun) == MAX_IN_FLIGHT
        for at in range(total):
            gates.open[str(at)].set()
        assert await said(stream, total + 1) == [*map(str, range(total)), "end"]


async def test_a_caller_that_does_not_read_stops_what_produces() -> None:
    produced = 0
    big = infer_response("x", final=False)
    big.raw_output_contents.append(bytes(100_000))

    async def parts() -> Messages:
        nonlocal produced
        for _ in range(2_000):
            produced += 1
            yield big

    async def handle(request: InferenceRequest) -> InferenceReply:
        return frames_of(parts())

    async with running_front(handle) as run:
        stream = run.stub.ModelStreamInfer()
        await stream.write(infer_request("repeat"))
        await stream.read()
        await asyncio.sleep(0.3)
        assert produced < 500
        stream.cancel()


async def test_draining_finishes_the_calls_of_a_stream_and_ends_it() -> None:
    gates = Gates()
    async with running_front(gates.handle) as run:
        stream = run.stub.ModelStreamInfer()
        await stream.write(infer_request(call="a"))
        await until(lambda: gates.begun == ["a"])
        draining = asyncio.create_task(run.front.drain(5))
        await asyncio.sleep(0.02)
        gates.open["a"].set()
        assert await said(stream, 1) == ["a"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        trailers: Any = caught.value.trailing_metadata()
        assert dict(trailers)["x-spillway-reason"] == "draining"
        await asyncio.wait_for(draining, 1)


async def test_tritonclient_streams_through_it() -> None:
    async def parts() -> Messages:
        yield infer_response("q", final=False)
        yield infer_response("q", final=True)

    async def handle(request: InferenceRequest) -> InferenceReply:
        assert payload_of(request).parameters["triton_enable_empty_final_response"] is True
        return frames_of(parts())

    async with running_front(handle) as run:
        finals, error = await asyncio.to_thread(_by_tritonclient, run.target)
    assert finals == [False, True]
    assert "Request for unknown model" in str(error)


def _by_tritonclient(target: str) -> tuple[list[bool], Any]:
    arrived: queue.Queue[tuple[Any, Any]] = queue.Queue()
    tensor = tritonclient.grpc.InferInput("INPUT0", [1], "INT32")
    tensor.set_data_from_numpy(np.zeros(1, np.int32))
    with tritonclient.grpc.InferenceServerClient(target) as client:
        client.start_stream(lambda result, error: arrived.put((result, error)))
        client.async_stream_infer(
            "repeat", [tensor], request_id="q", enable_empty_final_response=True
        )
        results = [arrived.get(timeout=5)[0].get_response() for _ in range(2)]
        client.async_stream_infer("nope", [tensor])
        _, error = arrived.get(timeout=5)
        assert isinstance(error, InferenceServerException)
        client.stop_stream()
    return [r.parameters["triton_final_response"].bool_param for r in results], error


async def test_a_key_that_is_taken_out_is_refused_within_the_stream_that_it_opened() -> None:
    answering = Pipeline()
    async with running_front(answering.handle, keys={"a": key("first")}) as run:
        stream = run.stub.ModelStreamInfer(metadata=(("authorization", "Bearer first"),))
        await stream.write(infer_request(call="before"))
        assert await said(stream, 1) == ["before"]
        run.front.serve(replace(run.services, callers=Callers({"b": key("second")})))
        await stream.write(infer_request(call="after"))
        (told,) = await said(stream, 1)
        assert "!" in told
        stream.cancel()
    assert len(answering.seen) == 1
