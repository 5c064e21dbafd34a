"""Runs the handlers of gRPC services, as grpc.aio's server does, over our own HTTP/2.

Services are registered as with any server of gRPC's, and find in `Context` what of a
`grpc.aio.ServicerContext` they ask for.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple

import grpc

from gateway import ambient, patience
from gateway.errors import BodyTooLarge, GatewayError
from gateway.fronts import compression
from gateway.http2.connection import Fields
from gateway.http2.hpack import literal
from gateway.http2.message import PREFIX_BYTES, Status, framed, read_prefix
from gateway.http2.request import RequestHead
from gateway.http2.server import OK, App, Exchange, Http2Server, status_of, too_large

_log = logging.getLogger("gateway.grpc")

_BACKLOG = 1024
_CUT_S = 1.0  # for calls that are cut to give back what they hold
_SAYS_ITSELF_S = 0.05  # what a service gets to say by itself that a deadline has passed
_HEARS_OUT_S = 0.02
_LATE = "Deadline Exceeded"

Pairs = Iterable[tuple[str, str]]


class Details(NamedTuple):
    """What a generic handler finds a method by."""

    method: str
    invocation_metadata: tuple[tuple[str, str | bytes], ...]


class Aborted(Exception):
    def __init__(self, code: grpc.StatusCode, words: str) -> None:
        super().__init__(words)
        self.code, self.words = code, words


class Context:
    """Of one call, for its service."""

    __slots__ = ("_exchange", "_serialize", "_told", "_trailers", "head")

    def __init__(self, exchange: Exchange, serialize: Any) -> None:
        self._exchange = exchange
        self.head = exchange.head
        self._serialize = serialize
        self._trailers: Pairs = ()
        self._told: Fields | None = None

    def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return self.head.metadata

    def time_remaining(self) -> float | None:
        timeout_s = self.head.timeout_s
        return None if timeout_s is None else self._exchange.at_s + timeout_s - ambient.loop_s()

    def auth_context(self) -> Any:
        """The names in the certificate that the connection was opened with."""
        return self._exchange.connection.peer_names

    def set_trailing_metadata(self, pairs: Pairs) -> None:
        self._trailers = pairs

    def answered_by(self, told: Fields) -> None:
        """The trailers of a call that is answered, as they go over the wire."""
        self._told = told

    async def abort(self, code: grpc.StatusCode, details: str = "", trailers: Pairs = ()) -> None:
        self._trailers = trailers or self._trailers
        raise Aborted(code, details)

    async def write(self, message: Any) -> None:
        written = message if self._serialize is None else self._serialize(message)
        await self._exchange.put(framed(written))

    def trailers(self) -> bytes:
        return b"".join(
            [literal(n.encode(), v.encode("ascii", "replace")) for n, v in self._trailers]
        )

    def tail(self) -> Fields:
        """Behind an answer."""
        return self._told or (OK, self.trailers())


class GrpcServer:
    """The host of its connections, until it stops."""

    def __init__(self, max_message_bytes: int, max_streams: int) -> None:
        self.max_message_bytes = max_message_bytes
        self.max_streams = max_streams
        self.stopping = False
        self._services: list[Any] = []
        self._handlers: dict[str, Any] = {}  # of methods that were called, by path
        self._connections: set[Http2Server] = set()
        self._empty = asyncio.Event()  # once it has stopped
        self._listening: asyncio.Server | None = None

    def add_generic_rpc_handlers(self, handlers: Iterable[Any]) -> None:
        self._services += handlers

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """The same again, for servers that can do more with them."""

    def forget(self) -> None:
        """A service has other handlers from now on."""
        self._handlers.clear()
        for connection in self._connections:
            connection.forget()

    async def start(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(
            lambda: Http2Server(self), sock=sock, ssl=tls, backlog=_BACKLOG
        )

    async def stop(self, grace_s: float) -> None:
        """Take nobody any more, finish what is in flight within so long, then cut it."""
        self.stopping = True
        if self._listening is not None:
            self._listening.close()
        for connection in tuple(self._connections):
            connection.stop()
        if not self._connections:
            return
        try:
            async with asyncio.timeout(grace_s):
                await self._empty.wait()
        except TimeoutError:
            await self._cut()

    async def _cut(self) -> None:
        running = [e.task for c in self._connections for e in c.running if e.task is not None]
        if running:
            _log.warning("cutting %d gRPC calls that did not finish", len(running))
        for connection in tuple(self._connections):
            connection.cut()
        if running:
            await asyncio.wait(running, timeout=_CUT_S)

    # What its connections tell and ask

    def opened(self, connection: Http2Server) -> None:
        self._connections.add(connection)

    def closed(self, connection: Http2Server) -> None:
        self._connections.discard(connection)
        if self.stopping and not self._connections:
            self._empty.set()

    def app_of(self, head: RequestHead) -> tuple[App, bool]:
        if not head.usual:
            return (_not_grpc if head.http_status != 200 else _refused), True
        handler = self._handlers.get(head.path) or self._find(head)
        if handler is None:
            return _unknown, True
        return self._serve, handler.request_streaming

    def _find(self, head: RequestHead) -> Any:
        details = Details(head.path, head.metadata)
        for service in self._services:
            handler = service.service(details)
            if handler is not None:
                self._handlers[head.path] = handler
                return handler
        return None  # a path that a caller thought of: not kept

    async def _serve(self, exchange: Exchange) -> None:
        """The one place where a call's end is told, whatever it is."""
        head = exchange.head  # settings may have changed since it came
        handler = self._handlers.get(head.path) or self._find(head)
        context = Context(exchange, handler.response_serializer)
        run = self._stream if handler.request_streaming or handler.response_streaming else self._one
        try:
            if head.timeout_s is None:
                await run(handler, exchange, context)
            else:
                left_s = exchange.at_s + head.timeout_s - ambient.loop_s()
                with patience.within(max(0.0, left_s) + _SAYS_ITSELF_S):
                    await run(handler, exchange, context)
        except Aborted as exc:
            await exchange.heard_out(_HEARS_OUT_S)
            exchange.end(*status_of(exc.code.name, exc.words, context.trailers()))
        except Status as exc:
            exchange.end(*status_of(exc.code, exc.details, context.trailers()))
        except TimeoutError:
            exchange.end(*status_of("DEADLINE_EXCEEDED", _LATE))
        except Exception as exc:  # noqa: BLE001 - a front's: the caller must get a status
            _log.error("a call failed in the gateway: %s", type(exc).__name__)
            exchange.end(*status_of("INTERNAL", "the gateway failed to serve this call"))

    async def _one(self, handler: Any, exchange: Exchange, context: Context) -> None:
        """One message, one answer."""
        read, write = handler.request_deserializer, handler.response_serializer
        asked = self._plain(exchange.message)
        if asked is None:
            asked = await self._unpacked(exchange.message, exchange.head.encoding)
        exchange.message = b""
        answer = await handler.unary_unary(asked if read is None else read(asked), context)
        exchange.answer(answer if write is None else write(answer), context.tail())

    async def _stream(self, handler: Any, exchange: Exchange, context: Context) -> None:
        read = handler.request_deserializer
        if handler.request_streaming:
            asked: Any = self._messages(exchange, read)
        else:
            asked = self._plain(exchange.message)
            if asked is None:
                asked = await self._unpacked(exchange.message, exchange.head.encoding)
            exchange.message = b""
            if read is not None:
                asked = read(asked)
        method = handler.stream_stream or handler.unary_stream
        found = method(asked, context)
        if hasattr(found, "__aiter__"):
            async for message in found:
                await context.write(message)
        else:
            await found
        exchange.end(*context.tail())

    def _plain(self, whole: bytes) -> bytes | None:
        """The one message of a request; None where it is compressed."""
        compressed, length = read_prefix(whole) if len(whole) >= PREFIX_BYTES else (0, -1)
        if length != len(whole) - PREFIX_BYTES:
            raise Status("INTERNAL", "the request is not one message")
        if compressed:
            return None
        if length > self.max_message_bytes:
            raise Status("RESOURCE_EXHAUSTED", too_large(length, self))
        return whole[PREFIX_BYTES:]

    async def _messages(self, exchange: Exchange, read: Any) -> AsyncIterator[Any]:
        while (whole := await exchange.next()) is not None:
            message = await self._unpacked(whole, exchange.head.encoding)
            yield message if read is None else read(message)

    async def _unpacked(self, whole: bytes, encoding: str) -> bytes:
        message = whole[PREFIX_BYTES:]
        if not whole[0]:
            if len(message) > self.max_message_bytes:
                raise Status("RESOURCE_EXHAUSTED", too_large(len(message), self))
            return message
        if encoding in ("", "identity"):
            raise Status("INTERNAL", "a message is compressed, and grpc-encoding does not say how")
        try:
            compression.check(encoding)
            return await compression.inflated(message, encoding, self.max_message_bytes)
        except BodyTooLarge as exc:
            words = f"Received message larger than max: {exc.message}"
            raise Status("RESOURCE_EXHAUSTED", words) from None
        except GatewayError as exc:
            raise Status(
                "UNIMPLEMENTED" if encoding not in _CODINGS else "INTERNAL", exc.message
            ) from None


_CODINGS = ("gzip", "deflate")


async def _not_grpc(exchange: Exchange) -> None:
    exchange.end_http(exchange.head.http_status)


async def _refused(exchange: Exchange) -> None:
    head = exchange.head
    words = head.refused or "received metadata size exceeds limit"
    code = "RESOURCE_EXHAUSTED" if head.too_large else "INVALID_ARGUMENT"
    exchange.end(*status_of(code, words))


async def _unknown(exchange: Exchange) -> None:
    await exchange.heard_out(_HEARS_OUT_S)
    exchange.end(*status_of("UNIMPLEMENTED", "Method not found!"))
