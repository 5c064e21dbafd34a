"""What a peer's frames can cost this end of a connection, whatever they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.config import LimitSettings
from gateway.protocols.http2 import Code, Http2Error, bounds, frames
from gateway.protocols.http2.sender import Stream
from tests.unit.grpc_rig import Pipeline, infer_request, infer_response, reply, running_front
from tests.unit.http2.peers import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INFER,
    RST,
    WINDOW,
    caller,
    frame,
    message,
    number,
    request,
    settings,
)
from tests.unit.http2.test_connection import Line, NoEvents, rested

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

ASKED = infer_request(call="a").SerializeToString()
GREETING = frames.frame(frames.SETTINGS, 0, 0)
CORPUS = Path(__file__).parents[4] / "shared" / "data" / "corpora" / "http2-frame-test-case"
CASES = {path.relative_to(CORPUS).as_posix(): path.read_text() for path in CORPUS.glob("*/*.json")}


class End(Line):
    """Counts what it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counts(self)
        self.begin(self.counts)
        self.data_received(GREETING)

    def open(self, *numbers: int) -> None:
        for stream in numbers:
            self.sender.streams[stream] = opened = Stream()
            opened.id, opened.window = stream, self.sender.stream_window

    def ended_with(self, code: Code) -> bool:
        return self.sender.lost and self.sent.written.endswith(frames.goaway(0, code))


class Counts(NoEvents):
    def __init__(self, end: End) -> None:
        self.end = end
        self.heads = self.data = 0

    def on_head(self, stream: int, block: bytes, ended: bool) -> None:
        self.heads += 1

    def on_data(self, stream: Any, data: bytes, ended: bool) -> None:
        self.data += 1

    def on_reset(self, stream: Any, code: int) -> None:
        self.end.sender.streams.pop(stream.id, None)

    def was_open(self, stream: int) -> bool:
        return 0 < stream < 5000


def window_settings(*values: int) -> bytes:
    pairs = b"".join(frames.INITIAL_WINDOW_SIZE.to_bytes(2) + v.to_bytes(4) for v in values)
    return frames.frame(frames.SETTINGS, 0, 0, pairs)


# SETTINGS


async def test_only_the_last_value_of_a_setting_counts() -> None:
    end = End()
    end.open(1)
    end.data_received(window_settings(1, 1 << 30, 2, 70_000))
    assert (end.sender.stream_window, end.sender.streams[1].window) == (70_000, 70_000)


def test_a_table_is_as_small_as_it_was_for_a_moment() -> None:
    """Its owner may have thrown everything out meanwhile (RFC 7541, section 4.2)."""
    size = frames.HEADER_TABLE_SIZE
    pairs = b"".join(size.to_bytes(2) + value.to_bytes(4) for value in (4096, 0, 4096))
    assert frames.read_settings(pairs) == {size: 0}


async def test_more_settings_than_there_are_end_the_connection_before_they_come() -> None:
    for count, code in (
        (64, None),
        (65, Code.ENHANCE_YOUR_CALM),
        (2_700, Code.ENHANCE_YOUR_CALM),
        (200_000, Code.FRAME_SIZE_ERROR),
    ):
        end = End()
        end.data_received(frames.head(6 * count, frames.SETTINGS, 0, 0))
        assert end.sender.lost == (code is not None)
        assert code is None or end.ended_with(code)


async def test_settings_that_change_many_windows_count_as_many_frames() -> None:
    end = End()
    end.open(*range(1, 2001, 2))
    end.data_received(b"".join([window_settings(70_000 + at) for at in range(100)]))
    await rested(end)
    assert end.ended_with(Code.ENHANCE_YOUR_CALM)
    few = End()
    few.open(1, 3)
    few.data_received(b"".join([window_settings(70_000 + at) for at in range(100)]))
    await rested(few)
    assert not few.sender.lost


# Turns of the loop


@pytest.mark.parametrize(
    ("flood", "most"),
    [
        (frames.frame(frames.DATA, 0, 1, b"x"), bounds.STEPS_AT_ONCE),
        (
            frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\x83"),
            bounds.STEPS_AT_ONCE // bounds.HEAD_STEPS,
        ),
        (
            frames.frame(frames.HEADERS, frames.END_HEADERS, 1, bytes(20_000)),
            1 + bounds.STEPS_AT_ONCE * bounds.STEP_OCTETS // 20_000,
        ),
    ],
    ids=["data", "heads", "large heads"],
)
async def test_what_costs_much_leaves_others_their_turn(flood: bytes, most: int) -> None:
    end, count = End(), 3 * most
    end.open(1)
    end.data_received(flood * count)
    assert 0 < end.counts.heads + end.counts.data <= most
    assert not end.sent.reads
    end.data_received(flood)  # what a transport has read already
    await rested(end)
    assert end.counts.heads + end.counts.data == count + 1
    assert end.sent.reads


