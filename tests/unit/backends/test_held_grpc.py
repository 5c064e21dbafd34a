"""What comes of an answer of gRPC, whole or of a stream, is counted while it comes: by real
endpoints over HTTP/2 that announce large messages and send them as they like."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from gateway.core.deadline import Deadline
from gateway.core.errors import AnswersFull, GatewayError, UpstreamError, UpstreamRefused
from gateway.core.held_bytes import AnswerShare, HeldBytes
from gateway.core.reply import Frame, GrpcMessage
from gateway.core.types import InferenceRequest, ServedModel, WireProtocol
from gateway.endpoints.connectors.open_inference.grpc import GrpcTarget, OipGrpcClient
from gateway.endpoints.connectors.triton.grpc import triton_grpc
from gateway.protocols.http2.bounds import STREAM_WINDOW
from gateway.protocols.oip.grpc import decode_request
from gateway.protocols.oip.stream_frames import StreamFrame
from gateway.protocols.pieces import PieceBuffer
from tests.unit.grpc_rig import event, fake_triton, infer_request
from tests.unit.http2.endpoint import Answering, endpoint
from tests.unit.http2.peers import message

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

MB = 1 << 20
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


class Budget(HeldBytes):
    """Remembers the most that anybody held."""

    __slots__ = ("peaks",)

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self.peaks: dict[str, int] = {}

    def take(self, caller: str, count: int) -> bool:
        taken = super().take(caller, count)
        self.peaks[caller] = max(self.peaks.get(caller, 0), self.held_by(caller))
        return taken


def answer_of(size: int) -> bytes:
    """A message of about that size, whichever way it is asked for."""
    response = service_pb2.ModelInferResponse(model_name="m", raw_output_contents=[bytes(size)])
    whole: bytes = response.SerializeToString()
    return whole


def written(content: bytes, streamed: bool) -> bytes:
    return message(StreamFrame(content).encode() if streamed else content)


@asynccontextmanager
async def client(address: str, max_bytes: int = 64 * MB) -> AsyncIterator[OipGrpcClient]:
    made = triton_grpc(GrpcTarget(address, max_answer_bytes=max_bytes))
    try:
        yield made
    finally:
        await made.aclose()


def asked(share: AnswerShare | None, streamed: bool) -> InferenceRequest:
    return InferenceRequest(
        "0a0b0c0d-0000-4000-8000-000000000001", WireProtocol.KSERVE_GRPC, "t", "simple",
        decode_request(infer_request(), streamed=streamed), Deadline.after(30), held=share,
    )  # fmt: skip


async def answered(
    by: OipGrpcClient, share: AnswerShare | None, streamed: bool
) -> list[int] | GatewayError:
    """The sizes of all messages, or why there are none."""
    try:
        reply = await by.open(asked(share, streamed), ServedModel("m"))
        try:
            return [_size(frame) async for frame in reply]
        finally:
            await reply.aclose()
    except GatewayError as error:
        return error


def _size(frame: Frame) -> int:
    assert isinstance(frame, GrpcMessage)
    return len(frame.message)


async def until(reached: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not reached():  # noqa: ASYNC110 - the wire has no event for it
            await asyncio.sleep(0.005)


class Dripping:
    """Announces a message and sends all but its last octet; that when it may end."""

    def __init__(self, size: int, streamed: bool) -> None:
        self.content = answer_of(size)
        self._written = written(self.content, streamed)
        self.all_but_one = 0  # answers that have come so far
        self.may_end = asyncio.Event()

    async def __call__(self, call: Answering) -> None:
        await call.head()
        await call.data(memoryview(self._written)[:-1])
        self.all_but_one += not call.reset.is_set()
        await self.may_end.wait()
        await call.data(self._written[-1:])
        if not call.reset.is_set():
            await call.ends()


@both_ways
async def test_what_is_gathered_counts_for_its_caller_and_others_find_room(streamed: bool) -> None:
    dripping = Dripping(6 * MB, streamed)
    budget = Budget(16 * MB)
    shares = [AnswerShare(budget, "a") for _ in range(6)]
    async with asyncio.timeout(30), endpoint(dripping) as (address, _), client(address) as by:
        tracemalloc.start()
        try:
            calls = [asyncio.create_task(answered(by, share, streamed)) for share in shares]
            await until(lambda: dripping.all_but_one and sum(c.done() for c in calls) == 5)
            assert tracemalloc.get_traced_memory()[1] < 20 * MB  # of 36 that were announced
        finally:
            tracemalloc.stop()
        for full in [call.result() for call in calls if call.done()]:
            assert isinstance(full, AnswersFull)
            told = (full.reason, full.http_status, full.grpc_status)
            assert told == ("answers_full", 429, "RESOURCE_EXHAUSTED")
        assert 6 * MB <= budget.bytes == budget.held_by("a") <= 8 * MB  # while it is being gathered
        other = AnswerShare(budget, "b")
        late = asyncio.create_task(answered(by, other, streamed))
        await until(lambda: late.done() or budget.held_by("b") > 4 * MB)
        assert isinstance(await late, AnswersFull)  # for 6 MB there is no room beside those
        other.close()
        small = Dripping(3 * MB, streamed)
        small.may_end.set()
        async with endpoint(small) as (there, _), client(there) as near:
            other = AnswerShare(budget, "b")
            assert await answered(near, other, streamed) == [len(small.content)]
        dripping.may_end.set()
        assert [len(dripping.content)] in [await call for call in calls]
        assert budget.peaks["a"] <= 8 * MB
    for share in (*shares, other):
        share.close()
    assert budget.bytes == 0


@both_ways
async def test_a_message_says_by_its_beginning_that_it_is_too_large(streamed: bool) -> None:
    begins = written(answer_of(9 * MB), streamed)[:MB]

    async def announces(call: Answering) -> None:
        await call.head()
        await call.data(begins)
        await call.reset.wait()

    budget = HeldBytes(64 * MB)
    async with (
        asyncio.timeout(10),
        endpoint(announces) as (address, calls),
        client(address, 8 * MB) as by,
    ):
        found = await answered(by, AnswerShare(budget, "a"), streamed)
        assert isinstance(found, UpstreamRefused)
        assert found.http_status == 413
        assert budget.bytes == 0
        await calls[0].reset.wait()


@both_ways
@pytest.mark.parametrize("how", ["cancelled", "lost"])
async def test_an_answer_of_grpc_that_is_given_up_is_held_no_more(streamed: bool, how: str) -> None:
    dripping = Dripping(3 * MB, streamed)
    budget = HeldBytes(16 * MB)
    share = AnswerShare(budget, "a")
    async with asyncio.timeout(20), endpoint(dripping) as (address, calls), client(address) as by:
        call = asyncio.create_task(answered(by, share, streamed))
        await until(lambda: budget.bytes >= 3 * MB)
        if how == "cancelled":
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        else:
            calls[0].hang_up()
            assert isinstance(await call, UpstreamError)
        assert budget.bytes == 0


async def test_the_last_answer_of_a_stream_counts_until_the_next_has_come() -> None:
    sizes = [2 * MB, 100, 1 * MB]
    contents = [answer_of(size) for size in sizes]

    async def answers(call: Answering) -> None:
        await call.head()
        await call.data(b"".join(written(content, True) for content in contents))
        await call.ends()

    budget = HeldBytes(16 * MB)
    share = AnswerShare(budget, "a")
    async with asyncio.timeout(20), endpoint(answers) as (address, _), client(address) as by:
        reply = await by.open(asked(share, True), ServedModel("m"))
        held: list[int] = []
        await until(lambda: budget.bytes > 3 * MB)  # unread answers count as well
        async for frame in reply:
            assert isinstance(frame, GrpcMessage)
            assert frame.message == contents[len(held)]
            held.append(budget.bytes)
        assert [count // MB for count in held] == [3, 1, 1]
        await reply.aclose()
        assert 1 * MB < budget.bytes < 1.1 * MB  # its caller may not have taken it
    share.close()
    assert budget.bytes == 0


async def test_a_stream_that_nobody_reads_comes_no_further_than_its_window() -> None:
    one = written(answer_of(MB), True)
    sent = asyncio.Event()

    async def answers(call: Answering) -> None:
        await call.head()
        for _ in range(12):
            await call.data(one)
        sent.set()
        await call.ends()

    budget = HeldBytes(64 * MB)
    async with asyncio.timeout(20), endpoint(answers) as (address, calls), client(address) as by:
        share = AnswerShare(budget, "a")
        reply = await by.open(asked(share, True), ServedModel("m"))
        await until(lambda: calls and (calls[0].stalls.is_set() or sent.is_set()))
        await until(lambda: sent.is_set() or calls[0].sent_bytes == STREAM_WINDOW)
        assert not sent.is_set()
        assert budget.bytes <= STREAM_WINDOW
        assert [len([frame async for frame in reply]), sent.is_set()] == [12, True]
        await reply.aclose()


async def test_answers_of_a_stream_come_out_as_they_went_in_however_they_are_cut() -> None:
    chance = random.Random(7)
    sizes = [0, 1, 70_000, 3 * MB, 5, 2 * MB, *[chance.randrange(3000) for _ in range(200)]]
    contents = [
        service_pb2.ModelInferResponse(raw_output_contents=[chance.randbytes(n)]) for n in sizes
    ]
    whole = b"".join(written(c.SerializeToString(), True) for c in contents)

    async def answers(call: Answering) -> None:
        await call.head()
        at = 0
        while at < len(whole):
            size = chance.choice((1, 3, 5, 900, 200_000))
            await call.data(whole[at : at + size])
            at += size
        await call.ends()

    async with asyncio.timeout(30), endpoint(answers) as (address, _), client(address) as by:
        reply = await by.open(asked(None, True), ServedModel("m"))
        came = [service_pb2.ModelInferResponse.FromString(_bytes(f)) async for f in reply]
        assert came == contents


def _bytes(frame: Frame) -> bytes:
    assert isinstance(frame, GrpcMessage)
    return frame.message


ONE = written(answer_of(10), True)
BROKEN: dict[str, Callable[[Answering], Any]] = {
    "within a message": lambda call: call.data(ONE[:-1]),
    "with a compressed message": lambda call: call.data(b"\x01" + ONE[1:]),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_stream_that_breaks_off_fails_behind_what_came_whole(how: str) -> None:
    async def answers(call: Answering) -> None:
        await call.head()
        await call.data(ONE)
        await BROKEN[how](call)
        await call.ends()

    async with asyncio.timeout(10), endpoint(answers) as (address, _), client(address) as by:
        reply = await by.open(asked(None, True), ServedModel("m"))
        await anext(reply)
        with pytest.raises(UpstreamError):
            await anext(reply)
        with pytest.raises(StopAsyncIteration):
            await anext(reply)


async def test_a_server_of_grpcs_own_is_bounded_as_well() -> None:
    """Its answers come as its own windows and ours let them."""
    go_on = asyncio.Event()

    async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
        response = service_pb2.ModelInferResponse(raw_output_contents=[bytes(3 * MB)])
        yield event(response)
        await go_on.wait()

    budget = Budget(16 * MB)
    async with asyncio.timeout(30), fake_triton() as (fake, address), client(address) as by:
        fake.stream = stream
        shares = [AnswerShare(budget, "a") for _ in range(6)]
        opened = [await by.open(asked(share, True), ServedModel("m")) for share in shares]
        firsts = await asyncio.gather(*(anext(r) for r in opened), return_exceptions=True)
        full = [each for each in firsts if isinstance(each, AnswersFull)]
        assert 1 <= 6 - len(full) <= 2
        assert len(full) + sum(isinstance(each, GrpcMessage) for each in firsts) == 6
        assert budget.peaks["a"] <= 8 * MB
        go_on.set()
        for reply in opened:
            await reply.aclose()


# Pieces


def test_a_part_of_pieces_is_those_octets_and_leaves_the_others() -> None:
    chance = random.Random(3)
    for _ in range(300):
        whole = chance.randbytes(chance.randrange(1, 20_000))
        pieces, at = PieceBuffer(), 0
        while at < len(whole):
            size = chance.choice((1, 7, 2047, 2048, 5000))
            pieces.add(whole[at : at + size])
            at += size
        at = chance.randrange(len(whole))
        cut = pieces.cut(at) if at else b""
        count = chance.randrange(len(whole) - at + 1)
        part = pieces.part(count)
        assert (part.size, pieces.size) == (count, len(whole) - at - count)
        assert cut + part.take() + pieces.take() == whole
