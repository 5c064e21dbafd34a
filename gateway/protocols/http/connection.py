"""One connection: bytes in, exchanges out, one answered after the other.

Heads are bounded while they come, in bytes and in time, and stay what they were once read: a small
body and its trailers come in one read, so only here can they be kept apart, and trailers are read
by nobody. An answer that goes out before a large body has come closes its connection, but not at
once: a client that is still sending would get a reset instead of the answer. So what still comes
is thrown away for a moment, and then the connection closes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, cast

import httptools
import orjson

from gateway.core import ambient
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.http.framing import Framing, NotStrict
from gateway.protocols.http.head import MAX_HEAD_BYTES, MAX_PATH_BYTES, Field, HttpHead
from gateway.protocols.http.plain import PlainHeadReader

App = Callable[[HttpExchange], Coroutine[Any, Any, None]]
"""It ends each exchange: by an answer, or by `cut`."""

LINGER_S = 1.0
LINGER_BYTES = 16 * 1024 * 1024
_MOST_BYTES = MAX_HEAD_BYTES + MAX_PATH_BYTES
_REFUSALS = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large"}


class HttpServerPort(Protocol):
    """The server, as far as its connections know it."""

    date: str
    stopping: bool
    app: App

    def opened(self, connection: HttpConnection) -> None: ...
    def closed(self, connection: HttpConnection) -> None: ...


class HttpConnection(asyncio.Protocol):
    def __init__(self, host: HttpServerPort, head_s: float = 20.0, idle_s: float = 75.0) -> None:
        """`head_s`: what a head may take from its first byte on; `idle_s`: between two calls."""
        self.host = host
        self.idle_s = idle_s
        self._head_s = head_s
        self._loop = asyncio.get_running_loop()
        self._now_s = ambient.loop_clock(self._loop)
        self._transport: asyncio.Transport
        self.peer_names: tuple[str, ...] = ()
        self.peer: str | None = None
        self.local: str | None = None
        self.idle_since: float | None = self._now_s()  # None: a call is being answered
        self._lost = False
        self._serving: HttpExchange | None = None
        self._receiving: HttpExchange | None = None  # whose body is coming
        self._behind: deque[HttpExchange] = deque()
        self._paused = False
        self._writable: asyncio.Event | None = None  # there is one while the caller takes nothing
        self._discards = False  # what still comes goes nowhere
        self._discarded_bytes = 0
        self._patience: asyncio.TimerHandle | None = None
        self._plain = PlainHeadReader()
        self._framing = Framing()
        self._fresh_parser()
        self._fields: list[Field] = []
        self._target = b""
        self._parses = False  # a request, of which it has not seen the end
        self._awaits_head = True
        self._head_without_upgrade = b""
        self._framing_bytes = 0  # that came since the last head, piece of a body, or end of one

    def _fresh_parser(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    # What its exchanges ask

    def write(self, data: bytes) -> None:
        if not self._lost:
            self._transport.write(data)

    def put(self, data: bytes | memoryview) -> bool:
        """Of a stream. Whether the caller takes more."""
        if self._lost:
            return False
        self._transport.write(data)
        return self._writable is None

    def put_chunk(self, data: bytes) -> bool:
        """The same as a chunk of its own."""
        if self._lost:
            return False
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return self._writable is None

    @property
    def full(self) -> bool:
        """The caller takes less than it is sent."""
        return self._writable is not None

    async def written(self) -> None:
        if self._writable is not None:
            await self._writable.wait()

    def hold(self) -> None:
        if not self._paused and not self._lost:
            self._paused = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        if self._paused and not self._lost:
            self._paused = False
            self._transport.resume_reading()

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
        self._patience = self._loop.call_later(LINGER_S, self._transport.close)
        self.go_on()

    # What the server asks

    @property
    def task(self) -> asyncio.Task[None] | None:
        return None if self._serving is None else self._serving.task

    def forget(self) -> None:
        """What is known of its last head: others answer its calls now."""
        self._plain = PlainHeadReader()

    def close_if_idle(self, since: float = float("inf")) -> None:
        """If no call has been on it since then (time of the loop)."""
        if self.idle_since is not None and self.idle_since <= since:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if shown := transport.get_extra_info("peercert"):
            self.peer_names = names_in(shown)
        peer = transport.get_extra_info("peername")
        self.peer = peer[0] if isinstance(peer, tuple) else None
        local = transport.get_extra_info("sockname")
        self.local = local[0] if isinstance(local, tuple) else None
        self.host.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._stop_waiting()
        self.resume_writing()
        for exchange in (self._serving, *self._behind):
            if exchange is not None:
                exchange.caller_left()
        self._behind.clear()
        self.host.closed(self)

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set()

    def data_received(self, data: bytes) -> None:
        if (
            self.idle_since is not None
            and not self._parses
            and self._framing.rests
            and (whole := self._plain.read(data))
        ):
            self.idle_since = None
            self._serving = exchange = HttpExchange(self, whole[0], True, whole[1])
            exchange.task = self._loop.create_task(self.host.app(exchange))
            if self._patience is not None:
                self._stop_waiting()
            return
        if self._discards:
            self._discarded_bytes += len(data)
            if self._discarded_bytes > LINGER_BYTES:
                self._transport.close()
                return
        self._framing_bytes += len(data)
        try:
            for piece in self._framing.pieces(data):
                self._feed(piece)
        except (httptools.HttpParserError, NotStrict):
            reason = "the request is not HTTP/1.1 as RFC 9112 has it"
            self._refuse(400, reason, reason="malformed_head")
        if self._framing_bytes > _MOST_BYTES:
            reason = f"the head or the trailers have more than {MAX_HEAD_BYTES} bytes"
            self._refuse(431, reason, reason="head_too_large")
        elif self._discards:
            return
        elif not self._awaits_head:
            if self._patience is not None:
                self._stop_waiting()
        elif self._patience is None:
            self._wait_for_head()

    def _feed(self, data: bytes) -> None:
        """No upgrade is offered, and who asks for one is served as if it had not (RFC 9110,
        section 7.8). The parser would not: it takes the body of such a request for the next one.
        """
        try:
            self._parser.feed_data(data)
            return
        except httptools.HttpParserUpgrade as upgrade:
            (at,) = upgrade.args
        left = memoryview(data)[at:]
        while True:
            self._fresh_parser()
            self._parser.feed_data(self._head_without_upgrade)
            if not left:
                return
            try:
                self._parser.feed_data(left)
                return
            except httptools.HttpParserUpgrade as upgrade:
                (at,) = upgrade.args
                left = left[at:]

    # httptools

    def on_message_begin(self) -> None:
        self._parses = self._awaits_head = True
        self._fields = []
        self._target = b""

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._awaits_head:  # else it is a trailer
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser.should_upgrade():
            self._head_without_upgrade = self._rebuilt_head()
            return
        self._awaits_head = False
        self._framing_bytes = 0
        if self._discards:
            return
        version = parser.get_http_version()
        head = HttpHead(parser.get_method().decode("latin-1"), self._target, version, self._fields)
        keeps = version == "1.1" and parser.should_keep_alive()
        self._receiving = exchange = HttpExchange(self, head, keeps)
        if self._serving is None:
            self._serve(exchange)
        else:
            self._behind.append(exchange)
            self.hold()

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        if self._receiving is not None:
            self._receiving.receive(body)

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return
        self._parses = False
        self._framing_bytes = 0
        exchange, self._receiving = self._receiving, None
        if exchange is not None:
            exchange.receive_end()
        if self._discards:
            self._transport.close()

    def _serve(self, exchange: HttpExchange) -> None:
        self.idle_since = None
        self._serving = exchange
        exchange.task = self._loop.create_task(self.host.app(exchange))

    def _rebuilt_head(self) -> bytes:
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        if method == b"CONNECT":
            raise httptools.HttpParserError("a proxy's method")
        lines = [b"%b %b HTTP/%b" % (method, self._target, version)]
        lines += [b"%b: %b" % each for each in self._fields if each[0] != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))

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

    def _wait_for_head(self) -> None:
        self._patience = self._loop.call_later(self._head_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self._is_next():
            reason = f"the head did not arrive within {self._head_s:g} s"
            self._refuse(408, reason, reason="head_too_slow")
        else:  # an earlier call is still being served
            self._wait_for_head()


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
