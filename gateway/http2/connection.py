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
from gateway.http2.message import PREFIX_BYTES, framed

STREAM_WINDOW: Final = 4 << 20
CONNECTION_WINDOW: Final = 16 << 20
FRAME_BYTES: Final = 1 << 20  # that we take
HEAD_LIST_BYTES: Final = 32 * 1024
_BLOCK_BYTES: Final = 64 * 1024
_BLOCK_FRAMES: Final = 16
_CONTROLS_PER_S: Final = 5_000
_CONTROLS_PER_FRAME: Final = 4  # of a call: windows grow with what is sent
_MOST_IN_ADVANCE: Final = -_CONTROLS_PER_S  # that frames of calls may bring
_UNREAD_BYTES: Final = 1 << 20  # in the transport, while a peer asks for more answers
_LINGER_S: Final = 1.0
_TELLS_OF_STREAM: Final = STREAM_WINDOW // 2  # bytes, when the peer is told of more room
_TELLS_OF_ALL: Final = CONNECTION_WINDOW // 2
_NOTHING: Final = -1  # may come: the connection has ended
_PADDED: Final = frames.PADDED
_IN_PIECES: Final = frames.PADDED | frames.PRIORITISED | frames.END_HEADERS
_DATA, _HEADERS, _WINDOW_UPDATE = frames.DATA, frames.HEADERS, frames.WINDOW_UPDATE
_HEAD_BYTES, _STREAM, _END_STREAM = frames.HEAD_BYTES, frames.MOST_WINDOW, frames.END_STREAM
_WHOLE_HEAD: Final = frames.END_HEADERS
_WHOLE_END: Final = frames.END_HEADERS | frames.END_STREAM
_read_head = frames.read_head
_write_head, _write_message_head = frames.write_head, frames.write_message_head

Fields = tuple[tuple[Field, ...], bytes]
"""Header fields that many streams have in common, and a block of one's own."""


class Stream:
    """One call's, as the connection knows it."""

    id = 0  # until it has begun
    window = 0  # what may be sent of it
    received = 0  # of the window that the peer has, since it was told of more room
    held = False  # the peer is told of more room when what came is taken, and not before
    unsent: bytes | None = None  # DATA of which some could not be sent yet
    at = 0  # how much was
    tail: Fields | None = None  # behind it
    ends = False  # with that, or with DATA where there is none


