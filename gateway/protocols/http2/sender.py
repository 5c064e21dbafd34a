"""The sending half of a connection, which keeps to the peer's windows. Calls share the connection's
in turns, a frame at a time, and wait while the transport holds enough.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from gateway.protocols.http2 import BadStream, Code, Http2Error, frames
from gateway.protocols.http2.bounds import CONTROLS_PER_FRAME, MOST_IN_ADVANCE, FloodLimit
from gateway.protocols.http2.hpack import TABLE_BYTES, Encoder, Field
from gateway.protocols.http2.message import PREFIX_BYTES, framed, prefix

_UNREAD_BYTES: Final = 1 << 20  # in the transport, while a peer asks for more answers
_CONTROL_WINDOWS: Final = 8  # of streams that SETTINGS change, which count as one more
_CLOSED_STREAMS: Final = 1024
_LARGE_BYTES: Final = 1 << 20  # of a message
_GATHERED_BYTES: Final = 64 * 1024  # more go out at once
_WORTH_BYTES: Final = 1024  # of DATA: a window that opens by less brings no call on
_HEADERS, _END_STREAM = frames.HEADERS, frames.END_STREAM
_WHOLE_HEAD: Final = frames.END_HEADERS
_WHOLE_END: Final = frames.END_HEADERS | frames.END_STREAM
_write_head, _write_message_head = frames.write_head, frames.write_message_head

Fields = tuple[tuple[Field, ...], bytes]
"""Header fields that many streams have in common, and a block of one's own."""


class Stream:
    """One call's, as the connection knows it."""

    id = 0  # until it has begun
    window = 0  # what may be sent of it
    received = 0  # of the window that the peer has, since it was told of more room
    held = False  # the peer is told of more room when what came is taken, and not before
    discards = False  # what still comes of it is wanted by nobody
    unsent: bytes | None = None  # DATA of which some could not be sent yet
    at = 0  # how much was
    tail: Fields | None = None  # behind it
    ends = False  # with that, or with DATA where there is none

    def was_sent(self) -> None:
        """All that waited for room has gone."""


class ClosedStreams:
    """Streams that this end closed while the peer could still send: frames of the last of them may
    be under way (RFC 9113, section 5.1)."""

    __slots__ = ("_forgotten", "_streams")

    def __init__(self) -> None:
        self._streams: dict[int, None] = {}
        self._forgotten = 0  # the highest that was remembered and is no more

    def add(self, stream: int) -> None:
        streams = self._streams
        streams[stream] = None
        if len(streams) > _CLOSED_STREAMS:
            oldest = next(iter(streams))
            del streams[oldest]
            self._forgotten = max(self._forgotten, oldest)

    def discard(self, stream: int) -> None:
        self._streams.pop(stream, None)

    def check(self, stream: int) -> None:
        """Raises Http2Error for HEADERS or DATA of a stream that the peer itself had ended."""
        # guard: A8.closed-stream -> return
        if stream not in self._streams and stream > self._forgotten:
            raise Http2Error(Code.STREAM_CLOSED, "a frame of a stream that its sender has ended")


