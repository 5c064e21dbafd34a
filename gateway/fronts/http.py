"""What the HTTP fronts share: bodies read under caps, replies that always close, one app of all.

A front brings `routes` and the shape of its errors. Whatever is not one of those routes ends here
as a 404 in the shape of the protocol that its path belongs to, and is never passed on (C7).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway import budget
from gateway.callers import Caller
from gateway.config import LimitSettings
from gateway.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    GatewayError,
    InternalError,
    MethodNotAllowed,
    RouteNotFound,
)
from gateway.fronts import Services, compression, intake
from gateway.fronts.exchange import Exchange
from gateway.fronts.guard import HeadGuard
from gateway.fronts.http_connection import PEER_NAMES
from gateway.fronts.intake import Arrival
from gateway.types import InferenceReply

_log = logging.getLogger("gateway.http")
_T = TypeVar("_T")
_ARRIVAL = "spillway.arrival"  # a key of the scope

ErrorResponse = Callable[[GatewayError, Arrival], Response]
"""A failure in the shape of one protocol."""


class ClientLeft(Exception):
    """The caller closed the connection. Nobody is left to answer."""


class ClosableBytes(Protocol):
    """The bytes of a streamed answer. Closing twice is harmless, and cancels what is upstream."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


def arrival_of(scope: Scope, services: Services) -> Arrival:
    """One for each call, whoever asks first: the answer of a call that fails anywhere says the id
    that its records say."""
    found: Arrival | None = scope.get(_ARRIVAL)
    if found is None:
        found = scope[_ARRIVAL] = intake.arrive(_ids(scope), services)
    return found


def caller_of(request: Request, services: Services) -> Caller:
    """Raises Unauthenticated, Unverifiable."""
    return intake.identify(request.headers, services, request.scope.get(PEER_NAMES, ()))


async def read_body(request: Request, limits: LimitSettings) -> bytes:
    """The whole body without its content-encoding, under the cap on either side of it, within
    the caller's latency budget. Raises GatewayError, or ClientLeft."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    compression.check(encoding)
    announced = request.headers.get("content-length", "0")
    if int(announced) > limits.max_body_bytes:
        raise _too_large(limits)
    try:
        async with asyncio.timeout(_reading_s(request.headers, limits)):
            body = await _received(request.receive, limits)
    except TimeoutError:
        raise DeadlineExceeded("the body did not arrive within the latency budget") from None
    return await compression.inflated(body, encoding, limits.max_body_bytes)


async def _received(receive: Receive, limits: LimitSettings) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limits.max_body_bytes:
            raise _too_large(limits)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(limits: LimitSettings) -> BodyTooLarge:
    return BodyTooLarge(f"the body has more than {limits.max_body_bytes} bytes")


def _reading_s(headers: Mapping[str, str], limits: LimitSettings) -> float:
    stated = headers.get("x-latency-budget-ms")
    if stated is None:
        return limits.default_latency_budget_ms / 1000
    return budget.from_header_ms(stated, limits.max_latency_budget_ms / 1000)


async def until_left(request: Request, work: Awaitable[_T]) -> _T:
    """The result of `work`, which is cancelled as soon as the caller leaves (A3): then this
    raises ClientLeft. The body must have been read. A reply that came too late is closed."""
    async with _Watch(request.receive) as watch:
        result = await work
        if watch.left and isinstance(result, InferenceReply):
            await asyncio.shield(result.frames.aclose())
        return result


class _Watch:
    """Cancels the task that entered it when the caller leaves, and says so by ClientLeft."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.left = False

    async def __aenter__(self) -> _Watch:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self._watcher = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._watcher.cancel()
        if not self.left:
            return
        if kind is None:  # the cancellation is still on its way
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                kind = asyncio.CancelledError
        if self._task.uncancel() <= self._before and (
            kind is None or issubclass(kind, asyncio.CancelledError)
        ):
            raise ClientLeft from None

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.left = True
        self._task.cancel()