class Http2Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._now_s = ambient.loop_clock(self._loop)
        self._transport: asyncio.Transport
        self._pieces: list[bytes] = []  # of a frame that is not whole
        self._pieces_bytes = 0
        self._wanted_bytes = 0  # before it is worth another look
        self._only: int | None = frames.SETTINGS  # the one kind of frame that may come now
        self._streams: dict[int, Any] = {}
        self._encoder = Encoder()
        self._table_bytes = TABLE_BYTES
        self._peer_frame_bytes = frames.USUAL_FRAME_BYTES
        self._peer_window = frames.USUAL_WINDOW  # of a new stream
        self._window = frames.USUAL_WINDOW  # what may be sent, of all streams
        self._received = 0  # of what all streams may send, since the peer was told of more room
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
        if self._pieces:
            self._pieces.append(data)
            self._pieces_bytes += len(data)
            if self._pieces_bytes < self._wanted_bytes:
                return
            data = b"".join(self._pieces)
            self._pieces.clear()
        try:
            self._cut(data)
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
        self._lost, self._only = True, _NOTHING
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

    def _cut(self, data: bytes) -> None:
        """Take the frames in these bytes; what is there of one that is not whole waits. Raises
        Broken for a frame that is too long as soon as its head is here."""
        at, end, wanted = 0, len(data), _HEAD_BYTES
        last = end - _HEAD_BYTES  # where a head can begin
        while at <= last:
            word, flags, stream = _read_head(data, at)
            size = word >> 8
            if size > FRAME_BYTES:
                raise Broken(Code.FRAME_SIZE_ERROR, f"a frame of {size} bytes")
            begins = at + _HEAD_BYTES
            behind = begins + size
            if behind > end:
                wanted += size
                break
            kind, stream, at = word & 0xFF, stream & _STREAM, behind
            if self._only is not None and not self._is_due(kind, stream):
                return
            payload = data[begins:behind]
            if kind == _HEADERS and flags & _IN_PIECES == _WHOLE_HEAD and stream:
                try:
                    self._on_head(stream, payload, flags & _END_STREAM != 0)
                except BadStream as exc:
                    self._refuse(stream, exc)
            elif kind == _WINDOW_UPDATE:
                self._take_window(stream, payload)
            elif kind == _DATA:
                self._take_data(flags, stream, payload)
            else:
                self._take(kind, flags, stream, payload)
        if at < end:
            self._pieces.append(data[at:])
            self._pieces_bytes, self._wanted_bytes = end - at, wanted

    def _is_due(self, kind: int, stream: int) -> bool:
        """Whether this frame is the one that has to come. What comes behind the end is thrown
        away."""
        if self._only == _NOTHING:
            return False
        if not self._greeted:
            if kind != frames.SETTINGS:
                raise Broken(Code.PROTOCOL_ERROR, "no SETTINGS come first")
        elif kind != frames.CONTINUATION or stream != self._block_of:
            raise Broken(Code.PROTOCOL_ERROR, "a header block is broken off")
        return True

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """What comes less often."""
        if kind == frames.HEADERS:
            self._take_headers(flags, stream, payload)
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
        self._received = received = self._received + size
        if received >= _TELLS_OF_ALL:
            self._make_room_for_all()
        found = self._streams.get(stream)
        data = frames.unpadded(flags, payload) if flags & _PADDED else payload
        ended = flags & _END_STREAM != 0
        if data or ended:
            if self._controls > _MOST_IN_ADVANCE:
                self._controls -= _CONTROLS_PER_FRAME
        else:
            self._count()
        if found is None:
            self._check_closed(stream)
            return
        found.received = received = found.received + size
        if received >= _TELLS_OF_STREAM:
            if received > STREAM_WINDOW:
                self._reset(found, Code.FLOW_CONTROL_ERROR)
                return
            if not ended and not found.held:
                self._make_room(found)
        self._on_data(found, data, ended)

    def _make_room(self, stream: Stream) -> None:
        self._transport.write(frames.window_update(stream.id, stream.received))
        stream.received = 0

    def _make_room_for_all(self) -> None:
        """Always in time: a frame is far smaller than what the peer has left."""
        self._transport.write(frames.window_update(0, self._received))
        self._received = 0

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
            self._only = frames.CONTINUATION
            self._hold(payload)

    def _take_continuation(self, flags: int, payload: bytes) -> None:
        if not self._block_of:
            raise Broken(Code.PROTOCOL_ERROR, "a CONTINUATION of nothing")
        self._hold(payload)
        if flags & frames.END_HEADERS:
            block, stream = b"".join(self._block), self._block_of
            self._block.clear()
            self._block_of = self._block_bytes = 0
            self._only = None
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
            self._refuse(stream, exc)

    def _refuse(self, stream: int, exc: BadStream) -> None:
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
        if not self._greeted:
            self._greeted, self._only = True, None
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
        self._controls = controls = self._controls + 1
        if controls > _CONTROLS_PER_S:
            self._count_anew()
        more = int.from_bytes(payload) & _STREAM
        if not stream:
            self._window += more
            if not more or self._window > frames.MOST_WINDOW:
                raise Broken(Code.FLOW_CONTROL_ERROR, "a window that is none")
        elif (found := self._streams.get(stream)) is None:
            if not self._was_open(stream):
                raise _never_opened()
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
            raise _never_opened()

    def _count(self) -> None:
        """A frame that brings no call on."""
        self._controls += 1
        if self._controls > _CONTROLS_PER_S:
            self._count_anew()

    def _count_anew(self) -> None:
        """So many are a flood unless they took a second: the clock is asked once for all."""
        now_s = self._now_s()
        if now_s - self._controls_since_s < 1:
            raise Broken(Code.ENHANCE_YOUR_CALM, "too many frames that carry no call")
        self._controls, self._controls_since_s = 0, now_s

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
            self._send(stream, self._headers(number, block, 0), framed(message), tail)
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
            if self._controls > _MOST_IN_ADVANCE:
                self._controls -= _CONTROLS_PER_FRAME
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
        if self._controls > _MOST_IN_ADVANCE:
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

    def _tail(self, stream: int, tail: Fields) -> bytes:
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


def _never_opened() -> Broken:
    return Broken(Code.PROTOCOL_ERROR, "a frame of a stream that nobody has opened")