async def test_a_connection_that_ends_while_others_have_their_turn_takes_nothing_more() -> None:
    end = End()
    end.open(1)
    end.data_received(frames.frame(frames.DATA, 0, 1, b"x") * 5000)
    taken = end.counts.data
    end.give_up(Code.NO_ERROR, "it ends")
    assert end.sent.reads
    await rested(end)
    assert (end.counts.data, end.reader._pieces.size) == (taken, 0)


# Data of streams that have ended


def with_a_stream_reset() -> End:
    """One that this end has reset while its peer was sending."""
    end = End()
    end.open(1)
    end.handler.reset(end.sender.streams[1], Code.CANCEL)
    return end


async def test_data_of_streams_that_have_ended_earn_nothing() -> None:
    end = with_a_stream_reset()
    end.data_received(frames.frame(frames.DATA, 0, 1, b"x") * 12_000)
    await rested(end)
    assert end.ended_with(Code.ENHANCE_YOUR_CALM)


async def test_what_is_under_way_when_a_stream_ends_is_no_flood() -> None:
    """All that a peer may have sent of several calls, in frames of the usual size."""
    end = with_a_stream_reset()
    for _ in range(4 * bounds.STREAM_WINDOW >> 14):
        end.data_received(frames.frame(frames.DATA, 0, 1, bytes(1 << 14)))
        await rested(end)
    assert not end.sender.lost
    end.sender.flush()
    assert frames.window_update(0, bounds.CONNECTION_WINDOW // 2) in end.sent.written


async def test_streams_that_this_end_has_reset_are_remembered_within_a_bound() -> None:
    end = End()
    streams = range(1, 4999, 2)
    for stream in streams:
        end.open(stream)
        end.handler.reset(end.sender.streams[stream], Code.CANCEL)
    assert len(end.sender.closed._streams) == 1024
    end.data_received(frames.frame(frames.DATA, 0, streams[0], b"x"))  # forgotten: not blamed
    end.data_received(frames.frame(frames.DATA, frames.END_STREAM, streams[-1], b"x"))
    assert not end.sender.lost
    end.data_received(frames.frame(frames.DATA, 0, streams[-1], b"x"))
    assert end.ended_with(Code.STREAM_CLOSED)


async def test_a_call_that_is_answered_takes_no_more_data() -> None:
    """Its answer waits for room; what still comes is counted, and gets no room of the stream."""

    async def handle(call: object) -> Any:
        return reply(infer_response("x" * 100_000))

    async with running_front(handle) as run, caller(run.port, settings(window=10)) as peer:
        peer.send(peer.head(1, request()), frame(DATA, 0, 1, message(ASKED)))
        peer.send(peer.call(3, ASKED))
        await peer.until_read()
        (connection,) = [c for c in run.front._server._connections if c.calls.last_id > 1]
        exchange = connection.sender.streams[3]
        assert exchange.unsent is not None
        peer.send(frame(DATA, 0, 3, b"x"))
        seen = await peer.until(RST)
        assert (seen.stream, seen.code) == (3, Code.STREAM_CLOSED)


async def test_windows_that_open_by_an_octet_are_a_flood() -> None:
    async def handle(call: object) -> Any:
        return reply(infer_response("x" * 100_000))

    async with running_front(handle) as run, caller(run.port, settings(window=0)) as peer:
        peer.send(peer.call(1, ASKED))
        await peer.fields(1)
        peer.send(frame(WINDOW, 0, 1, number(1)) * 20_000)
        assert await peer.goodbye() == Code.ENHANCE_YOUR_CALM


# What corpora say


@pytest.mark.skipif(not CASES, reason="no http2-frame-test-case here")
@pytest.mark.parametrize("name", sorted(CASES))
async def test_frames_of_the_corpus_end_what_is_wrong_and_nothing_else(name: str) -> None:
    case = json.loads(CASES[name])
    end = End()
    end.open(*range(1, 60))
    end.data_received(bytes.fromhex(case["wire"]))
    resets = frames.frame(frames.RST_STREAM, 0, 1)[3:4] in end.sent.written
    if case["error"] is None:
        assert not end.sender.lost or "push_promise" in name or "continuation" in name
    elif "data-frame-size" not in name:  # larger than the usual ones, and we take larger ones
        assert end.sender.lost or resets


# Heads


async def test_heads_without_measure_end_the_connection_at_once() -> None:
    async with running_front() as run:
        for block in (b"\x82" * 60_000, b"\x20" * 100):
            async with caller(run.port) as peer:
                peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
                assert await peer.goodbye() in (Code.ENHANCE_YOUR_CALM, Code.COMPRESSION_ERROR)
        async with caller(run.port) as peer:
            peer.send(frames.head(1 << 20, HEADERS, END_HEADERS, 1))
            assert await peer.goodbye() == Code.ENHANCE_YOUR_CALM


MALFORMED: dict[str, tuple[list[tuple[str, str]], bytes]] = {
    "a content-length that is more": ([("content-length", "1000")], ASKED),
    "a content-length that is less": ([("content-length", "3")], ASKED),
    "a content-length twice": ([("content-length", "9")] * 2, ASKED),
    "two content-lengths": ([("content-length", "9"), ("content-length", "8")], ASKED),
    "a content-length that is no number": ([("content-length", "+9")], ASKED),
    "another host": ([("host", "elsewhere")], ASKED),
    "a host twice": ([("host", "here"), ("host", "here")], ASKED),
    "a content type twice": ([("content-type", "application/grpc")], ASKED),
    "a timeout twice": ([("grpc-timeout", "1S"), ("grpc-timeout", "2S")], ASKED),
}
TARGETS = {
    "an absolute form": "http://elsewhere" + INFER,
    "no slash": INFER[1:],
    "an empty path": "",
    "a space in the path": INFER + " x",
    "an asterisk": "*",
}


async def refused(port: int, sent: Any) -> None:
    async with caller(port) as peer:
        peer.send(*sent(peer))
        seen = await peer.until(RST)
        assert (seen.stream, seen.code) == (1, Code.PROTOCOL_ERROR)
        peer.send(peer.call(3, ASKED))
        assert (await peer.answer(3))[1]["grpc-status"] == "0"


@pytest.mark.parametrize("name", MALFORMED)
async def test_heads_that_contradict_themselves_or_their_data_are_malformed(name: str) -> None:
    more, content = MALFORMED[name]
    pipeline = Pipeline()
    async with running_front(pipeline.handle) as run:
        await refused(
            run.port,
            lambda peer: (
                peer.head(1, request(INFER, *more)),
                frame(DATA, END_STREAM, 1, message(content)),
            ),
        )
    assert len(pipeline.seen) == 1


@pytest.mark.parametrize("name", TARGETS)
async def test_a_target_that_is_none_is_malformed(name: str) -> None:
    async with running_front(Pipeline().handle) as run:
        await refused(
            run.port,
            lambda peer: (
                peer.head(1, request(TARGETS[name])),
                frame(DATA, END_STREAM, 1, message(ASKED)),
            ),
        )


async def test_no_data_where_the_head_says_that_there_is_some_is_malformed() -> None:
    async with running_front(Pipeline().handle) as run:
        flags = END_HEADERS | END_STREAM
        head = request(INFER, ("content-length", "9"))
        await refused(run.port, lambda peer: (peer.head(1, head, flags),))


async def test_a_content_length_that_is_right_is_well() -> None:
    whole = message(ASKED)
    head = request(INFER, ("content-length", str(len(whole))), ("host", "HERE"))
    async with running_front(Pipeline().handle) as run, caller(run.port) as peer:
        peer.send(peer.head(1, head), frame(DATA, 0, 1, whole[:9]))
        peer.send(frame(DATA, END_STREAM, 1, whole[9:]))
        assert (await peer.answer(1))[1]["grpc-status"] == "0"


TRAILERS = {
    "a pseudo-header": [(":path", "/")],
    "a whole head": request(),
    "a name in capitals": [("X-One", "1")],
    "a connection's header": [("connection", "close")],
    "a content-length": [("content-length", "3")],
}


@pytest.mark.parametrize("name", TRAILERS)
async def test_trailers_have_none_of_what_a_head_has(name: str) -> None:
    pipeline = Pipeline()
    async with running_front(pipeline.handle) as run:
        await refused(
            run.port,
            lambda peer: (
                peer.head(1, request()),
                frame(DATA, 0, 1, message(ASKED)),
                peer.head(1, TRAILERS[name], END_HEADERS | END_STREAM),
            ),
        )
    assert len(pipeline.seen) == 1


async def test_trailers_of_a_request_end_it() -> None:
    async with running_front(Pipeline().handle) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request()), frame(DATA, 0, 1, message(ASKED)))
        peer.send(peer.head(1, [("x-checksum", "1")], END_HEADERS | END_STREAM))
        assert (await peer.answer(1))[1]["grpc-status"] == "0"


async def test_small_frames_are_held_in_little_more_than_they_say() -> None:
    limits = LimitSettings(max_body_bytes=1 << 20)
    async with running_front(limits=limits) as run, caller(run.port) as peer:
        peer.send(peer.head(1, request()))
        begun = message(bytes(100_000))[:60_000]
        for octet in begun:
            peer.send(frame(DATA, 0, 1, bytes((octet,))))
        await peer.until_read()
        (connection,) = [c for c in run.front._server._connections if c.sender.streams]
        pieces = connection.sender.streams[1].pieces
        assert pieces.size == len(begun)
        assert len(pieces._pieces) == 1


def test_a_frame_without_data_is_bounded_by_what_a_block_may_have() -> None:
    with pytest.raises(Http2Error):
        bounds.check_size(frames.GOAWAY, bounds.BLOCK_BYTES + 1)
    bounds.check_size(frames.GOAWAY, bounds.BLOCK_BYTES)
