"""Frames are taken as they come, whatever pieces their bytes come in."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from gateway.protocols.http2 import Code, frames
from gateway.protocols.http2.bounds import BLOCK_BYTES, FRAME_BYTES
from gateway.protocols.http2.connection import Http2Connection
from gateway.protocols.http2.frame_handler import FrameHandler, StreamEvents
from gateway.protocols.http2.frame_reader import FrameReader
from gateway.protocols.http2.sender import Stream

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

Taken = tuple[int, int, int, bytes]


class Sent:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.reads = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def write_eof(self) -> None:
        pass

    def abort(self) -> None:
        pass


class NoEvents(StreamEvents):
    """Of streams: nothing is done with them."""

    def was_open(self, stream: int) -> bool:
        return True

    def on_head(self, stream: int, block: bytes, ended: bool) -> None: ...
    def on_data(self, stream: Any, data: bytes, ended: bool) -> None: ...
    def on_reset(self, stream: Any, code: int) -> None: ...
    def on_goaway(self, last: int, code: int) -> None: ...


class Line(Http2Connection):
    """With a transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = Sent()

    def begin(self, events: StreamEvents) -> None:
        self._take_streams(events)
        self.connection_made(cast(asyncio.BaseTransport, self.sent))


class NotingHandler(FrameHandler):
    """Notes what it takes, and does nothing with heads, data and windows."""

    def __init__(self, events: StreamEvents, line: Http2Connection) -> None:
        super().__init__(events, line.sender, line.controls)
        self.taken: list[Taken] = []

    def take_head(self, stream: int, block: bytes, ended: bool) -> None:
        self.taken.append((frames.HEADERS, frames.END_HEADERS | ended, stream, block))

    def take_data(self, flags: int, stream: int, payload: bytes) -> None:
        self.taken.append((frames.DATA, flags, stream, payload))

    def take_window(self, stream: int, payload: bytes) -> None:
        self.taken.append((frames.WINDOW_UPDATE, 0, stream, payload))

    def take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        self.taken.append((kind, flags, stream, payload))
        super().take(kind, flags, stream, payload)


class Taking(Line):
    def __init__(self, events: StreamEvents | None = None) -> None:
        super().__init__()
        self.handler = self.noting = NotingHandler(events or NoEvents(), self)
        self.reader = FrameReader(self.handler, self._fail)
        self.connection_made(cast(asyncio.BaseTransport, self.sent))

    @property
    def taken(self) -> list[Taken]:
        return self.noting.taken


async def rested(taking: Http2Connection) -> None:
    """All that came has been taken, in as many turns of the loop as it needs."""
    while taking.reader.rests:  # noqa: ASYNC110 - the gateway has no event for it
        await asyncio.sleep(0)


SENT: list[Taken] = [
    (frames.SETTINGS, 0, 0, b""),
    *((kind, kind, kind, bytes(700 * kind)) for kind in (0, 20, 30)),
    (frames.HEADERS, frames.END_HEADERS, 7, b"x" * 300),
    (frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, (1 << 31) - 1, b""),
    (frames.WINDOW_UPDATE, 0, 0, bytes(4)),
    (frames.PING, frames.ACK, 0, bytes(8)),
    (frames.GOAWAY, 0, 0, bytes(5000)),
]


@pytest.mark.parametrize("size", [1, 8, 9, 10, 100, 5000, 1 << 20])
async def test_frames_are_cut_wherever_their_bytes_are(size: int) -> None:
    data = b"".join([frames.frame(*each) for each in SENT])
    taking = Taking()
    for at in range(0, len(data), size):
        taking.data_received(data[at : at + size])
        await rested(taking)
    assert taking.taken == SENT


async def test_the_reserved_bit_of_a_stream_says_nothing() -> None:
    taking = Taking()
    said = bytearray(frames.frame(frames.SETTINGS, 0, 0) + frames.frame(0x20, 0, 3))
    said[9 + 5] |= 0x80
    taking.data_received(bytes(said))
    assert taking.taken[-1] == (0x20, 0, 3, b"")


