"""The connection of one caller: calls of gRPC and their answers (gRPC over HTTP/2)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final

from gateway.protocols.http2 import Code, frames
from gateway.protocols.http2.bounds import FRAME_BYTES, HEAD_LIST_BYTES, STREAM_WINDOW
from gateway.protocols.http2.connection import Http2Connection
from gateway.protocols.http2.exchange import Http2Exchange, Http2ServerPort
from gateway.protocols.http2.server_calls import ServerCalls

GREETS_S: Final = 20.0  # what the preface may take
QUIET_S: Final = 60.0  # before a caller is asked whether it is there
PONG_S: Final = 20.0
_ENDS_AT_ONCE: Final = 64  # calls, when their connection does


class Http2Server(Http2Connection):
    def __init__(self, host: Http2ServerPort) -> None:
        super().__init__()
        self._host = host
        self.calls = ServerCalls(self, host)
        self._take_streams(self.calls, frames.PREFACE)
        self.handler.room = frames.USUAL_WINDOW
        self._greets: asyncio.TimerHandle | None = None

    # What the server asks

    def stop(self) -> None:
        """Calls that have begun go on; then it closes."""
        self.calls.stopping = True
        if not self.sender.lost:
            self.sender.write(frames.goaway(self.calls.last_id, Code.NO_ERROR))
            self.close_if_done()

    def forget(self) -> None:
        """What is known of heads was made of what is not in use any more."""
        self.calls.known.clear()

    def cut(self) -> None:
        for exchange in tuple(self.sender.streams.values()):
            exchange.go()
        if not self.sender.lost:
            self._transport.abort()

    def close_if_done(self) -> None:
        """If it stops, and has no call any more."""
        calls, sender = self.calls, self.sender
        if calls.stopping and not sender.streams and not calls.running and not sender.lost:
            self.give_up(Code.NO_ERROR, "the server stops")

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._host.opened(self)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            self._end("a caller that does not speak HTTP/2")
            transport.close()
            return
        self.calls.peer_names = _names_in(transport.get_extra_info("peercert") or {})
        ours = {
            frames.MAX_CONCURRENT_STREAMS: self._host.max_streams,
            frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            frames.MAX_FRAME_SIZE: FRAME_BYTES,
            frames.MAX_HEADER_LIST_SIZE: HEAD_LIST_BYTES,
        }
        self.sender.write(frames.settings(ours))
        self._greets = self.loop.call_later(GREETS_S, self._check_greeting)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._host.closed(self)

    def _check_greeting(self) -> None:
        if self.handler.greeted:
            self.watch.start(QUIET_S, PONG_S)
        else:
            self.give_up(Code.SETTINGS_TIMEOUT, "no SETTINGS came")

    # The end

    def _last_taken(self) -> int:
        return self.calls.last_id

    def _end(self, why: str) -> None:
        if self.sender.lost:
            return
        super()._end(why)
        for timer in (self._greets, self.calls.arrivals):
            if timer is not None:
                timer.cancel()
        left: list[Http2Exchange] = [*self.sender.streams.values()]
        self.sender.streams.clear()
        for exchange in left:
            self.calls.held.release(exchange)
        self._dismiss(left)

    def _dismiss(self, left: list[Http2Exchange]) -> None:
        """What ends a thousand calls at once leaves others their turn."""
        for exchange in left[:_ENDS_AT_ONCE]:
            exchange.go()
        if len(left) > _ENDS_AT_ONCE:
            self.loop.call_soon(self._dismiss, left[_ENDS_AT_ONCE:])


def _names_in(certificate: Mapping[str, Any]) -> dict[str, tuple[bytes, ...]]:
    """Of a checked certificate, as gRPC names them."""
    names = certificate.get("subjectAltName", ())
    kinds = (("peer_dns", "DNS"), ("peer_uri", "URI"))
    return {key: tuple(n.encode() for kind, n in names if kind == kind_) for key, kind_ in kinds}
