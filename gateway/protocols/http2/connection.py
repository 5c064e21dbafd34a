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
from typing import Any, Final, cast

from gateway.core import ambient
from gateway.protocols.http2 import BadStream, Code, Http2Error, frames
from gateway.protocols.http2.bounds import (
    BLOCK_BYTES,
    BLOCK_FRAMES,
    CONNECTION_WINDOW,
    CONTROL_STEPS,
    HEAD_STEPS,
    SMALL_BYTES,
    STEP_OCTETS,
    STEPS_AT_ONCE,
    STREAM_WINDOW,
    check_size,
)
from gateway.protocols.http2.hpack import Encoder
from gateway.protocols.http2.sender import (
    CONTROLS_PER_FRAME,
    CONTROLS_PER_S,
    MOST_IN_ADVANCE,
    FrameSender,
    Stream,
)
from gateway.protocols.pieces import PieceBuffer

_UNREAD_BYTES: Final = 1 << 20  # in the transport, while a peer asks for more answers
_LINGER_S: Final = 1.0
_STREAM_UPDATE_BYTES: Final = STREAM_WINDOW // 2  # bytes, when the peer is told of more room
_DISCARDED_BYTES: Final = 1 << 14  # of streams that have ended, which count as a frame without call
_CLOSED_STREAMS: Final = 1024
"""Streams that are remembered because this end closed them while the peer could still send."""
_CONTROL_WINDOWS: Final = 8  # of streams that SETTINGS change, which count as one more
_DEPENDS_ON_ITSELF: Final = 0x100  # a flag that no frame has
_NOTHING: Final = -1  # may come: the connection has ended
_PADDED: Final = frames.PADDED
_WHOLE_HEAD: Final = frames.END_HEADERS
_IN_PIECES: Final = frames.PADDED | frames.PRIORITISED | frames.END_HEADERS
_DATA, _HEADERS, _WINDOW_UPDATE = frames.DATA, frames.HEADERS, frames.WINDOW_UPDATE
_HEAD_BYTES, _STREAM, _END_STREAM = frames.HEAD_BYTES, frames.MOST_WINDOW, frames.END_STREAM
_read_head = frames.read_head


