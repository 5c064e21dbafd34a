"""Frames out of the bytes of one connection, in whatever pieces they come.

A frame is refused by its head, before any more of it is held. What comes at once and costs more
than a turn of the loop waits until others have had theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from gateway.protocols.http2 import Code, Http2Error, frames
from gateway.protocols.http2.bounds import (
    CONTROL_STEPS,
    HEAD_STEPS,
    SMALL_BYTES,
    STEP_OCTETS,
    STEPS_AT_ONCE,
    check_size,
)
from gateway.protocols.pieces import PieceBuffer

_WHOLE_HEAD: Final = frames.END_HEADERS
_IN_PIECES: Final = frames.PADDED | frames.PRIORITISED | frames.END_HEADERS
_DATA, _HEADERS, _WINDOW_UPDATE = frames.DATA, frames.HEADERS, frames.WINDOW_UPDATE
_HEAD_BYTES, _STREAM, _END_STREAM = frames.HEAD_BYTES, frames.MOST_WINDOW, frames.END_STREAM
_read_head = frames.read_head


class FrameReceiver(Protocol):
    """What frames go to. All raise Http2Error."""

    due: int | None
    """The one kind of frame that may come now."""

    def is_due(self, kind: int, stream: int) -> bool:
        """Whether this frame is the one that has to come."""
        ...

    def has_room(self, size: int) -> bool:
        """Whether the peer may send so much DATA."""
        ...

    def take_head(self, stream: int, block: bytes, ended: bool) -> None: ...
    def take_data(self, flags: int, stream: int, payload: bytes) -> None: ...
    def take_window(self, stream: int, payload: bytes) -> None: ...
    def take(self, kind: int, flags: int, stream: int, payload: bytes) -> None: ...


class FrameReader:
    def __init__(
        self,
        receiver: FrameReceiver,
        fail: Callable[[Http2Error], None],
        preface: bytes = b"",
    ) -> None:
        """`fail` ends the connection; `preface` has to come first."""
        self._receiver = receiver
        self._fail = fail
        self._preface = preface  # what is still to come of it
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._pieces = PieceBuffer()  # of a frame that is not whole
        self._wanted_bytes = 0  # before it is worth another look
        self._ended = False
        self.rests = False  # what has come is taken when others have had their turn

    def open(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def feed(self, data: bytes) -> None:
        pieces = self._pieces
        if pieces.size:
            pieces.add(data)
            if pieces.size < self._wanted_bytes or self.rests:
                return
            data = pieces.take()
        elif self._preface:
            size = len(self._preface)
            if not self._preface.startswith(data[:size]):
                error = Http2Error(Code.PROTOCOL_ERROR, "what speaks here is not HTTP/2")
                self._fail(error)
                return
            self._preface, data = self._preface[len(data) :], data[size:]
        self._take(data)

    def end(self) -> None:
        """Throw away what comes."""
        self._ended = True
        self._pieces.clear()
        if self.rests and not self._transport.is_closing():
            self._transport.resume_reading()

    def _take(self, data: bytes) -> None:
        try:
            self._cut(data)
        except Http2Error as exc:
            self._fail(exc)

    def _rest(self) -> None:
        """What has come costs enough for one turn of the loop: others are served meanwhile."""
        self.rests = True
        self._transport.pause_reading()
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self.rests = False
        if not self._ended:
            self._transport.resume_reading()
            self._take(self._pieces.take())

    def _cut(self, data: bytes) -> None:
        """Take the frames in these bytes; what is there of one that is not whole waits. Raises
        Http2Error for a frame that is too long as soon as its head is here."""
        receiver = self._receiver
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
                if word & 0xFF == _DATA and not receiver.has_room(size):
                    raise no_room()
                break
            kind, stream, at = word & 0xFF, stream & _STREAM, behind
            # guard: A8.settings-first
            if receiver.due is not None and not receiver.is_due(kind, stream):
                return
            payload = data[begins:behind]
            if kind == _HEADERS and flags & _IN_PIECES == _WHOLE_HEAD and stream:
                steps -= HEAD_STEPS + size // STEP_OCTETS
                receiver.take_head(stream, payload, flags & _END_STREAM != 0)
            elif kind == _WINDOW_UPDATE:
                steps -= 1
                receiver.take_window(stream, payload)
            elif kind == _DATA:
                steps -= 1
                receiver.take_data(flags, stream, payload)
            else:
                steps -= CONTROL_STEPS + size // STEP_OCTETS
                receiver.take(kind, flags, stream, payload)
            if steps <= 0 and at < end and not self._ended:  # guard: A8.yield-turn
                wanted = 0
                self._rest()
                break
        if at < end and not self._ended:
            self._pieces.add(data[at:])
            self._wanted_bytes = wanted


def no_room() -> Http2Error:
    return Http2Error(Code.FLOW_CONTROL_ERROR, "more data than there is room for")
