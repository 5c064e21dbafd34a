"""What both ends of a connection do: settings, pings, windows, header blocks that come in pieces.

Everything that a peer can make us hold or do is bounded, and what is beyond ends the connection: a
header block by its bytes and its frames (a flood of CONTINUATION), frames that carry no call by
their number within a second beyond a few for each that does (floods of PING, SETTINGS, resets and
empty frames), answers to them by what the peer has not read yet.

What is sent keeps to the peer's windows. Calls share the connection's in turns, a frame at a time,
and wait while the transport holds enough.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, cast

from gateway import ambient
from gateway.http2 import BadStream, Broken, Code, frames
from gateway.http2.hpack import TABLE_BYTES, Encoder, Field

STREAM_WINDOW: Final = 4 << 20
CONNECTION_WINDOW: Final = 16 << 20
FRAME_BYTES: Final = 1 << 20  # that we take
HEAD_LIST_BYTES: Final = 32 * 1024
_BLOCK_BYTES: Final = 64 * 1024
_BLOCK_FRAMES: Final = 16
_CONTROLS_PER_S: Final = 5_000
_CONTROLS_PER_FRAME: Final = 4  # of a call: windows grow with what is sent
_UNREAD_BYTES: Final = 1 << 20  # in the transport, while a peer asks for more answers
_LINGER_S: Final = 1.0


Tail = tuple[tuple[Field, ...], bytes]
"""Header fields that all streams may end with, and a block of one's own."""


class Stream:
    """One call's, as the connection knows it."""

    __slots__ = ("at", "ends", "held", "id", "received", "room", "tail", "unsent", "window")

    def __init__(self) -> None:
        self.id = 0  # until it has begun
        self.window = 0  # what may be sent of it
        self.room = STREAM_WINDOW  # what may come of it
        self.received = 0  # and has, since the peer was told of more room
        self.held = False  # the peer is told of more room when what came is taken, and not before
        self.unsent: bytes | None = None  # DATA of which some could not be sent yet
        self.at = 0  # how much was
        self.tail: Tail | None = None  # behind it
        self.ends = False  # with that, or with DATA where there is none