class Http2Connection(FrameSender):
    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._now_s = ambient.loop_clock(self._loop)
        self._pieces = PieceBuffer()  # of a frame that is not whole
        self._wanted_bytes = 0  # before it is worth another look
        self._only: int | None = frames.SETTINGS  # the one kind of frame that may come now
        self._streams: dict[int, Any] = {}
        self._closed_streams: dict[int, None] = {}  # streams of which frames may be under way
        self._forgotten = 0  # the highest stream that was remembered there and is no more
        self._room = CONNECTION_WINDOW  # that all streams of the peer have, when it has been told
        self._received = 0  # of it, since the peer was told of more
        self._rests = False  # reading: what has come is taken when others have had their turn
        self._block = PieceBuffer()  # of a header block that is not whole
        self._block_stream = self._block_flags = self._block_frames = 0
        self._greeted = False  # the peer's first SETTINGS have come
        self._controls_since_s = 0.0
        self._has_received = False  # anything, since somebody looked
        self._probing = False
        self._quiet_s = self._pong_s = 0.0
        self._looks: asyncio.TimerHandle | None = None
        self._lingers: asyncio.TimerHandle | None = None

    # What an end is: a call's header fields, its data, its end by the peer, and the peer's GOAWAY.

    def _on_head(self, stream: int, block: bytes, ended: bool) -> None:
        raise NotImplementedError

    def _on_data(self, stream: Any, data: bytes, ended: bool) -> None:
        raise NotImplementedError

    def _on_goaway(self, last: int, code: int) -> None:
        raise NotImplementedError

    def _was_open(self, stream: int) -> bool:
        """Whether it has ever been, for one that is not now."""
        raise NotImplementedError

    def _on_settings(self) -> None:
        pass

    def _on_discarded(self, stream: Any, ended: bool) -> None:
        """Data of a stream whose data is wanted by nobody."""

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
        self._has_received = True
        pieces = self._pieces
        if pieces.size:
            pieces.add(data)
            if pieces.size < self._wanted_bytes or self._rests:
                return
            data = pieces.take()
        self._take_frames(data)

    def _take_frames(self, data: bytes) -> None:
        try:
            self._cut(data)
        except Http2Error as exc:
            self.give_up(exc.code, exc.why)

    def _rest(self) -> None:
        """What has come costs enough for one turn of the loop: others are served meanwhile."""
        self._rests = True
        self._transport.pause_reading()
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._rests = False
        if not self._lost:
            self._transport.resume_reading()
            self._take_frames(self._pieces.take())

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
        self._pieces.clear()
        if self._rests and not self._transport.is_closing():
            self._transport.resume_reading()  # to throw away what comes
        if self._looks is not None:
            self._looks.cancel()

    def _watch(self, quiet_s: float, pong_s: float) -> None:
        """From now on: a peer of which nothing comes for so long is asked whether it is there."""
        self._quiet_s, self._pong_s = quiet_s, pong_s
        self._looks = self._loop.call_later(quiet_s, self._check)

    def _check(self) -> None:
        wait_s = self._quiet_s
        if not self._has_received and self._awaits():
            if self._probing:
                self.give_up(Code.NO_ERROR, "the other end does not answer")
                self._transport.abort()
                return
            self._transport.write(frames.frame(frames.PING, 0, 0, bytes(8)))
            wait_s = self._pong_s
            self._probing = True
        else:
            self._probing = False
        self._has_received = False
        self._looks = self._loop.call_later(wait_s, self._check)

    def _awaits(self) -> bool:
        """Whether it matters that the peer is there."""
        raise NotImplementedError

    # Frames

    def _cut(self, data: bytes) -> None:
        """Take the frames in these bytes; what is there of one that is not whole waits. Raises
        Http2Error for a frame that is too long as soon as its head is here."""
        at, end, wanted, steps = 0, len(data), _HEAD_BYTES, STEPS_AT_ONCE
        last = end - _HEAD_BYTES  # where a head can begin
        while at <= last:
            word, flags, stream = _read_head(data, at)
            size = word >> 8
            if size > SMALL_BYTES:  # guard: A8.frame-size
                check_size(word & 0xFF, size)
            begins = at + _HEAD_BYTES
            behind = begins + size
            if behind > end:
                wanted += size
                # guard: A8.stranger-window
                if word & 0xFF == _DATA and self._received + size > self._room:
                    raise _no_room()
                break
            kind, stream, at = word & 0xFF, stream & _STREAM, behind
            # guard: A8.settings-first
            if self._only is not None and not self._is_due(kind, stream):
                return
            payload = data[begins:behind]
            if kind == _HEADERS and flags & _IN_PIECES == _WHOLE_HEAD and stream:
                steps -= HEAD_STEPS + size // STEP_OCTETS
                try:
                    self._on_head(stream, payload, flags & _END_STREAM != 0)
                except BadStream as exc:
                    self._refuse(stream, exc)
            elif kind == _WINDOW_UPDATE:
                steps -= 1
                self._take_window(stream, payload)
            elif kind == _DATA:
                steps -= 1
                self._take_data(flags, stream, payload)
            else:
                steps -= CONTROL_STEPS + size // STEP_OCTETS
                self._take(kind, flags, stream, payload)
            if steps <= 0 and at < end and not self._lost:  # guard: A8.yield-turn
                wanted = 0
                self._rest()
                break
        if at < end and not self._lost:
            self._pieces.add(data[at:])
            self._wanted_bytes = wanted

    def _is_due(self, kind: int, stream: int) -> bool:
        """Whether this frame is the one that has to come. What comes behind the end is thrown
        away."""
        if self._only == _NOTHING:
            return False
        if not self._greeted:
            if kind != frames.SETTINGS:
                raise Http2Error(Code.PROTOCOL_ERROR, "no SETTINGS come first")
        elif kind != frames.CONTINUATION or stream != self._block_stream:
            raise Http2Error(Code.PROTOCOL_ERROR, "a header block is broken off")
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
                raise Http2Error(Code.PROTOCOL_ERROR, "a push, which nobody allowed")
            elif kind == frames.PRIORITY:
                self._take_priority(stream, payload)
            elif kind in (frames.SETTINGS, frames.PING, frames.GOAWAY):
                if stream:
                    raise Http2Error(Code.PROTOCOL_ERROR, "a frame of the connection on a stream")
                if kind == frames.SETTINGS:
                    self._take_settings(flags, payload)
                elif kind == frames.PING:
                    self._take_ping(flags, payload)
                elif len(payload) < 8:
                    raise Http2Error(Code.FRAME_SIZE_ERROR, "a GOAWAY of another form")
                else:
                    last = frames.number(payload) & frames.MOST_WINDOW
                    self._on_goaway(last, frames.number(payload, 4))

    def _take_data(self, flags: int, stream: int, payload: bytes) -> None:
        size = len(payload)
        self._received = received = self._received + size
        if received + received >= self._room:
            self._make_room_for_all()
        call = self._streams.get(stream)
        data = frames.unpadded(flags, payload) if flags & _PADDED else payload
        ended = flags & _END_STREAM != 0
        if call is None or call.discards:
            self._discard(stream, call, size, ended)
            return
        if data or ended:
            # guard: A8.flood-credit -> self._controls -= CONTROLS_PER_FRAME
            if self._controls > MOST_IN_ADVANCE:  # guard: A8.window-allowance
                self._controls -= CONTROLS_PER_FRAME
        else:
            self._count()
        call.received = received = call.received + size
        if received >= _STREAM_UPDATE_BYTES:
            if received > STREAM_WINDOW:  # guard: A8.window-bound
                self._reset(call, Code.FLOW_CONTROL_ERROR)
                return
            if not ended and not call.held:
                self._make_room(call)
        self._on_data(call, data, ended)

    def _discard(self, stream: int, call: Any, size: int, ended: bool) -> None:
        """Frames of a stream that has ended may still be under way (section 5.1). They get their
        room in the connection back, as they must, and so they are counted: without end they would
        be a way to make us work."""
        if call is None:
            self._check_in_transit(stream, ended)
        self._controls += size // _DISCARDED_BYTES  # guard: A8.ended-stream-data
        self._count()  # guard: A8.ended-stream-data
        if call is not None:
            self._on_discarded(call, ended)

    def _make_room(self, stream: Stream) -> None:
        self._transport.write(frames.window_update(stream.id, stream.received))
        stream.received = 0

    def _make_room_for_all(self) -> None:
        if self._received > self._room:
            raise _no_room()
        self._transport.write(frames.window_update(0, self._received))
        self._received = 0

    def _take_headers(self, flags: int, stream: int, payload: bytes) -> None:
        if not stream:
            raise Http2Error(Code.PROTOCOL_ERROR, "header fields of no stream")
        size = len(payload) - (1 if flags & frames.PADDED else 0)
        if flags & frames.PADDED:
            payload = frames.unpadded(flags, payload)
        if flags & frames.PRIORITISED:
            if size < frames.PRIORITY_BYTES:
                raise Http2Error(Code.FRAME_SIZE_ERROR, "HEADERS that end within their priority")
            if len(payload) < frames.PRIORITY_BYTES:
                raise Http2Error(Code.PROTOCOL_ERROR, "padding that is longer than its frame")
            if frames.number(payload) & frames.MOST_WINDOW == stream:
                flags |= _DEPENDS_ON_ITSELF
            payload = payload[frames.PRIORITY_BYTES :]
        if flags & frames.END_HEADERS:
            self._head(stream, payload, flags)
        else:
            self._block_stream, self._block_flags = stream, flags
            self._only = frames.CONTINUATION
            self._hold(payload)

    def _take_continuation(self, flags: int, payload: bytes) -> None:
        if not self._block_stream:
            raise Http2Error(Code.PROTOCOL_ERROR, "a CONTINUATION of nothing")
        self._hold(payload)
        if flags & frames.END_HEADERS:
            block, stream = self._block.take(), self._block_stream
            self._block_stream = self._block_frames = 0
            self._only = None
            self._head(stream, block, self._block_flags)

    def _hold(self, piece: bytes) -> None:
        self._block.add(piece)
        self._block_frames += 1
        # guard: A8.header-continuation
        if self._block.size > BLOCK_BYTES or self._block_frames > BLOCK_FRAMES:
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "a header block that is too long")

    def _head(self, stream: int, block: bytes, flags: int) -> None:
        try:
            self._on_head(stream, block, flags & frames.END_STREAM != 0)
            if flags & _DEPENDS_ON_ITSELF:
                raise BadStream(Code.PROTOCOL_ERROR, "a stream that depends on itself")
        except BadStream as exc:
            self._refuse(stream, exc)

    def _refuse(self, stream: int, exc: BadStream) -> None:
        if (call := self._streams.get(stream)) is not None:
            self._write_reset(stream, exc.code)
            self._on_bad(call, exc)

    def _on_bad(self, stream: Any, exc: BadStream) -> None:
        self._on_reset(stream, exc.code)

    def _take_priority(self, stream: int, payload: bytes) -> None:
        """Priorities change nothing here; what breaks their form does (RFC 9113, section 6.3, and
        RFC 7540, section 5.3.1)."""
        if not stream:
            raise Http2Error(Code.PROTOCOL_ERROR, "a PRIORITY of no stream")
        if len(payload) != frames.PRIORITY_BYTES:
            if stream not in self._streams:  # an RST_STREAM would be an error
                raise Http2Error(Code.FRAME_SIZE_ERROR, "a PRIORITY of another form")
            self._refuse(stream, BadStream(Code.FRAME_SIZE_ERROR, "a PRIORITY of another form"))
        elif frames.number(payload) & frames.MOST_WINDOW == stream:
            self._refuse(stream, BadStream(Code.PROTOCOL_ERROR, "a stream that depends on itself"))

    def _take_reset(self, stream: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "a RST_STREAM of another form")
        call = self._streams.get(stream)
        if call is None:
            self._check_closed(stream)
            self._closed_streams.pop(stream, None)
        else:
            self._on_reset(call, frames.number(payload))

    def _take_ping(self, flags: int, payload: bytes) -> None:
        if len(payload) != 8:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "a PING of another form")
        if not flags & frames.ACK:
            self._answer(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _take_settings(self, flags: int, payload: bytes) -> None:
        if flags & frames.ACK:
            if payload:
                raise Http2Error(Code.FRAME_SIZE_ERROR, "an ACK of SETTINGS that says more")
            if not self._greeted:
                raise Http2Error(Code.PROTOCOL_ERROR, "no SETTINGS come first")
            return
        for name, value in frames.read_settings(payload).items():
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
                raise Http2Error(Code.FLOW_CONTROL_ERROR, "a window that is too large")
            more, self._peer_window = value - self._peer_window, value
            if more:
                # guard: A8.settings-windows
                self._controls += len(self._streams) // _CONTROL_WINDOWS
                try:
                    for stream in self._streams.values():
                        self._widen(stream, more)
                except BadStream as exc:
                    raise Http2Error(exc.code, exc.why) from None
        elif name == frames.MAX_FRAME_SIZE:
            if not frames.USUAL_FRAME_BYTES <= value < 1 << 24:
                raise Http2Error(Code.PROTOCOL_ERROR, "a frame size that is none")
            self._peer_frame_bytes = value
        elif name == frames.ENABLE_PUSH and value > 1:
            raise Http2Error(Code.PROTOCOL_ERROR, "a setting that is neither 0 nor 1")

    def _take_window(self, stream: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "a WINDOW_UPDATE of another form")
        self._controls = controls = self._controls + 1
        if controls > CONTROLS_PER_S:
            self._count_anew()
        more = int.from_bytes(payload) & _STREAM
        if not stream:
            self._window += more
            if not more:
                raise Http2Error(Code.PROTOCOL_ERROR, "a WINDOW_UPDATE of nothing")
            if self._window > frames.MOST_WINDOW:
                raise Http2Error(Code.FLOW_CONTROL_ERROR, "a window that is too large")
        elif (call := self._streams.get(stream)) is None:
            if not self._was_open(stream):
                raise _never_opened()
            return
        elif not more:
            self._reset(call, Code.PROTOCOL_ERROR)
        else:
            try:
                self._widen(call, more)
            except BadStream as exc:
                self._refuse(stream, exc)
        if self._unsent:
            self._send_more()

    def _write_reset(self, stream: int, code: Code) -> None:
        """End a stream that the peer may not have ended."""
        self._transport.write(frames.reset(stream, code))
        closed = self._closed_streams
        closed[stream] = None
        if len(closed) > _CLOSED_STREAMS:
            oldest = next(iter(closed))
            del closed[oldest]
            self._forgotten = max(self._forgotten, oldest)

    def _reset(self, stream: Stream, code: Code) -> None:
        self._write_reset(stream.id, code)
        self._on_reset(stream, code)

    def _check_closed(self, stream: int) -> None:
        """Raises Http2Error for one that was never open; for one that has ended the peer may send
        RST_STREAM, WINDOW_UPDATE and PRIORITY (section 5.1)."""
        if not self._was_open(stream):
            raise _never_opened()

    def _check_in_transit(self, stream: int, ended: bool) -> None:
        """HEADERS or DATA of a stream that is not open: they may have been under way when this end
        closed it. Raises Http2Error where the peer had ended it (section 5.1)."""
        self._check_closed(stream)
        # guard: A8.closed-stream -> return
        if stream not in self._closed_streams and stream > self._forgotten:
            raise Http2Error(Code.STREAM_CLOSED, "a frame of a stream that its sender has ended")
        if ended:
            self._closed_streams.pop(stream, None)

    def _count(self) -> None:
        """A frame that brings no call on."""
        self._controls += 1
        if self._controls > CONTROLS_PER_S:
            self._count_anew()

    def _count_anew(self) -> None:
        """So many are a flood unless they took a second: the clock is asked once for all."""
        now_s = self._now_s()
        if now_s - self._controls_since_s < 1:  # guard: A8.control-flood
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "too many frames that carry no call")
        self._controls, self._controls_since_s = 0, now_s

    def _answer(self, data: bytes) -> None:
        if self._transport.get_write_buffer_size() > _UNREAD_BYTES:
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "answers to frames are not read")
        self._transport.write(data)


def _never_opened() -> Http2Error:
    return Http2Error(Code.PROTOCOL_ERROR, "a frame of a stream that nobody has opened")


def _no_room() -> Http2Error:
    return Http2Error(Code.FLOW_CONTROL_ERROR, "more data than there is room for")
