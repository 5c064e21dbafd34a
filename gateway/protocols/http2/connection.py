"""A connection from its first byte to its last: who reads it, who writes to it, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from gateway.core import ambient
from gateway.protocols.http2 import Code, Http2Error, frames
from gateway.protocols.http2.bounds import CONTROLS_PER_S, FloodLimit
from gateway.protocols.http2.frame_handler import FrameHandler, StreamEvents
from gateway.protocols.http2.frame_reader import FrameReader
from gateway.protocols.http2.sender import FrameSender

_LINGER_S: Final = 1.0
_PING: Final = frames.frame(frames.PING, 0, 0, bytes(8))


class PeerWatch:
    """Asks a peer of which nothing comes whether it is there."""

    __slots__ = (
        "_awaits",
        "_ping",
        "_pong_s",
        "_probing",
        "_quiet_s",
        "_silent",
        "_timer",
        "heard",
    )

    def __init__(
        self, awaits: Callable[[], bool], ping: Callable[[], None], silent: Callable[[], None]
    ) -> None:
        """`awaits`: whether it matters that the peer is there; `silent`: it does not answer."""
        self._awaits, self._ping, self._silent = awaits, ping, silent
        self._quiet_s = self._pong_s = 0.0
        self._probing = False
        self._timer: asyncio.TimerHandle | None = None
        self.heard = False  # anything, since somebody looked

    def start(self, quiet_s: float, pong_s: float) -> None:
        """`quiet_s` without a byte, and it is asked; `pong_s` more, and it is silent."""
        self._quiet_s, self._pong_s = quiet_s, pong_s
        self._set_timer(quiet_s)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self, wait_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._check)

    def _check(self) -> None:
        wait_s = self._quiet_s
        if not self.heard and self._awaits():
            if self._probing:
                self._silent()
                return
            self._ping()
            wait_s = self._pong_s
            self._probing = True
        else:
            self._probing = False
        self.heard = False
        self._set_timer(wait_s)


class Http2Connection(asyncio.Protocol):
    handler: FrameHandler
    reader: FrameReader
    _transport: asyncio.Transport

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._now_s = ambient.loop_clock(self.loop)
        # guard: A8.control-flood -> self.controls = FloodLimit(10 ** 9, "", self._now_s)
        self.controls = FloodLimit(
            CONTROLS_PER_S, "too many frames that carry no call", self._now_s
        )
        self.sender = FrameSender(self.controls)
        self.watch = PeerWatch(self._awaits, self._ping, self._is_silent)
        self._lingers: asyncio.TimerHandle | None = None

    def _take_streams(self, events: StreamEvents, preface: bytes = b"") -> None:
        """Have them told what comes, behind the `preface`."""
        self.handler = FrameHandler(events, self.sender, self.controls)
        self.reader = FrameReader(self.handler, self._fail, preface)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.sender.open(self._transport)
        self.reader.open(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lingers is not None:
            self._lingers.cancel()
        self._end("the connection was lost")

    def data_received(self, data: bytes) -> None:
        if not self.sender.lost:
            self.watch.heard = True
            self.reader.feed(data)

    def pause_writing(self) -> None:
        self.sender.full = True

    def resume_writing(self) -> None:
        self.sender.full = False
        self.sender.send_more()

    # The end

    def give_up(self, code: Code, why: str) -> None:
        """Tell the peer, and close; but not at once: one that is still sending would get a reset
        instead. What comes meanwhile is thrown away."""
        if not self.sender.lost:
            self.sender.write(frames.goaway(self._last_taken(), code))
            self._end(why)
            self._lingers = self.loop.call_later(_LINGER_S, self._transport.abort)
            try:
                self._transport.write_eof()
            except (OSError, NotImplementedError):  # it has gone already, or this is TLS
                self._transport.close()

    def _last_taken(self) -> int:
        """The peer's last stream that was begun."""
        return 0

    def _fail(self, exc: Http2Error) -> None:
        self.give_up(exc.code, exc.why)

    def _end(self, why: str) -> None:
        """Nothing more comes, and nothing can be sent."""
        self.sender.end()
        self.handler.end()
        self.reader.end()
        self.watch.stop()

    # The watch

    def _awaits(self) -> bool:
        return True

    def _ping(self) -> None:
        self.sender.write(_PING)

    def _is_silent(self) -> None:
        self.give_up(Code.NO_ERROR, "the other end does not answer")
        self._transport.abort()
