"""Runs the handlers of gRPC services, as grpc.aio's server does, over our own HTTP/2.

Services are registered as with any server of gRPC's, and find in `Context` what they ask for.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from gateway.core import ambient, timeouts
from gateway.core.deferred_error import released
from gateway.core.errors import BodiesFull, GatewayError
from gateway.core.held_bytes import BodyShare, HeldBytes
from gateway.protocols.http2.exchange import Http2Exchange, Serving, status_fields
from gateway.protocols.http2.message import (
    GrpcStatusError,
)
from gateway.protocols.http2.request import Http2RequestHead
from gateway.protocols.http2.sender import Fields
from gateway.protocols.http2.server import Http2Server
from gateway.server.grpc.context import Aborted, Context
from gateway.server.grpc.request_messages import inflated, large_message, messages, plain_message

_log = logging.getLogger("gateway.grpc")

_BACKLOG = 1024
_CUT_S = 1.0  # for calls that are cut to give back what they hold
_SAYS_ITSELF_S = 0.05  # what a service gets to say by itself that a deadline has passed
_HEARS_OUT_S = 0.02
_STALL_S = 30.0  # a caller that takes nothing for so long is gone
_LATE = "Deadline Exceeded"
_UNKNOWN_BYTES = 64 * 1024  # of a message for a method that anybody may call
_LARGE_BYTES = 1 << 20  # of a message, behind whose copies others get a turn


class Details(NamedTuple):
    """What a generic handler finds a method by."""

    method: str
    invocation_metadata: tuple[tuple[str, str | bytes], ...]


class HeadAdmission(Protocol):
    """Who decides by its head alone whether a call may send its message."""

    def guards(self, path: str) -> bool:
        """Whether calls of it need a credential."""
        ...

    def admit(self, exchange: Http2Exchange) -> None:
        """Note who calls. Raises GatewayError."""
        ...

    def arrives_s(self, head: Http2RequestHead) -> float:
        """What its message may take to come, in seconds."""
        ...

    def refusal(self, exchange: Http2Exchange, error: GatewayError) -> Fields:
        """The trailers of a call that failed so."""
        ...


class GrpcServer:
    """The host of its connections, until it stops."""

    def __init__(
        self, max_message_bytes: int, max_streams: int, held: HeldBytes, doorkeeper: HeadAdmission
    ) -> None:
        """`held`: the budget of this process, for what has not come whole or is being inflated."""
        self.max_message_bytes = max_message_bytes
        self.max_streams = max_streams
        self.held = held
        self.stopping = False
        self._doorkeeper = doorkeeper
        self.arrives_s, self.refusal = doorkeeper.arrives_s, doorkeeper.refusal
        self._unary, self._streaming = (
            Serving(self._serve, at_once, True, False, max_message_bytes)
            for at_once in (False, True)
        )
        # guard: A8.public-size -> self._open_unary, self._open_streaming = (Serving(self._serve,
        #   at_once, False, False, max_message_bytes) for at_once in (False, True))
        self._open_unary, self._open_streaming = (
            Serving(self._serve, at_once, False, False, min(max_message_bytes, _UNKNOWN_BYTES))
            for at_once in (False, True)
        )
        self._services: list[Any] = []
        self._handlers: dict[str, Any] = {}  # of methods that were called, by path
        self._guarded: set[str] = set()  # of those, what takes a credential
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
        self._guarded.clear()
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
        running = [e.task for c in self._connections for e in c.calls.running if e.task is not None]
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

    def serving(self, exchange: Http2Exchange) -> Serving:
        head = exchange.head
        if not head.usual:
            return _NOT_GRPC if head.http_status != 200 else _REFUSED
        path = head.path
        handler = self._handlers.get(path) or self._find(head)
        if handler is None:
            return _UNKNOWN
        if path not in self._guarded:
            return self._open_streaming if handler.request_streaming else self._open_unary
        try:
            self._doorkeeper.admit(exchange)  # guard: A8.caller-identity
        except GatewayError as error:
            # guard: A10.keyless-call error.with_traceback(None) -> error
            exchange.error = error.with_traceback(None)  # or it would have this exchange
            return _REFUSED
        return self._streaming if handler.request_streaming else self._unary

    def _find(self, head: Http2RequestHead) -> Any:
        path = head.path
        details = Details(path, head.metadata)
        for service in self._services:
            handler = service.service(details)
            if handler is not None:
                self._handlers[path] = handler
                if self._doorkeeper.guards(path):
                    self._guarded.add(path)
                return handler
        return None  # a path that a caller thought of: not kept

    async def _serve(self, exchange: Http2Exchange) -> None:
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
                with timeouts.within(max(0.0, left_s) + _SAYS_ITSELF_S):
                    await run(handler, exchange, context)
        except Aborted as exc:
            await exchange.heard_out(_HEARS_OUT_S)
            exchange.end(*status_fields(exc.code.name, exc.words, context.trailers()))
        except TimeoutError:
            exchange.end(*status_fields("DEADLINE_EXCEEDED", _LATE))
        except Exception as exc:  # noqa: BLE001 - a front's: the caller must get a status
            self._fail(exchange, context, _cause(exc))
            released(exc)  # guard: A10.group-failure
        finally:
            if context.held is not None:
                context.held.close()

    def _fail(self, exchange: Http2Exchange, context: Context, exc: Exception) -> None:
        if isinstance(exc, GrpcStatusError):
            exchange.end(*status_fields(exc.code, exc.details, context.trailers()))
        elif isinstance(exc, BodiesFull):
            exchange.end(*self.refusal(exchange, exc))
        else:
            _log.error("a call failed in the gateway: %s", type(exc).__name__)
            exchange.end(*status_fields("INTERNAL", "the gateway failed to serve this call"))

    async def _one(self, handler: Any, exchange: Http2Exchange, context: Context) -> None:
        """One message, one answer."""
        read, write = handler.request_deserializer, handler.response_serializer
        message = await large_message(exchange) if exchange.large else plain_message(exchange)
        if message is not None and len(message) < _LARGE_BYTES:
            exchange.message = b""
            answer = await handler.unary_unary(message if read is None else read(message), context)
        else:
            share = BodyShare(self.held, exchange.caller)
            try:
                if message is None:
                    message = await inflated(exchange.message, exchange, share)
                exchange.message = b""
                await asyncio.sleep(0)
                answer = await handler.unary_unary(
                    message if read is None else read(message), context
                )
            finally:
                share.close()
        exchange.answer(answer if write is None else write(answer), context.tail())
        del answer
        if exchange.unsent is not None and context.held is not None:
            await exchange.taken(_STALL_S)  # guard: A9.grpc-slow-reader

    async def _stream(self, handler: Any, exchange: Http2Exchange, context: Context) -> None:
        read = handler.request_deserializer
        shares: deque[BodyShare] = deque()
        try:
            if handler.request_streaming:
                given: Any = messages(exchange, read, self.held, shares)
            else:
                given = await large_message(exchange) if exchange.large else plain_message(exchange)
                if given is None:
                    shares.append(BodyShare(self.held, exchange.caller))
                    given = await inflated(exchange.message, exchange, shares[0])
                exchange.message = b""
                if read is not None:
                    given = read(given)
            method = handler.stream_stream or handler.unary_stream
            answer = method(given, context)
            if hasattr(answer, "__aiter__"):
                async for message in answer:
                    await context.write(message)
            else:
                await answer
        finally:
            for share in shares:
                share.close()
        exchange.end(*context.tail())


def _cause(exc: Exception) -> Exception:
    """Of a group that has but one: what reads a stream's messages is a task among others."""
    while isinstance(exc, ExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    return exc


async def _not_grpc(exchange: Http2Exchange) -> None:
    exchange.end_http(exchange.head.http_status)


async def _refused(exchange: Http2Exchange) -> None:
    head = exchange.head
    if exchange.error is not None:
        await exchange.heard_out(_HEARS_OUT_S)
        exchange.end(*exchange.connection.host.refusal(exchange, exchange.error))
        return
    words = head.refused or "received metadata size exceeds limit"
    code = "RESOURCE_EXHAUSTED" if head.too_large else "INVALID_ARGUMENT"
    exchange.end(*status_fields(code, words))


async def _unknown(exchange: Http2Exchange) -> None:
    await exchange.heard_out(_HEARS_OUT_S)
    exchange.end(*status_fields("UNIMPLEMENTED", "Method not found!"))


_NOT_GRPC, _REFUSED, _UNKNOWN = (
    Serving(app, at_once=True, known=False, refuses=True, max_bytes=0)
    for app in (_not_grpc, _refused, _unknown)
)
