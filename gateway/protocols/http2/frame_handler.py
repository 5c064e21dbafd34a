"""What the frames of a peer do to a connection and to its streams: RFC 9113, sections 5 and 6.

Everything that a peer can make us hold or do is bounded, and what is beyond ends the connection: a
header block by its bytes and its frames (a flood of CONTINUATION), frames that carry no call by
their number within a second beyond a few for each that does (floods of PING, SETTINGS, resets and
empty frames), answers to them by what the peer has not read yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from gateway.protocols.http2 import BadStream, Code, Http2Error, frames
from gateway.protocols.http2.bounds import (
    BLOCK_BYTES,
    BLOCK_FRAMES,
    CONNECTION_WINDOW,
    CONTROLS_PER_FRAME,
    MOST_IN_ADVANCE,
    STREAM_WINDOW,
    FloodLimit,
)
from gateway.protocols.http2.frame_reader import no_room
from gateway.protocols.http2.sender import FrameSender, Stream
from gateway.protocols.pieces import PieceBuffer

_STREAM_UPDATE_BYTES: Final = STREAM_WINDOW // 2  # bytes, when the peer is told of more room
_DISCARDED_BYTES: Final = 1 << 14  # of streams that have ended, which count as a frame without call
_DEPENDS_ON_ITSELF: Final = 0x100  # a flag that no frame has
_NOTHING: Final = -1  # may come: the connection has ended
_PADDED: Final = frames.PADDED
_STREAM, _END_STREAM = frames.MOST_WINDOW, frames.END_STREAM


class StreamEvents(ABC):
    """What an end does with its streams."""

    @abstractmethod
    def was_open(self, stream: int) -> bool:
        """Whether it has ever been, for one that is not now."""

    @abstractmethod
    def on_head(self, stream: int, block: bytes, ended: bool) -> None:
        """Raises BadStream, Http2Error; as `on_data` does."""

    @abstractmethod
    def on_data(self, stream: Any, data: bytes, ended: bool) -> None: ...

    @abstractmethod
    def on_reset(self, stream: Any, code: int) -> None: ...

    @abstractmethod
    def on_goaway(self, last: int, code: int) -> None: ...

    def on_bad(self, stream: Any, exc: BadStream) -> None:
        """It was reset for this."""
        self.on_reset(stream, exc.code)

    def on_discarded(self, stream: Any, ended: bool) -> None:  # noqa: B027 - not every end has any
        """Data of a stream whose data is wanted by nobody."""

    def on_settings(self) -> None:  # noqa: B027 - not every end waits for them
        """The peer has other settings from now on."""


class HeaderBlock:
    """A header block that comes in several frames."""

    __slots__ = ("_count", "_pieces", "flags", "stream")

    def __init__(self) -> None:
        self._pieces = PieceBuffer()
        self._count = 0
        self.stream = self.flags = 0  # none: there is no block

    def begin(self, stream: int, flags: int) -> None:
        self.stream, self.flags = stream, flags

    def add(self, piece: bytes) -> None:
        """Raises Http2Error."""
        self._pieces.add(piece)
        self._count += 1
        # guard: A8.header-continuation
        if self._pieces.size > BLOCK_BYTES or self._count > BLOCK_FRAMES:
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "a header block that is too long")

    def end(self) -> bytes:
        self.stream = self._count = 0
        return self._pieces.take()


class FrameHandler:
    def __init__(self, events: StreamEvents, sender: FrameSender, controls: FloodLimit) -> None:
        self._events = events
        self._sender = sender
        self._streams = sender.streams
        self._controls = controls
        self._block = HeaderBlock()
        self._received = 0  # of the window of all streams, since the peer was told of more
        self.room = CONNECTION_WINDOW  # that all streams of the peer have, when it has been told
        self.greeted = False  # the peer's first SETTINGS have come
        self.due: int | None = frames.SETTINGS

    def end(self) -> None:
        """What comes behind the end is thrown away."""
        self.due = _NOTHING

    def is_due(self, kind: int, stream: int) -> bool:
        if self.due == _NOTHING:
            return False
        if not self.greeted:
            if kind != frames.SETTINGS:
                raise Http2Error(Code.PROTOCOL_ERROR, "no SETTINGS come first")
        elif kind != frames.CONTINUATION or stream != self._block.stream:
            raise Http2Error(Code.PROTOCOL_ERROR, "a header block is broken off")
        return True

    def has_room(self, size: int) -> bool:
        return self._received + size <= self.room

    def take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """What comes less often."""
        if kind == frames.HEADERS:
            self._take_headers(flags, stream, payload)
        elif kind == frames.CONTINUATION:
            self._take_continuation(flags, payload)
        else:
            self._controls.add()
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
                    self._events.on_goaway(last, frames.number(payload, 4))

    # Data

    def take_data(self, flags: int, stream: int, payload: bytes) -> None:
        size = len(payload)
        self._received = received = self._received + size
        if received + received >= self.room:
            if received > self.room:
                raise no_room()
            self._sender.write(frames.window_update(0, received))
            self._received = 0
        call = self._streams.get(stream)
        data = frames.unpadded(flags, payload) if flags & _PADDED else payload
        ended = flags & _END_STREAM != 0
        if call is None or call.discards:
            self._discard(stream, call, size, ended)
            return
        if data or ended:
            controls = self._controls
            # guard: A8.flood-credit -> controls.count -= CONTROLS_PER_FRAME
            if controls.count > MOST_IN_ADVANCE:  # guard: A8.window-allowance
                controls.count -= CONTROLS_PER_FRAME
        else:
            self._controls.add()
        call.received = received = call.received + size
        if received >= _STREAM_UPDATE_BYTES:
            if received > STREAM_WINDOW:  # guard: A8.window-bound
                self.reset(call, Code.FLOW_CONTROL_ERROR)
                return
            if not ended and not call.held:
                self.make_room(call)
        self._events.on_data(call, data, ended)

    def _discard(self, stream: int, call: Any, size: int, ended: bool) -> None:
        """Frames of a stream that has ended may still be under way (section 5.1). They get their
        room in the connection back, as they must, and so they are counted: without end they would
        be a way to make us work."""
        if call is None:
            self.check_in_transit(stream, ended)
        self._controls.count += size // _DISCARDED_BYTES  # guard: A8.ended-stream-data
        self._controls.add()  # guard: A8.ended-stream-data
        if call is not None:
            self._events.on_discarded(call, ended)

    def make_room(self, stream: Stream) -> None:
        self._sender.write(frames.window_update(stream.id, stream.received))
        stream.received = 0

    def take_window(self, stream: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "a WINDOW_UPDATE of another form")
        self._controls.add()
        more = int.from_bytes(payload) & _STREAM
        if not stream:
            self._sender.widen_all(more)
        elif (call := self._streams.get(stream)) is None:
            if not self._events.was_open(stream):
                raise _never_opened()
            return
        elif not more:
            self.reset(call, Code.PROTOCOL_ERROR)
        else:
            try:
                self._sender.widen(call, more)
            except BadStream as exc:
                self._refuse(stream, exc)
        self._sender.send_more()

    # Header blocks

    def take_head(self, stream: int, block: bytes, ended: bool) -> None:
        try:
            self._events.on_head(stream, block, ended)
        except BadStream as exc:
            self._refuse(stream, exc)

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
            self._take_block(stream, payload, flags)
        else:
            self._block.begin(stream, flags)
            self.due = frames.CONTINUATION
            self._block.add(payload)

    def _take_continuation(self, flags: int, payload: bytes) -> None:
        block = self._block
        if not block.stream:
            raise Http2Error(Code.PROTOCOL_ERROR, "a CONTINUATION of nothing")
        block.add(payload)
        if flags & frames.END_HEADERS:
            stream = block.stream
            self.due = None
            self._take_block(stream, block.end(), block.flags)

    def _take_block(self, stream: int, block: bytes, flags: int) -> None:
        self.take_head(stream, block, flags & frames.END_STREAM != 0)
        if flags & _DEPENDS_ON_ITSELF:
            self._refuse(stream, _depends_on_itself())

    # What ends a stream

    def _refuse(self, stream: int, exc: BadStream) -> None:
        if (call := self._streams.get(stream)) is not None:
            self._sender.reset(stream, exc.code)
            self._events.on_bad(call, exc)

    def reset(self, stream: Stream, code: Code) -> None:
        self._sender.reset(stream.id, code)
        self._events.on_reset(stream, code)

    def _take_reset(self, stream: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "a RST_STREAM of another form")
        call = self._streams.get(stream)
        if call is not None:
            self._events.on_reset(call, frames.number(payload))
            return
        if not self._events.was_open(stream):
            raise _never_opened()
        self._sender.closed.discard(stream)

    def check_in_transit(self, stream: int, ended: bool) -> None:
        """HEADERS or DATA of a stream that is not open: they may have been under way when this end
        closed it. Raises Http2Error where it was never open, or the peer had ended it."""
        if not self._events.was_open(stream):
            raise _never_opened()
        closed = self._sender.closed
        closed.check(stream)
        if ended:
            closed.discard(stream)

    # The connection

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
            self._refuse(stream, _depends_on_itself())

    def _take_ping(self, flags: int, payload: bytes) -> None:
        if len(payload) != 8:
            raise Http2Error(Code.FRAME_SIZE_ERROR, "a PING of another form")
        if not flags & frames.ACK:
            self._sender.answer(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _take_settings(self, flags: int, payload: bytes) -> None:
        if flags & frames.ACK:
            if payload:
                raise Http2Error(Code.FRAME_SIZE_ERROR, "an ACK of SETTINGS that says more")
            if not self.greeted:
                raise Http2Error(Code.PROTOCOL_ERROR, "no SETTINGS come first")
            return
        sender = self._sender
        for name, value in frames.read_settings(payload).items():
            sender.set(name, value)
        if not self.greeted:
            self.greeted, self.due = True, None
        sender.answer(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self._events.on_settings()
        sender.send_more()


def _never_opened() -> Http2Error:
    return Http2Error(Code.PROTOCOL_ERROR, "a frame of a stream that nobody has opened")


def _depends_on_itself() -> BadStream:
    return BadStream(Code.PROTOCOL_ERROR, "a stream that depends on itself")
