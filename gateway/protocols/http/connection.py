"""One connection: exchanges that are answered one after the other.

Heads are bounded in bytes by the `reader`, and here in time. An answer that goes out before a large
body has come closes its connection, but not at once: a client that is still sending would get a
reset instead of the answer. So what still comes is thrown away for a moment, and then the
connection closes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

import httptools
import orjson

from gateway.core import ambient
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.http.flow_control import FlowControlledProtocol
from gateway.protocols.http.framing import NotStrict
from gateway.protocols.http.head import MAX_HEAD_BYTES, HttpHead
from gateway.protocols.http.reader import HeadTooLarge, RequestReader

App = Callable[[HttpExchange], Coroutine[Any, Any, None]]
"""It ends each exchange: by an answer, or by `cut`."""

LINGER_S = 1.0
LINGER_BYTES = 16 * 1024 * 1024
_REFUSALS = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large"}


class HttpServerPort(Protocol):
    """The server, as far as its connections know it."""

    date: str
    stopping: bool
    app: App

    def opened(self, connection: HttpConnection) -> None: ...
    def closed(self, connection: HttpConnection) -> None: ...


class HttpConnection(FlowControlledProtocol):
    def __init__(self, host: HttpServerPort, head_s: float = 20.0, idle_s: float = 75.0) -> None:
        """`head_s`: what a head may take from its first byte on; `idle_s`: between two calls."""
        super().__init__()
        self.host = host
        self.idle_s = idle_s
        self._head_s = head_s
        self._loop = asyncio.get_running_loop()
        self._now_s = ambient.loop_clock(self._loop)
        self.peer_names: tuple[str, ...] = ()
        self.peer: str | None = None
        self.local: str | None = None
        self.idle_since: float | None = self._now_s()  # None: a call is being answered
        self.reader = RequestReader(self)
        self._serving: HttpExchange | None = None
        self._behind: deque[HttpExchange] = deque()
        self._discards = False  # what still comes goes nowhere
        self._discarded_bytes = 0
        self._timer: asyncio.TimerHandle | None = None  # for a head, or to linger

    # What its exchanges ask

    def cut(self) -> None:
        self._serving = None
        self._transport.close()

    def answered(self, exchange: HttpExchange, close: bool, rest: bytes = b"") -> None:
        """`rest`: of the answer, to be sent."""
        self._serving = None
        if self._lost:
            return
        if rest:
            self._transport.write(rest)
        if close:
            self._behind.clear()
            if exchange.complete:
                self._transport.close()
            else:
                self._linger()
        elif self._behind:
            self._serve(self._behind.popleft())
        else:
            self.idle_since = self._now_s()
            if self.host.stopping:
                self._transport.close()
            elif self._paused:
                self.go_on()

    def _linger(self) -> None:
        self._discards = True
        self._timer = self._loop.call_later(LINGER_S, self._transport.close)
        self.go_on()

    # What the server asks

    @property
    def task(self) -> asyncio.Task[None] | None:
        return None if self._serving is None else self._serving.task

    def close_if_idle(self, since: float = float("inf")) -> None:
        """If no call has been on it since then (time of the loop)."""
        if self.idle_since is not None and self.idle_since <= since:
            self._transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if shown := transport.get_extra_info("peercert"):
            self.peer_names = names_in(shown)
        peer = transport.get_extra_info("peername")
        self.peer = peer[0] if isinstance(peer, tuple) else None
        local = transport.get_extra_info("sockname")
        self.local = local[0] if isinstance(local, tuple) else None
        self.host.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()
        for exchange in (self._serving, *self._behind):
            if exchange is not None:
                exchange.caller_left()
        self._behind.clear()
        self.host.closed(self)

    def data_received(self, data: bytes) -> None:
        reader = self.reader
        if self.idle_since is not None and (whole := reader.repeated(data)):
            self.idle_since = None
            self._serving = exchange = HttpExchange(self, whole[0], True, whole[1])
            exchange.task = self._loop.create_task(self.host.app(exchange))
            if self._timer is not None:
                self._stop_timer()
            return
        if self._discards:
            self._discarded_bytes += len(data)
            if self._discarded_bytes > LINGER_BYTES:
                self._transport.close()
                return
        try:
            reader.read(data)
        except (httptools.HttpParserError, NotStrict):
            reason = "the request is not HTTP/1.1 as RFC 9112 has it"
            self._refuse(400, reason, reason="malformed_head")
        except HeadTooLarge:
            reason = f"the head or the trailers have more than {MAX_HEAD_BYTES} bytes"
            self._refuse(431, reason, reason="head_too_large")
        if self._discards:
            if not reader.parses:
                self._transport.close()
        elif not reader.awaits_head:
            if self._timer is not None:
                self._stop_timer()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._head_s, self._give_up)

    # Requests

    def begin_request(self, head: HttpHead, keeps: bool) -> HttpExchange | None:
        if self._discards:
            return None
        exchange = HttpExchange(self, head, keeps)
        if self._serving is None:
            self._serve(exchange)
        else:
            self._behind.append(exchange)
            self.hold()
        return exchange

    def _serve(self, exchange: HttpExchange) -> None:
        self.idle_since = None
        self._serving = exchange
        exchange.task = self._loop.create_task(self.host.app(exchange))

    def _refuse(self, status: int, message: str, *, reason: str) -> None:
        if self._transport.is_closing():
            return
        if self._is_next():
            self._transport.write(_refusal(status, message, reason))
        self._transport.close()

    def _is_next(self) -> bool:
        """Whether what is refused now is what the next answer on this connection belongs to."""
        serving = self._serving
        if serving is None:
            return not self._discards
        return not serving.complete and not serving.started and not self._behind

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._is_next():
            reason = f"the head did not arrive within {self._head_s:g} s"
            self._refuse(408, reason, reason="head_too_slow")
        else:  # an earlier call is still being served
            self._timer = self._loop.call_later(self._head_s, self._give_up)


def names_in(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """The DNS names and URIs of a checked certificate, in the form of `certificates.NAME.san`."""
    names = certificate.get("subjectAltName", ())
    return tuple(name for kind, name in names if kind in ("DNS", "URI"))


def _refusal(status: int, message: str, reason: str) -> bytes:
    body = orjson.dumps({"error": message})
    return b"".join(
        (
            b"HTTP/1.1 %d %b\r\n" % (status, _REFUSALS[status].encode()),
            b"content-type: application/json\r\nx-spillway-reason: %b\r\n" % reason.encode(),
            b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body),
            body,
        )
    )
