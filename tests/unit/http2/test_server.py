"""The gRPC front towards callers that send what no client of gRPC would."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from gateway.config import LimitSettings
from gateway.core.reply import InferenceReply
from gateway.core.types import InferenceRequest
from gateway.protocols.http2 import Code
from gateway.server.grpc.stream import MAX_IN_FLIGHT
from tests.unit.grpc_rig import Pipeline, RunningFront, infer_request, infer_response, running_front
from tests.unit.http2.peers import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INFER,
    PADDED,
    PING,
    PREFACE,
    PRIORITISED,
    PRIORITY,
    PUSH,
    RST,
    SETTINGS,
    STREAM,
    WINDOW,
    Peer,
    caller,
    frame,
    message,
    number,
    request,
    settings,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

ASKED = infer_request(call="a").SerializeToString()
ANSWERED = infer_response("a").SerializeToString()


def connections(run: RunningFront) -> Any:
    return run.front._server._connections  # what the gateway holds is what these tests are about


async def rests(run: RunningFront) -> None:
    """Nothing is left of connections that have ended."""
    async with asyncio.timeout(5):
        while connections(run):  # noqa: ASYNC110 - the gateway has no event for it
            await asyncio.sleep(0.005)


async def test_a_call_can_come_in_any_pieces() -> None:
    pipeline = Pipeline()
    async with running_front(pipeline.handle) as run:
        whole = Peer(*await asyncio.open_connection("127.0.0.1", run.port))
        sent = PREFACE + settings() + whole.call(1, ASKED)
        for octet in sent:
            whole.send(bytes((octet,)))
            await asyncio.sleep(0)
        content, trailers = await whole.answer(1)
        assert content == ANSWERED
        assert trailers["grpc-status"] == "0"
        whole.writer.close()
        for at in range(1, len(sent), 7):
            cut = Peer(*await asyncio.open_connection("127.0.0.1", run.port))
            cut.send(sent[:at])
            await asyncio.sleep(0)
            cut.send(sent[at:])
            assert (await cut.answer(1))[0] == ANSWERED
            cut.writer.close()
            await cut.writer.wait_closed()
        await run.channel.close()
        await rests(run)


async def test_padding_priorities_and_pieces_of_a_head_are_read() -> None:
    async with running_front(Pipeline().handle) as run, caller(run.port) as peer:
        block = peer.block(request())
        padded = bytes((3,)) + number(0) + b"\x10" + block[:4] + bytes(3)
        peer.send(
            frame(HEADERS, PADDED | PRIORITISED, 1, padded),
            frame(CONTINUATION, 0, 1, block[4:9]),
            frame(CONTINUATION, END_HEADERS, 1, block[9:]),
            frame(PRIORITY, 0, 1, bytes(5)),
            frame(0x99, 0xFF, 1, b"nobody knows this one"),
        )
        whole = message(ASKED)
        peer.send(frame(DATA, PADDED, 1, b"\x05" + whole[:9] + bytes(5)))
        peer.send(frame(DATA, END_STREAM, 1, whole[9:]))
        assert (await peer.answer(1))[0] == ANSWERED


async def test_an_answer_keeps_to_the_windows_of_its_caller() -> None:
    large = infer_response("x" * 100_000).SerializeToString()

    async def handle(call: InferenceRequest) -> InferenceReply:
        from tests.unit.grpc_rig import reply

        return reply(infer_response("x" * 100_000))

    async with running_front(handle) as run, caller(run.port, settings(window=10)) as peer:
        peer.send(peer.call(1, ASKED), peer.call(3, ASKED))
        await peer.fields(1)
        got = {1: b"", 3: b""}
        for stream in (1, 3):
            if stream == 3:
                await peer.fields(3)
            seen = await peer.until(DATA)
            got[seen.stream] += seen.payload
            assert len(seen.payload) == 10
        peer.send(frame(WINDOW, 0, 1, number(200_000)))
        while len(got[1]) < 65_535 - 10:  # the connection's own window is what there is now
            seen = await peer.until(DATA)
            assert seen.stream == 1
            assert len(seen.payload) <= 16_384
            got[1] += seen.payload
        peer.send(frame(PING, 0, 0, b"anything"))
        assert (await peer.next()).kind == PING  # and nothing of an answer before it
        peer.send(settings(window=300_000), frame(WINDOW, 0, 0, number(500_000)))
        ended = 0
        while ended < 2:
            seen = await peer.until(DATA, HEADERS)
            if seen.kind == HEADERS:
                assert peer.decoded(seen.payload)["grpc-status"] == "0"
                ended += 1
            else:
                got[seen.stream] += seen.payload
        assert got == {1: message(large), 3: message(large)}


BROKEN: dict[str, tuple[bytes, Code]] = {
    "no SETTINGS first": (frame(PING, 0, 0, bytes(8)), Code.PROTOCOL_ERROR),
    "a frame too long": (settings() + b"\xff\xff\xff\0\0\0\0\0\1", Code.FRAME_SIZE_ERROR),
    "a stream of the server's": (settings() + frame(HEADERS, 5, 2, b"\x83"), Code.PROTOCOL_ERROR),
    "a head of no stream": (settings() + frame(HEADERS, 5, 0, b"\x83"), Code.PROTOCOL_ERROR),
    "data of no stream": (settings() + frame(DATA, 0, 0, b"x"), Code.PROTOCOL_ERROR),
    "data of a stream to come": (settings() + frame(DATA, 0, 7, b"x"), Code.PROTOCOL_ERROR),
    "a reset of a stream to come": (settings() + frame(RST, 0, 7, bytes(4)), Code.PROTOCOL_ERROR),
    "a window of a stream to come": (
        settings() + frame(WINDOW, 0, 7, number(1)), Code.PROTOCOL_ERROR,
    ),
    "a push": (settings() + frame(PUSH, 4, 1, bytes(9)), Code.PROTOCOL_ERROR),
    "SETTINGS of a stream": (frame(SETTINGS, 0, 1), Code.PROTOCOL_ERROR),
    "SETTINGS cut short": (frame(SETTINGS, 0, 0, bytes(5)), Code.FRAME_SIZE_ERROR),
    "an ACK that says more": (settings() + frame(SETTINGS, 1, 0, bytes(6)), Code.FRAME_SIZE_ERROR),
    "a window too wide": (settings(window=1 << 31), Code.FLOW_CONTROL_ERROR),
    "a window that grows too wide": (
        settings() + frame(WINDOW, 0, 0, number((1 << 31) - 1)), Code.FLOW_CONTROL_ERROR,
    ),
    "a window that does not grow": (
        settings() + frame(WINDOW, 0, 0, number(0)), Code.PROTOCOL_ERROR,
    ),
    "a frame size that is none": (settings(frame=100), Code.PROTOCOL_ERROR),
    "a PING cut short": (settings() + frame(PING, 0, 0, b"x"), Code.FRAME_SIZE_ERROR),
    "a CONTINUATION of nothing": (settings() + frame(CONTINUATION, 4, 1), Code.PROTOCOL_ERROR),
    "another frame within a head": (
        settings() + frame(HEADERS, 0, 1, b"\x83") + frame(PING, 0, 0, bytes(8)),
        Code.PROTOCOL_ERROR,
    ),
    "padding longer than its frame": (
        settings() + frame(HEADERS, PADDED | END_HEADERS, 1, b"\x09\x83"), Code.PROTOCOL_ERROR,
    ),
    "a head that is no HPACK": (
        settings() + frame(HEADERS, 5, 1, b"\xff\xff"), Code.COMPRESSION_ERROR,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_not_http2_ends_the_connection_with_its_code(name: str) -> None:
    sent, code = BROKEN[name]
    async with running_front() as run:
        async with caller(run.port, sent) as peer:
            assert await peer.goodbye() == code
        await run.channel.close()
        await rests(run)


async def test_what_is_no_preface_is_not_answered_for_long() -> None:
    async with running_front() as run:
        for sent in (b"GET / HTTP/1.1\r\n\r\n", PREFACE[:-1] + b"x"):
            peer = Peer(*await asyncio.open_connection("127.0.0.1", run.port))
            peer.send(sent)
            assert await peer.goodbye() == Code.PROTOCOL_ERROR
            peer.writer.close()


MALFORMED = {
    "no path": [(":method", "POST"), (":scheme", "http")],
    "a path twice": [*request(), (":path", "/")],
    "a pseudo-header behind a header": [("te", "trailers"), *request()],
    "an unknown pseudo-header": [(":status", "200"), *request()],
    "a name in capitals": [*request(), ("X-One", "1")],
    "a name with a space": [*request(), ("x one", "1")],
    "a value with a line's end": [*request(), ("x-one", "1\r\n2")],
    "a connection's header": [*request(), ("connection", "close")],
    "transfer coding": [*request(), ("transfer-encoding", "chunked")],
    "another te": [*request()[:4], ("te", "gzip")],
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_head_resets_its_stream_and_no_other(name: str) -> None:
    pipeline = Pipeline()
    async with running_front(pipeline.handle) as run, caller(run.port) as peer:
        peer.send(peer.head(1, MALFORMED[name]), frame(DATA, END_STREAM, 1, message(ASKED)))
        seen = await peer.until(RST)
        assert (seen.stream, seen.code) == (1, Code.PROTOCOL_ERROR)
        peer.send(peer.call(3, ASKED))
        assert (await peer.answer(3))[0] == ANSWERED
    assert len(pipeline.seen) == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ([(":method", "GET"), *request()[1:]], "405"),
        ([*request()[:5], ("content-type", "application/json")], "415"),
        ([*request()[:5], ("content-type", "application/grpcweb")], "415"),
    ],
)
async def test_what_is_not_grpc_gets_a_status_of_http(fields: Any, status: str) -> None:
    async with running_front() as run, caller(run.port) as peer:
        peer.send(peer.head(1, fields, END_HEADERS | END_STREAM))
        assert (await peer.fields(1))[":status"] == status


REFUSED: dict[str, tuple[list[tuple[str, str]], bytes, str]] = {
    "too much metadata": ([("x-much", "x" * 40_000)], message(ASKED), "8"),
    "a timeout that is none": ([("grpc-timeout", "soon")], message(ASKED), "3"),
    "no message": ([], b"", "13"),
    "half a message": ([], message(ASKED)[:-1], "13"),
    "two messages": ([], message(ASKED) * 2, "13"),
    "compressed by nobody knows what": ([], message(ASKED, 1), "13"),
    "compressed by what we lack": ([("grpc-encoding", "br")], message(ASKED, 1), "12"),
    "compressed and broken": ([("grpc-encoding", "gzip")], message(ASKED, 1), "13"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_request_that_cannot_be_read_is_told_why(name: str) -> None:
    more, data, status = REFUSED[name]
    async with running_front() as run, caller(run.port) as peer:
        peer.send(peer.head(1, request(INFER, *more)), frame(DATA, END_STREAM, 1, data))
        told = await peer.fields(1)
        assert told["grpc-status"] == status
        assert told["grpc-message"]


async def test_a_head_without_end_ends_its_connection() -> None:
    """A flood of CONTINUATION, empty ones too."""
    async with running_front() as run:
        for piece in (b"", b"\x00" * 16_000):
            async with caller(run.port) as peer:
                peer.send(frame(HEADERS, 0, 1, b"\x83"))
                for _ in range(40):
                    peer.send(frame(CONTINUATION, 0, 1, piece))
                assert await peer.goodbye() == Code.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    "flood",
    [
        frame(PING, 0, 0, bytes(8)),
        settings(),
        frame(PRIORITY, 0, 1, bytes(5)),
        frame(0x77, 0, 0),
        frame(WINDOW, 0, 0, number(1)),
    ],
    ids=["PING", "SETTINGS", "PRIORITY", "unknown", "WINDOW_UPDATE"],
)
async def test_a_flood_of_frames_that_carry_no_call_ends_its_connection(flood: bytes) -> None:
    async with running_front() as run, caller(run.port) as peer:
        peer.send(flood * 12_000)
        assert await peer.goodbye() == Code.ENHANCE_YOUR_CALM


async def test_windows_that_grow_with_what_is_sent_are_no_flood() -> None:
    async with running_front(Pipeline().handle) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request()))
        grows = frame(WINDOW, 0, 0, number(1)) + frame(WINDOW, 0, 1, number(1))
        for octet in message(infer_request(values=range(2000)).SerializeToString())[:-1]:
            peer.send(frame(DATA, 0, 1, bytes((octet,))), grows)
        peer.send(frame(DATA, END_STREAM, 1, b"\x00"))
        assert (await peer.answer(1))[1]["grpc-status"] == "0"


class Slow:
    """Calls that take their time, to stop too."""

    def __init__(self, stops_s: float) -> None:
        self.stops_s = stops_s
        self.running = self.most = self.began = 0

    async def handle(self, call: InferenceRequest) -> InferenceReply:
        self.running, self.began = self.running + 1, self.began + 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(self.stops_s)
            raise
        finally:
            self.running -= 1
        raise AssertionError

    async def all_stopped(self) -> None:
        async with asyncio.timeout(5):
            while self.running:  # noqa: ASYNC110 - until the last has stopped
                await asyncio.sleep(0.01)


async def test_calls_that_are_reset_at_once_gain_nothing() -> None:
    """CVE-2023-44487."""
    slow = Slow(0.0)
    async with running_front(slow.handle) as run:
        async with caller(run.port) as peer:
            for at in range(1, 6000, 2):
                peer.send(peer.call(at, ASKED), frame(RST, 0, at, number(8)))
                if at % 100 == 1:
                    await asyncio.sleep(0)
            assert await peer.goodbye() == Code.ENHANCE_YOUR_CALM
        await run.channel.close()
        await rests(run)
        await slow.all_stopped()
    assert slow.began < 600


async def test_a_call_that_was_reset_has_its_place_until_it_has_stopped() -> None:
    slow = Slow(0.5)
    limits = LimitSettings(max_concurrent=8)
    async with running_front(slow.handle, limits=limits) as run, caller(run.port) as peer:
        for at in range(1, 61, 2):
            peer.send(peer.call(at, ASKED))
            await asyncio.sleep(0.005)
            peer.send(frame(RST, 0, at, number(8)))
        await asyncio.sleep(0.05)
        assert 0 < slow.most <= 8
        await slow.all_stopped()


async def test_calls_that_are_reset_before_they_begin_leave_their_places_to_others() -> None:
    limits = LimitSettings(max_concurrent=8)
    async with running_front(Pipeline().handle, limits=limits) as run, caller(run.port) as peer:
        for at in range(1, 41, 2):
            peer.send(peer.call(at, ASKED) + frame(RST, 0, at, number(8)))
        peer.send(peer.call(41, ASKED))
        seen = await peer.until(HEADERS, RST)
        assert (seen.kind, seen.stream) == (HEADERS, 41)
        (connection,) = [c for c in connections(run) if c.calls.last_id > 1]
        assert not connection.calls.running


async def test_more_calls_than_may_be_are_refused_and_the_others_go_on() -> None:
    go_on = asyncio.Event()

    async def handle(call: InferenceRequest) -> InferenceReply:
        await go_on.wait()
        return await Pipeline().handle(call)

    limits = LimitSettings(max_concurrent=2)
    async with running_front(handle, limits=limits) as run, caller(run.port) as peer:
        peer.send(*(peer.call(at, ASKED) for at in (1, 3, 5)))
        seen = await peer.until(RST)
        assert (seen.stream, seen.code) == (5, Code.REFUSED_STREAM)
        go_on.set()
        assert {(await peer.answer(at))[0] for at in (1, 3)} == {ANSWERED}


async def test_requests_that_do_not_come_whole_are_bounded_all_together() -> None:
    limits = LimitSettings(max_body_bytes=20 << 20, max_concurrent=64)
    async with running_front(limits=limits) as run, caller(run.port) as peer:
        begun = message(bytes(20 << 20))[: 4 << 20]
        piece = 1 << 20
        refused = None
        for at in range(1, 61, 2):
            peer.send(peer.head(at, request()))
            for start in range(0, len(begun) - piece, piece):
                peer.send(frame(DATA, 0, at, begun[start : start + piece]))
            await peer.writer.drain()
        async with asyncio.timeout(10):
            refused = await peer.fields()
        assert refused["grpc-status"] == "8"
        (connection,) = [c for c in connections(run) if c.calls.last_id > 1]
        assert not connection.calls.held.full


async def test_a_message_that_says_that_it_is_too_large_is_refused_before_it_comes() -> None:
    limits = LimitSettings(max_body_bytes=1 << 20)
    async with running_front(limits=limits) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request()))
        peer.send(frame(DATA, 0, 1, message(bytes(1 << 21))[:1000]))
        told = await peer.fields(1)
        assert told["grpc-status"] == "8"
        assert "larger than max" in told["grpc-message"]


async def test_a_caller_cannot_send_more_than_it_was_given_room_for() -> None:
    async def handle(call: InferenceRequest) -> InferenceReply:
        await asyncio.sleep(30)
        raise AssertionError

    async with running_front(handle) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request(STREAM)))
        peer.send(frame(DATA, 0, 1, message(ASKED)) * MAX_IN_FLIGHT)
        peer.send(frame(DATA, 0, 1, bytes(1 << 20)) * 5)  # which nobody reads
        seen = await peer.until(RST, GOAWAY)
        assert (seen.kind, seen.code) == (RST, Code.FLOW_CONTROL_ERROR)


async def test_any_frames_at_all_leave_nothing_behind() -> None:
    chance = random.Random(2)
    async with running_front(Pipeline().handle) as run:
        for _ in range(150):
            async with caller(run.port) as peer:
                for _ in range(chance.randrange(1, 12)):
                    peer.send(_any(chance, peer))
                if chance.random() < 0.5:
                    await asyncio.sleep(0)
                else:
                    peer.send(frame(GOAWAY, 0, 9, b""))
                    await peer.goodbye()
        assert (await run.stub.ModelInfer(infer_request(call="after"))).id == "after"
        await run.channel.close()
        await rests(run)
    assert not [t for t in asyncio.all_tasks() if "Exchange" in repr(t.get_coro())]


def _any(chance: random.Random, peer: Peer) -> bytes:
    stream = chance.choice((0, 1, 1, 2, 3, 3, 5, 7))
    kind = chance.randrange(11)
    flags = chance.choice((0, 1, 4, 5, 5, 8, 13, 0x25, 255))
    path = chance.choice((INFER, STREAM, "/none"))
    payload = chance.choice(
        (b"", bytes(4), number(1), bytes(8), chance.randbytes(chance.randrange(40)), message(ASKED))
    )
    if kind == HEADERS and chance.random() < 0.8:
        payload = peer.block(request(path))
    return frame(kind, flags, stream, payload)