class FrameSender:
    def __init__(self, controls: FloodLimit) -> None:
        """`controls`: frames of the peer that carry no call, less what calls have brought."""
        self._controls = controls
        self._transport: asyncio.Transport
        self._call_soon = asyncio.get_running_loop().call_soon
        self._gathered: list[bytes] = []  # to be sent when this turn of the loop is over
        self._gathered_bytes = 0
        self._encoder = Encoder()
        self._table_bytes = TABLE_BYTES
        self._peer_frame_bytes = frames.USUAL_FRAME_BYTES
        self._unsent: deque[Stream] = deque()  # with room in their own window
        self.streams: dict[int, Any] = {}  # that are open
        self.closed = ClosedStreams()
        self.stream_window = frames.USUAL_WINDOW  # of a new stream
        self.window = frames.USUAL_WINDOW  # what may be sent, of all streams
        self.most_streams = frames.MOST_WINDOW  # that the peer takes at once
        self.full = False  # the transport holds enough
        self.lost = False  # nothing can be sent any more

    def open(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def end(self) -> None:
        self.flush()
        self.lost = True
        self._unsent.clear()

    def flush(self) -> None:
        """What this turn of the event loop has to send goes out, in one write: answers that come
        together cost the peer and the kernel no more than one."""
        gathered = self._gathered
        if gathered:
            self._gathered, self._gathered_bytes = [], 0
            if not self._transport.is_closing():
                self._transport.write(b"".join(gathered))

    def _send(self, data: bytes) -> None:
        gathered = self._gathered
        if not gathered:
            self._call_soon(self.flush)
        gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes > _GATHERED_BYTES:
            self.flush()

    def write(self, data: bytes) -> None:
        """Frames, behind those before them."""
        if not self.lost:
            self._send(data)

    def answer(self, data: bytes) -> None:
        """A frame that the peer asks for. Raises Http2Error where it reads none of them."""
        if self._transport.get_write_buffer_size() > _UNREAD_BYTES:
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "answers to frames are not read")
        self._send(data)

    def reset(self, stream: int, code: Code) -> None:
        """End a stream that the peer may not have ended."""
        if not self.lost:
            self._send(frames.reset(stream, code))
            self.closed.add(stream)

    # What the peer allows

    def set(self, name: int, value: int) -> None:
        """One of the peer's settings. Raises Http2Error."""
        if name == frames.HEADER_TABLE_SIZE:
            if value < self._table_bytes:
                self._table_bytes = value
                self._encoder = Encoder(value)
        elif name == frames.INITIAL_WINDOW_SIZE:
            if value > frames.MOST_WINDOW:
                raise Http2Error(Code.FLOW_CONTROL_ERROR, "a window that is too large")
            more, self.stream_window = value - self.stream_window, value
            if more:
                # guard: A8.settings-windows
                self._controls.count += len(self.streams) // _CONTROL_WINDOWS
                try:
                    for stream in self.streams.values():
                        self.widen(stream, more)
                except BadStream as exc:
                    raise Http2Error(exc.code, exc.why) from None
        elif name == frames.MAX_FRAME_SIZE:
            if not frames.USUAL_FRAME_BYTES <= value < 1 << 24:
                raise Http2Error(Code.PROTOCOL_ERROR, "a frame size that is none")
            self._peer_frame_bytes = value
        elif name == frames.MAX_CONCURRENT_STREAMS:
            self.most_streams = value
        elif name == frames.ENABLE_PUSH and value > 1:
            raise Http2Error(Code.PROTOCOL_ERROR, "a setting that is neither 0 nor 1")

    def widen_all(self, more: int) -> None:
        """Raises Http2Error."""
        self.window += more
        if not more:
            raise Http2Error(Code.PROTOCOL_ERROR, "a WINDOW_UPDATE of nothing")
        if self.window > frames.MOST_WINDOW:
            raise Http2Error(Code.FLOW_CONTROL_ERROR, "a window that is too large")

    def widen(self, stream: Stream, more: int) -> None:
        """Raises BadStream for a window over 2^31-1 (RFC 9113, section 6.9.1)."""
        before = stream.window
        stream.window += more
        if stream.window > frames.MOST_WINDOW:
            raise BadStream(Code.FLOW_CONTROL_ERROR, "a window that is too large")
        if stream.unsent is not None and before <= 0 < stream.window:
            self._unsent.append(stream)

    # Header fields and data

    def send_message(
        self, stream: Stream, head: Fields, message: bytes, tail: Fields | None
    ) -> None:
        """All that is sent of it: its header fields, one message, and the fields of `tail` where
        there are any. In one write where there is room for all of it."""
        if self.lost:
            return
        number, encoder, most = stream.id, self._encoder, self._peer_frame_bytes
        shared, own = head
        block = (encoder.blocks.get(shared) or encoder.begin(shared)) + own
        length = len(message)
        size, block_size = length + PREFIX_BYTES, len(block)
        if (
            size > most
            or size > stream.window
            or size > self.window
            or block_size > most
            or self.full
            or self._unsent
        ):
            begins = self._headers(number, block, 0)
            room = min(stream.window, self.window) >= PREFIX_BYTES
            if length >= _LARGE_BYTES and room and not self.full and not self._unsent:
                stream.window -= PREFIX_BYTES
                self.window -= PREFIX_BYTES
                begins += frames.frame(frames.DATA, 0, number, prefix(length))
                self.send(stream, begins, message, tail)  # which nobody copies
                return
            self.send(stream, begins, framed(message), tail)
            return
        stream.window -= size  # the DATA that comes for it pays for what it brings
        self.window -= size
        begins = _write_head(block_size << 8 | _HEADERS, _WHOLE_HEAD, number)
        if tail is None:
            before = _write_message_head(size << 8, _END_STREAM, number, 0, length)
            self._send(b"".join((begins, block, before, message)))
            return
        before = _write_message_head(size << 8, 0, number, 0, length)
        shared, own = tail
        last = (encoder.blocks.get(shared) or encoder.begin(shared)) + own
        last_size = len(last)
        if last_size > most:
            ends, last = self._headers(number, last, _END_STREAM), b""
        else:
            ends = _write_head(last_size << 8 | _HEADERS, _WHOLE_END, number)
        self._send(b"".join((begins, block, before, message, ends, last)))

    def send(
        self, stream: Stream, before: bytes, data: bytes, tail: Fields | None, ends: bool = True
    ) -> None:
        """DATA behind `before`, which are frames; then the fields of `tail`; as there is room."""
        if self.lost:
            return
        size = len(data)
        if (
            tail is None
            and size <= stream.window
            and size <= self.window
            and size <= self._peer_frame_bytes
            and not self.full
            and not self._unsent
        ):
            stream.window -= size
            self.window -= size
            if self._controls.count > MOST_IN_ADVANCE:
                self._controls.count -= CONTROLS_PER_FRAME
            head = frames.head(size, frames.DATA, _END_STREAM if ends else 0, stream.id)
            self._send(b"".join((before, head, data)))
            return
        if before:
            self._send(before)
        stream.unsent, stream.at, stream.tail, stream.ends = data, 0, tail, ends
        if stream.window > 0 or not size:
            self._unsent.append(stream)
        self.send_more()

    def send_more(self) -> None:
        while self._unsent and not self.full and not self.lost:
            stream = self._unsent[0]
            data = stream.unsent
            if data is None:  # it was reset
                self._unsent.popleft()
                continue
            left = len(data) - stream.at
            size = min(left, self.window, stream.window, self._peer_frame_bytes)
            if size <= 0 < left and self.window <= 0:
                return
            self._unsent.popleft()
            if size <= 0 < left:
                continue  # until its own window is wider
            self._send_piece(stream, data, size)
            if stream.unsent is not None and stream.window > 0:
                self._unsent.append(stream)

    def _send_piece(self, stream: Stream, data: bytes, size: int) -> None:
        at, tail = stream.at, stream.tail
        stream.window -= size
        self.window -= size
        stream.at += size
        last = stream.at == len(data)
        # guard: A8.tiny-window minus 1
        if (last or size >= _WORTH_BYTES) and self._controls.count > MOST_IN_ADVANCE:
            self._controls.count -= CONTROLS_PER_FRAME
        flags = frames.END_STREAM if last and stream.ends and tail is None else 0
        self._send(frames.frame(frames.DATA, flags, stream.id, data[at : at + size]))
        if last:
            stream.unsent = stream.tail = None
            if tail is not None:
                self._send(self.encode(stream.id, tail, _END_STREAM))
            stream.was_sent()

    def encode(self, stream: int, fields: Fields, flags: int) -> bytes:
        """To be sent at once: what it means depends on the blocks before it."""
        return self._headers(stream, self._encoder.begin(fields[0]) + fields[1], flags)

    def _headers(self, stream: int, block: bytes, flags: int) -> bytes:
        most = self._peer_frame_bytes
        if len(block) <= most:
            return frames.frame(frames.HEADERS, flags | frames.END_HEADERS, stream, block)
        frame = frames.frame(frames.HEADERS, flags, stream, block[:most])
        for at in range(most, len(block), most):
            last = frames.END_HEADERS if at + most >= len(block) else 0
            frame += frames.frame(frames.CONTINUATION, last, stream, block[at : at + most])
        return frame