class Http2Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._now_s = ambient.loop_clock(self._loop)
        self._transport: asyncio.Transport
        self._cutter = frames.Cutter(FRAME_BYTES)
        self._streams: dict[int, Any] = {}
        self._encoder = Encoder()
        self._table_bytes = TABLE_BYTES
        self._peer_frame_bytes = frames.USUAL_FRAME_BYTES
        self._peer_window = frames.USUAL_WINDOW  # of a new stream
        self._window = frames.USUAL_WINDOW  # what may be sent, of all streams
        self._room = CONNECTION_WINDOW  # what may come
        self._received = 0
        self._unsent: deque[Stream] = deque()  # with room in their own window
        self._full = False  # the transport holds enough
        self._block: list[bytes] = []  # pieces of a header block that is not whole
        self._block_of = self._block_flags = self._block_bytes = 0
        self._greeted = False  # the peer's first SETTINGS have come
        self._controls, self._controls_since_s = 0, 0.0
        self._lost = False
        self._came = False  # anything, since somebody looked
        self._probing = False
        self._quiet_s = self._pong_s = 0.0
        self._looks: asyncio.TimerHandle | None = None
        self._lingers: asyncio.TimerHandle | None = None

    # What an end is: a call's header fields, its data, its end by the peer, and the peer's GOAWAY.

    def _on_head(self, stream: int, block: bytes, ended: bool) -> None:
        raise NotImplementedError

    def _on_data(self, stream: Any, data: bytes, ended: bool) -> None:
        raise NotImplementedError

    def _on_reset(self, stream: Any, code: int) -> None:
        raise NotImplementedError

    def _on_goaway(self, last: int, code: int) -> None:
        raise NotImplementedError

    def _was_open(self, stream: int) -> bool:
        """Whether it has ever been, for one that is not now."""
        raise NotImplementedError

    def _on_settings(self) -> None:
        pass

    def _on_sent(self, stream: Any) -> None:
        """All that waited for room."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lingers is not None:
            self._lingers.cancel()
        self._end("the connection was lost")

    def data_received(self, data: bytes) -> None:
        if self._lost:
            return
        self._came = True
        try:
            for kind, flags, stream, payload in self._cutter.cut(data):
                if self._block_of and (kind != frames.CONTINUATION or stream != self._block_of):
                    raise Broken(Code.PROTOCOL_ERROR, "a header block is broken off")
                if not self._greeted and kind != frames.SETTINGS:
                    raise Broken(Code.PROTOCOL_ERROR, "no SETTINGS come first")
                if not self._lost:
                    self._take(kind, flags, stream, payload)
        except Broken as exc:
            self.give_up(exc.code, exc.why)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._send_more()

    def give_up(self, code: Code, why: str) -> None:
        """Tell the peer, and close; but not at once: one that is still sending would get a reset
        instead. What comes meanwhile is thrown away."""
        if not self._lost:
            self._transport.write(frames.goaway(self._last_taken(), code))
            self._end(why)
            self._lingers = self._loop.call_later(_LINGER_S, self._transport.abort)
            try:
                self._transport.write_eof()
            except (OSError, NotImplementedError):  # it has gone already, or this is TLS
                self._transport.close()

    def _last_taken(self) -> int:
        return 0

    def _end(self, why: str) -> None:
        """Nothing more comes, and nothing can be sent."""
        self._lost = True
        if self._looks is not None:
            self._looks.cancel()

    def _watch(self, quiet_s: float, pong_s: float) -> None:
        """From now on: a peer of which nothing comes for so long is asked whether it is there."""
        self._quiet_s, self._pong_s = quiet_s, pong_s
        self._looks = self._loop.call_later(quiet_s, self._look)

    def _look(self) -> None:
        wait_s = self._quiet_s
        if not self._came and self._awaits():
            if self._probing:
                self.give_up(Code.NO_ERROR, "the other end does not answer")
                self._transport.abort()
                return
            self._transport.write(frames.frame(frames.PING, 0, 0, bytes(8)))
            wait_s = self._pong_s
            self._probing = True
        else:
            self._probing = False
        self._came = False
        self._looks = self._loop.call_later(wait_s, self._look)

    def _awaits(self) -> bool:
        """Whether it matters that the peer is there."""
        raise NotImplementedError

    # Frames

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == frames.DATA:
            self._take_data(flags, stream, payload)
        elif kind == frames.HEADERS:
            self._take_headers(flags, stream, payload)
        elif kind == frames.WINDOW_UPDATE:
            self._take_window(stream, payload)
        elif kind == frames.CONTINUATION:
            self._take_continuation(flags, payload)
        else:
            self._count()
            if kind == frames.RST_STREAM:
                self._take_reset(stream, payload)
            elif kind == frames.PUSH_PROMISE:
                raise Broken(Code.PROTOCOL_ERROR, "a push, which nobody allowed")
            elif kind == frames.PRIORITY:
                if not stream or len(payload) != 5:
                    raise Broken(Code.FRAME_SIZE_ERROR, "a PRIORITY of another form")
            elif kind in (frames.SETTINGS, frames.PING, frames.GOAWAY):
                if stream:
                    raise Broken(Code.PROTOCOL_ERROR, "a frame of the connection on a stream")
                if kind == frames.SETTINGS:
                    self._take_settings(flags, payload)
                elif kind == frames.PING:
                    self._take_ping(flags, payload)
                elif len(payload) < 8:
                    raise Broken(Code.FRAME_SIZE_ERROR, "a GOAWAY of another form")
                else:
                    last = frames.number(payload) & frames.MOST_WINDOW
                    self._on_goaway(last, frames.number(payload, 4))

    def _take_data(self, flags: int, stream: int, payload: bytes) -> None:
        size = len(payload)
        self._room -= size
        if self._room < 0:
            raise Broken(Code.FLOW_CONTROL_ERROR, "more data than there is room for")
        self._received += size
        if self._received >= CONNECTION_WINDOW // 2:
            self._transport.write(frames.window_update(0, self._received))
            self._room += self._received
            self._received = 0
        found = self._streams.get(stream)
        data = frames.unpadded(flags, payload) if flags & frames.PADDED else payload
        ended = flags & frames.END_STREAM
        if data or ended:
            self._controls -= _CONTROLS_PER_FRAME
        else:
            self._count()
        if found is None:
            self._check_closed(stream)
            return
        found.room -= size
        if found.room < 0:
            self._reset(found, Code.FLOW_CONTROL_ERROR)
            return
        found.received += size
        if found.received >= STREAM_WINDOW // 2 and not ended and not found.held:
            self._make_room(found)
        self._on_data(found, data, ended != 0)

    def _make_room(self, stream: Stream) -> None:
        self._transport.write(frames.window_update(stream.id, stream.received))
        stream.room += stream.received
        stream.received = 0

    def _take_headers(self, flags: int, stream: int, payload: bytes) -> None:
        if not stream:
            raise Broken(Code.PROTOCOL_ERROR, "header fields of no stream")
        if flags & frames.PADDED:
            payload = frames.unpadded(flags, payload)
        if flags & frames.PRIORITISED:
            if len(payload) < 5:
                raise Broken(Code.FRAME_SIZE_ERROR, "HEADERS that end within their priority")
            payload = payload[5:]
        if flags & frames.END_HEADERS:
            self._head(stream, payload, flags)
        else:
            self._block_of, self._block_flags = stream, flags
            self._hold(payload)

    def _take_continuation(self, flags: int, payload: bytes) -> None:
        if not self._block_of:
            raise Broken(Code.PROTOCOL_ERROR, "a CONTINUATION of nothing")
        self._hold(payload)
        if flags & frames.END_HEADERS:
            block, stream = b"".join(self._block), self._block_of
            self._block.clear()
            self._block_of = self._block_bytes = 0
            self._head(stream, block, self._block_flags)

    def _hold(self, piece: bytes) -> None:
        self._block.append(piece)
        self._block_bytes += len(piece)
        if self._block_bytes > _BLOCK_BYTES or len(self._block) > _BLOCK_FRAMES:
            raise Broken(Code.ENHANCE_YOUR_CALM, "a header block that is too long")

    def _head(self, stream: int, block: bytes, flags: int) -> None:
        try:
            self._on_head(stream, block, flags & frames.END_STREAM != 0)
        except BadStream as exc:
            if (found := self._streams.get(stream)) is not None:
                self._transport.write(frames.reset(stream, exc.code))
                self._on_bad(found, exc)

    def _on_bad(self, stream: Any, exc: BadStream) -> None:
        self._on_reset(stream, exc.code)

    def _take_reset(self, stream: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Broken(Code.FRAME_SIZE_ERROR, "a RST_STREAM of another form")
        found = self._streams.get(stream)
        if found is None:
            self._check_closed(stream)
        else:
            self._on_reset(found, frames.number(payload))

    def _take_ping(self, flags: int, payload: bytes) -> None:
        if len(payload) != 8:
            raise Broken(Code.FRAME_SIZE_ERROR, "a PING of another form")
        if not flags & frames.ACK:
            self._answer(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _take_settings(self, flags: int, payload: bytes) -> None:
        if flags & frames.ACK:
            if payload:
                raise Broken(Code.FRAME_SIZE_ERROR, "an ACK of SETTINGS that says more")
            if not self._greeted:
                raise Broken(Code.PROTOCOL_ERROR, "no SETTINGS come first")
            return
        for name, value in frames.read_settings(payload):
            self._set(name, value)
        self._greeted = True
        self._answer(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self._on_settings()
        self._send_more()

    def _set(self, name: int, value: int) -> None:
        if name == frames.HEADER_TABLE_SIZE:
            if value < self._table_bytes:
                self._table_bytes = value
                self._encoder = Encoder(value)
        elif name == frames.INITIAL_WINDOW_SIZE:
            if value > frames.MOST_WINDOW:
                raise Broken(Code.FLOW_CONTROL_ERROR, "a window that is too large")
            more, self._peer_window = value - self._peer_window, value
            for stream in self._streams.values():
                self._widen(stream, more)
        elif name == frames.MAX_FRAME_SIZE:
            if not frames.USUAL_FRAME_BYTES <= value < 1 << 24:
                raise Broken(Code.PROTOCOL_ERROR, "a frame size that is none")
            self._peer_frame_bytes = value
        elif name == frames.ENABLE_PUSH and value > 1:
            raise Broken(Code.PROTOCOL_ERROR, "a setting that is neither 0 nor 1")

    def _take_window(self, stream: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Broken(Code.FRAME_SIZE_ERROR, "a WINDOW_UPDATE of another form")
        self._count()
        more = frames.number(payload) & frames.MOST_WINDOW
        if not stream:
            self._window += more
            if not more or self._window > frames.MOST_WINDOW:
                raise Broken(Code.FLOW_CONTROL_ERROR, "a window that is none")
        elif (found := self._streams.get(stream)) is None:
            self._check_closed(stream)
            return
        elif not more:
            self._reset(found, Code.PROTOCOL_ERROR)
        else:
            self._widen(found, more)
        if self._unsent:
            self._send_more()

    def _check_closed(self, stream: int) -> None:
        """Frames of a stream that has ended may still be under way (section 5.1)."""
        if not self._was_open(stream):
            raise Broken(Code.PROTOCOL_ERROR, "a frame of a stream that nobody has opened")

    def _count(self) -> None:
        """A frame that brings no call on."""
        now_s = self._now_s()
        if now_s - self._controls_since_s >= 1:
            self._controls, self._controls_since_s = 0, now_s
        self._controls += 1
        if self._controls > _CONTROLS_PER_S:
            raise Broken(Code.ENHANCE_YOUR_CALM, "too many frames that carry no call")

    def _answer(self, data: bytes) -> None:
        if self._transport.get_write_buffer_size() > _UNREAD_BYTES:
            raise Broken(Code.ENHANCE_YOUR_CALM, "answers to frames are not read")
        self._transport.write(data)

    # Sending

    def _widen(self, stream: Stream, more: int) -> None:
        before = stream.window
        stream.window += more
        if stream.window > frames.MOST_WINDOW:
            raise Broken(Code.FLOW_CONTROL_ERROR, "a window that is none")
        if stream.unsent is not None and before <= 0 < stream.window:
            self._unsent.append(stream)

    def _send(
        self, stream: Stream, before: bytes, data: bytes, tail: Tail | None, ends: bool = True
    ) -> None:
        """DATA behind `before`, which are frames; then the fields of `tail`."""
        size = len(data)
        if (
            size <= stream.window
            and size <= self._window
            and size <= self._peer_frame_bytes
            and not self._full
            and not self._unsent
        ):
            stream.window -= size
            self._window -= size
            self._controls -= _CONTROLS_PER_FRAME
            flags = frames.END_STREAM if ends and tail is None else 0
            behind = b"" if tail is None else self._tail(stream.id, tail)
            head = frames.head(size, frames.DATA, flags, stream.id)
            self._transport.write(b"".join((before, head, data, behind)))
            return
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
        self._controls -= _CONTROLS_PER_FRAME
        stream.at += size
        last = stream.at == len(data)
        flags = frames.END_STREAM if last and stream.ends and tail is None else 0
        self._transport.write(frames.frame(frames.DATA, flags, stream.id, data[at : at + size]))
        if last:
            stream.unsent = stream.tail = None
            if tail is not None:
                self._transport.write(self._tail(stream.id, tail))
            self._on_sent(stream)

    def _tail(self, stream: int, tail: Tail) -> bytes:
        """To be sent at once: what it means depends on the blocks before it."""
        return self._headers(stream, self._encoder.begin(tail[0]) + tail[1], frames.END_STREAM)

    def _headers(self, stream: int, block: bytes, flags: int) -> bytes:
        most = self._peer_frame_bytes
        if len(block) <= most:
            return frames.frame(frames.HEADERS, flags | frames.END_HEADERS, stream, block)
        found = frames.frame(frames.HEADERS, flags, stream, block[:most])
        for at in range(most, len(block), most):
            last = frames.END_HEADERS if at + most >= len(block) else 0
            found += frames.frame(frames.CONTINUATION, last, stream, block[at : at + most])
        return found

    def _reset(self, stream: Stream, code: Code) -> None:
        self._transport.write(frames.reset(stream.id, code))
        self._on_reset(stream, code)