class ClosingResponse(Response):
    """A streamed answer. Its bytes are closed on every exit: at the end, on an error, when the
    caller leaves before or within it, and on cancellation. When they fail midway, the connection
    is cut, which no client can take for the end."""

    def __init__(
        self,
        content: ClosableBytes,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        stall_s: float = 30.0,
    ) -> None:
        """A caller that takes nothing for `stall_s` is gone."""
        self.status_code = status_code
        self.background = None
        self._content = content
        self._stall_s = stall_s
        self.init_headers(headers)

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        """As its base does, without a length, which nobody knows yet."""
        self.raw_headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in (headers or {}).items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with _Watch(receive):
                await self._stream(send)
        except TimeoutError:
            raise ClientLeft from None
        finally:
            await asyncio.shield(self._content.aclose())

    async def _stream(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await self._put(send, {**start, "headers": self.raw_headers})
        async for chunk in self._content:
            await self._put(send, {"type": "http.response.body", "body": chunk, "more_body": True})
        await self._put(send, {"type": "http.response.body", "body": b"", "more_body": False})

    async def _put(self, send: Send, message: Message) -> None:
        async with asyncio.timeout(self._stall_s):
            await send(message)


@dataclass(frozen=True, slots=True)
class Front:
    """One protocol: its routes, and the shape of its errors for every path below `prefix`."""

    prefix: str
    protocol: str
    routes: Sequence[BaseRoute]
    error_response: ErrorResponse


def build_app(
    services: Services, fronts: Sequence[Front], lifespan: Callable[[Any], Any] | None = None
) -> ASGIApp:
    """The ASGI app of all fronts. An error has the shape of the first front whose prefix fits, or
    of the last: the one with the routes of operations, and the prefix ""."""

    async def refuse(error: GatewayError, scope: Scope, send: Send) -> None:
        arrival = arrival_of(scope, services)
        front = next((f for f in fronts if _below(scope["path"], f.prefix)), fronts[-1])
        services.error_told(front.protocol, error.reason)
        response = front.error_response(error, arrival)
        if isinstance(error, MethodNotAllowed):
            response.headers["allow"] = ", ".join(error.allowed)
        await response(scope, _nothing, send)

    router = _Routes(
        [route for front in fronts for route in front.routes],
        redirect_slashes=False,
        lifespan=lifespan,
    )
    return HeadGuard(_Outermost(router, refuse), refuse)


class _Routes(Router):
    """Starlette's router, with refusals of ours where it would answer in plain text."""

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().app(scope, receive, send)
            return
        with_other_methods: set[object] = set()
        allowed: set[str] = set()
        for route in self.routes:
            match, found = route.matches(scope)
            path = getattr(route, "path", None)
            if match is Match.FULL and with_other_methods <= {path}:
                scope.update(found)
                await route.handle(scope, receive, send)
                return
            if match is not Match.NONE:  # the first path that fits decides
                with_other_methods.add(path)
                if with_other_methods == {path}:
                    allowed |= getattr(route, "methods", None) or set()
        if with_other_methods:
            raise MethodNotAllowed("Method Not Allowed: this route has other methods", allowed)
        raise RouteNotFound("Not Found: this gateway has no such route")


class _Outermost:
    """Where failures that no front has answered end: as a 500 without content, and one line of
    log that names the exception's type and place, for its text could quote a call (C12)."""

    def __init__(
        self, app: ASGIApp, refuse: Callable[[GatewayError, Scope, Send], Awaitable[None]]
    ) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except ClientLeft:
            return
        except GatewayError as error:
            await self._answer(error, scope, exchange)
        except Exception as exc:  # noqa: BLE001 - the front is where every failure ends
            _log.error("unhandled %s at %s", type(exc).__name__, _place(exc))
            await self._answer(InternalError("internal error"), scope, exchange)

    async def _answer(self, error: GatewayError, scope: Scope, exchange: Exchange) -> None:
        if not exchange.started:  # else returning now cuts the connection
            await self._refuse(error, scope, exchange.send)


def _below(path: str, prefix: str) -> bool:
    return not prefix or path == prefix or path.startswith(f"{prefix}/")


def _ids(scope: Scope) -> Mapping[str, str]:
    """Of a head that may have been refused, so that only what is unambiguous counts."""
    found = Headers(raw=list(scope["headers"]))
    given = {name: found.getlist(name) for name in ("x-request-id", "traceparent")}
    return {name: values[0] for name, values in given.items() if len(values) == 1}


def _place(exc: BaseException) -> str:
    """Where it was raised. Neither its text nor any value of the frames."""
    trace = exc.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown place"
    return f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