@pytest.mark.parametrize("comes", ["whole", "head alone", "octet by octet"])
async def test_a_frame_is_too_long_by_its_head(comes: str) -> None:
    def told(kind: int, size: int) -> Any:
        taking = Taking()
        head = frames.head(size, kind, 0, 1)
        data = frames.frame(frames.SETTINGS, 0, 0) + head
        if comes == "whole":
            taking.data_received(data + bytes(size))
        elif comes == "head alone":
            taking.data_received(data)
        else:
            for octet in data:
                taking.data_received(bytes((octet,)))
        return taking

    for kind, most in ((frames.DATA, FRAME_BYTES), (0x20, BLOCK_BYTES)):
        assert not told(kind, most).sender.lost
    for kind, size, code in (
        (frames.DATA, FRAME_BYTES + 1, Code.FRAME_SIZE_ERROR),
        (frames.HEADERS, FRAME_BYTES + 1, Code.FRAME_SIZE_ERROR),
        (frames.HEADERS, BLOCK_BYTES + 1, Code.ENHANCE_YOUR_CALM),
        (0x20, BLOCK_BYTES + 1, Code.ENHANCE_YOUR_CALM),
        (frames.SETTINGS, 6 * 100, Code.ENHANCE_YOUR_CALM),
        (frames.WINDOW_UPDATE, 1000, Code.FRAME_SIZE_ERROR),
        (frames.PING, 1000, Code.FRAME_SIZE_ERROR),
        (frames.RST_STREAM, 1000, Code.FRAME_SIZE_ERROR),
        (frames.PRIORITY, 1000, Code.FRAME_SIZE_ERROR),
    ):
        found = told(kind, size)
        assert found.sender.lost
        assert found.sent.written.endswith(frames.goaway(0, code))
        assert len(found.taken) == 1


async def test_nothing_is_taken_behind_the_end() -> None:
    class Leaving(NoEvents):
        def on_goaway(self, last: int, code: int) -> None:
            taking.give_up(Code.NO_ERROR, "the other end leaves")

    taking = Taking(Leaving())
    ping = frames.frame(frames.PING, frames.ACK, 0, bytes(8))
    greeting = frames.frame(frames.SETTINGS, 0, 0)
    taking.data_received(greeting + ping + frames.goaway(0, Code.NO_ERROR) + ping + ping[:9])
    taking.data_received(ping[9:] + ping)
    kinds = [each[0] for each in taking.taken]
    assert kinds == [frames.SETTINGS, frames.PING, frames.GOAWAY]
    assert not taking.reader._pieces.size


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_a_preface_comes_first_in_whatever_pieces(size: int) -> None:
    for preface, ends in ((frames.PREFACE, False), (b"GET" + frames.PREFACE, True)):
        taking = Taking()
        taking.reader = FrameReader(taking.handler, taking._fail, frames.PREFACE)
        taking.connection_made(cast(asyncio.BaseTransport, taking.sent))
        data = preface + frames.frame(frames.SETTINGS, 0, 0)
        for at in range(0, len(data), size):
            taking.data_received(data[at : at + size])
        assert taking.sender.lost == ends
        assert len(taking.taken) == (not ends)


async def test_what_calls_bring_is_not_saved_up_for_a_flood() -> None:
    """Not even by many of them."""
    line = Line()
    line.begin(NoEvents())
    line.sender.streams[1] = Stream()
    line.data_received(frames.frame(frames.SETTINGS, 0, 0))
    for flood in (
        frames.frame(frames.DATA, 0, 1, b"x") * 20_000,
        frames.frame(frames.PING, frames.ACK, 0, bytes(8)) * 20_000,
    ):
        line.data_received(flood)
        await rested(line)
    assert line.sender.lost
    assert line.sent.written.endswith(frames.goaway(0, Code.ENHANCE_YOUR_CALM))
