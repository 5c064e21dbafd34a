"""The sending half of a connection, which keeps to the peer's windows. Calls share the connection's
in turns, a frame at a time, and wait while the transport holds enough.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from gateway.protocols.http2 import BadStream, Code, frames
from gateway.protocols.http2.hpack import TABLE_BYTES, Encoder, Field
from gateway.protocols.http2.message import PREFIX_BYTES, framed, prefix

CONTROLS_PER_S: Final = 5_000  # frames that carry no call
CONTROLS_PER_FRAME: Final = 4  # of a call: windows grow with what is sent
MOST_IN_ADVANCE: Final = -CONTROLS_PER_S  # that frames of calls may bring
_LARGE_BYTES: Final = 1 << 20  # of a message
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


class FrameSender(asyncio.Protocol):
    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._encoder = Encoder()
        self._table_bytes = TABLE_BYTES
        self._peer_frame_bytes = frames.USUAL_FRAME_BYTES
        self._peer_window = frames.USUAL_WINDOW  # of a new stream
        self._window = frames.USUAL_WINDOW  # what may be sent, of all streams
        self._unsent: deque[Stream] = deque()  # with room in their own window
        self._full = False  # the transport holds enough
        self._controls = 0  # frames that carry no call, less what calls have brought
        self._lost = False

    def _on_reset(self, stream: Any, code: int) -> None:
        raise NotImplementedError

    def _on_sent(self, stream: Any) -> None:
        """All that waited for room."""

    def _widen(self, stream: Stream, more: int) -> None:
        """Raises BadStream for a window over 2^31-1 (RFC 9113, section 6.9.1)."""
        before = stream.window
        stream.window += more
        if stream.window > frames.MOST_WINDOW:
            raise BadStream(Code.FLOW_CONTROL_ERROR, "a window that is too large")
        if stream.unsent is not None and before <= 0 < stream.window:
            self._unsent.append(stream)

    def _send_message(
        self, stream: Stream, head: Fields, message: bytes, tail: Fields | None
    ) -> None:
        """All that is sent of it: its header fields, one message, and the fields of `tail` where
        there are any. In one write where there is room for all of it."""
        number, encoder, most = stream.id, self._encoder, self._peer_frame_bytes
        shared, own = head
        block = (encoder.blocks.get(shared) or encoder.begin(shared)) + own
        length = len(message)
        size, block_size = length + PREFIX_BYTES, len(block)
        if (
            size > most
            or size > stream.window
            or size > self._window
            or block_size > most
            or self._full
            or self._unsent
        ):
            begins = self._headers(number, block, 0)
            room = min(stream.window, self._window) >= PREFIX_BYTES
            if length >= _LARGE_BYTES and room and not self._full and not self._unsent:
                stream.window -= PREFIX_BYTES
                self._window -= PREFIX_BYTES
                begins += frames.frame(frames.DATA, 0, number, prefix(length))
                self._send(stream, begins, message, tail)  # which nobody copies
                return
            self._send(stream, begins, framed(message), tail)
            return
        stream.window -= size  # the DATA that comes for it pays for what it brings
        self._window -= size
        begins = _write_head(block_size << 8 | _HEADERS, _WHOLE_HEAD, number)
        if tail is None:
            before = _write_message_head(size << 8, _END_STREAM, number, 0, length)
            self._transport.write(b"".join((begins, block, before, message)))
            return
        before = _write_message_head(size << 8, 0, number, 0, length)
        shared, own = tail
        last = (encoder.blocks.get(shared) or encoder.begin(shared)) + own
        last_size = len(last)
        if last_size > most:
            ends, last = self._headers(number, last, _END_STREAM), b""
        else:
            ends = _write_head(last_size << 8 | _HEADERS, _WHOLE_END, number)
        self._transport.write(b"".join((begins, block, before, message, ends, last)))

    def _send(
        self, stream: Stream, before: bytes, data: bytes, tail: Fields | None, ends: bool = True
    ) -> None:
        """DATA behind `before`, which are frames; then the fields of `tail`; as there is room."""
        size = len(data)
        if (
            tail is None
            and size <= stream.window
            and size <= self._window
            and size <= self._peer_frame_bytes
            and not self._full
            and not self._unsent
        ):
            stream.window -= size
            self._window -= size
            if self._controls > MOST_IN_ADVANCE:
                self._controls -= CONTROLS_PER_FRAME
            head = frames.head(size, frames.DATA, _END_STREAM if ends else 0, stream.id)
            self._transport.write(b"".join((before, head, data)))
            return
        if before:
            self._transport.write(before)
        stream.unsent, stream.at, stream.tail, stream.ends = data, 0, tail, ends
        if stream.window > 0 or not size:
            self._unsent.append(stream)
        self._send_more()

    def _send_more(self) -> None:
        while self._unsent and not self._full and not self._lost:
            stream = self._unsent[0]
            data = stream.unsent
            if data is None:  # it was reset
                self._unsent.popleft()
                continue
            left = len(data) - stream.at
            size = min(left, self._window, stream.window, self._peer_frame_bytes)
            if size <= 0 < left and self._window <= 0:
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
        self._window -= size
        stream.at += size
        last = stream.at == len(data)
        # guard: A8.tiny-window minus 1
        if (last or size >= _WORTH_BYTES) and self._controls > MOST_IN_ADVANCE:
            self._controls -= CONTROLS_PER_FRAME
        flags = frames.END_STREAM if last and stream.ends and tail is None else 0
        self._transport.write(frames.frame(frames.DATA, flags, stream.id, data[at : at + size]))
        if last:
            stream.unsent = stream.tail = None
            if tail is not None:
                self._transport.write(self._tail(stream.id, tail))
            self._on_sent(stream)

    def _tail(self, stream: int, tail: Fields) -> bytes:
        """To be sent at once: what it means depends on the blocks before it."""
        return self._headers(stream, self._encoder.begin(tail[0]) + tail[1], frames.END_STREAM)

    def _headers(self, stream: int, block: bytes, flags: int) -> bytes:
        most = self._peer_frame_bytes
        if len(block) <= most:
            return frames.frame(frames.HEADERS, flags | frames.END_HEADERS, stream, block)
        frame = frames.frame(frames.HEADERS, flags, stream, block[:most])
        for at in range(most, len(block), most):
            last = frames.END_HEADERS if at + most >= len(block) else 0
            frame += frames.frame(frames.CONTINUATION, last, stream, block[at : at + most])
        return frame
