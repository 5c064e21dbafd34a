"""What the HTTP fronts share: bodies read under caps, one app of all, failures in their shapes.

Inference calls are answered on the exchange itself. All else is a Starlette application of the
fronts' routes. Whatever is neither ends here as a 404 in the shape of the protocol that its path
belongs to, and is never passed on (C7).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Router
from starlette.types import Receive, Scope, Send

from gateway.auth import Caller
from gateway.config import LimitSettings
from gateway.config.endpoint_kinds import KINDS
from gateway.config.model_catalog import CatalogModel
from gateway.core.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    GatewayError,
    InternalError,
    MethodNotAllowed,
    RequestRejected,
    UnknownRoute,
)
from gateway.core.held_bytes import AnswerShare, BodyShare
from gateway.core.operations.dialects.fields import CHAT, renamed
from gateway.core.operations.dialects.openai import spoken
from gateway.core.reply import InferenceReply, Placement
from gateway.core.types import DocumentCall, InferenceRequest, WireProtocol
from gateway.protocols.http import ClientLeft, asgi
from gateway.protocols.http.exchange import ClosableBytes, HttpExchange
from gateway.protocols.http.head import HttpHead, check
from gateway.server import Services, compression, intake, labels, latency_budget
from gateway.server.intake import CallDefaults, RequestContext

_log = logging.getLogger("gateway.protocols.http")
_IDS = ("x-request-id", "traceparent")
_LASTING = "/console"  # who looks at it does so for hours, and whatever the settings are

_STREAMED = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # a proxy that buffers would hold the first token back
}
EVENT_LINES = "".join([f"{name}: {value}\r\n" for name, value in _STREAMED.items()])
"""In the head of a stream of events."""

ErrorResponse = Callable[[GatewayError, RequestContext], Response]
"""A failure in the shape of one protocol."""


class RequestHead:
    """What the head of an inference call says, whatever body comes with it. It is kept with the
    head: one that comes again on its connection is not looked into again, as long as the same
    services answer and it is the same caller. Fronts say what is asked for and how the answer is
    told. Each step gives what has still to be waited for, if anything."""

    __slots__ = ("_terms", "bare", "caller", "headers", "lasting", "services")

    def __init__(self, exchange: HttpExchange, services: Services) -> None:
        """Raises Unauthenticated, Unverifiable."""
        self.services = services
        self.headers = exchange.headers
        if exchange.head.query:
            labels.check_query(exchange.head.query)
        self.caller = authenticate(exchange, services)
        self.lasting = services.callers.lasting  # or who calls is to be asked each time
        self.bare = "content-encoding" not in exchange.headers
        self._terms: CallDefaults | None = None  # of the model that was asked for last

    def terms(self, protocol: WireProtocol, model: CatalogModel) -> CallDefaults:
        """Raises RequestRejected, Forbidden."""
        terms = self._terms
        if terms is None or terms.model is not model:
            self._terms = terms = CallDefaults(
                self.services, self.caller, self.headers, protocol, model
            )
        return terms

    def translation_line(
        self, call: DocumentCall, placement: Placement, unread: Sequence[str] = ()
    ) -> str:
        """Of an answer's head: what was made of a chat on its way, where its caller asks. `unread`:
        headers of the front's own API that ask for nothing by themselves."""
        if labels.TRANSLATION not in self.headers:
            return ""
        front = CHAT if call.translation is None else call.translation.front
        kind = KINDS.get(placement.kind)
        provider = CHAT if kind is None else kind.dialect
        omitted = [] if front == CHAT or provider != CHAT else spoken(call.document)[1]
        omitted += [name for name in unread if name in self.headers]
        stated = {
            "front": front,
            "provider": provider,
            "renamed": ",".join(renamed(front, provider, call.document)),
            "omitted": ",".join(omitted),
        }
        words = "; ".join([f"{name}={value}" for name, value in stated.items()])
        return f"{labels.TRANSLATION}: {words}\r\n"

    def build_request(
        self, body: bytes, arrival: RequestContext
    ) -> InferenceRequest | Awaitable[InferenceRequest]:
        """Raises GatewayError."""
        raise NotImplementedError

    def answer(
        self, exchange: HttpExchange, request: InferenceRequest, reply: InferenceReply
    ) -> Awaitable[None] | None:
        """Closes the frames on every exit."""
        raise NotImplementedError


Call = Callable[[HttpExchange], RequestHead]
"""Looks into the head of one inference call. Raises GatewayError."""


def request_context(exchange: HttpExchange, services: Services) -> RequestContext:
    """One for each call, whoever asks first: the answer of a call that fails anywhere says the id
    that its records say."""
    context: RequestContext | None = exchange.arrival
    if context is None:
        context = exchange.arrival = intake.arrive(exchange.headers, services)
    return context


def request_exchange(request: Request) -> HttpExchange:
    exchange: HttpExchange = request.scope[asgi.EXCHANGE]
    return exchange


def authenticate(exchange: HttpExchange, services: Services) -> Caller:
    """Raises Unauthenticated, Unverifiable."""
    return intake.identify(exchange.headers, services, exchange.peer_names)


def body_share(caller: Caller, services: Services) -> BodyShare:
    """Of the budget of bodies, for one of this caller's."""
    # guard: A9.body-caller -> return BodyShare(services.held_bytes, '')
    return BodyShare(services.held_bytes, caller.tenant)


async def read_body(
    exchange: HttpExchange,
    limits: LimitSettings,
    share: BodyShare | None,
    max_bytes: int | None = None,
) -> bytes:
    """The whole body without its content-encoding, under the cap on either side of it, within
    the caller's latency budget. It is counted in `share` until it has come and is inflated. Raises
    GatewayError, or ClientLeft."""
    most_bytes = min(limits.max_body_bytes, max_bytes or limits.max_body_bytes)
    headers = exchange.headers
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding:
        compression.check(encoding)
    if int(headers.get("content-length", "0")) > most_bytes:
        raise BodyTooLarge(f"the body has more than {most_bytes} bytes")
    reading_s = _reading_s(headers, limits)
    try:
        # guard: D1.body-wait -> async with asyncio.timeout(100000.0):
        # guard: A9.body-time -> async with asyncio.timeout(100000.0):
        async with asyncio.timeout(reading_s):
            body = await exchange.body(most_bytes, share)
    except TimeoutError:
        raise DeadlineExceeded("the body did not arrive within the latency budget") from None
    if not encoding:
        return body
    try:
        # guard: A9.inflated-body without share
        return await compression.inflated(body, encoding, most_bytes, share)
    finally:
        if share is not None:
            share.close()


def _reading_s(headers: Mapping[str, str], limits: LimitSettings) -> float:
    stated = headers.get("x-latency-budget-ms")
    if stated is None:
        return limits.default_latency_budget_ms / 1000
    return latency_budget.from_header_ms(stated, limits.max_latency_budget_ms / 1000)


class ClosingResponse(Response):
    """A streamed answer of an ASGI route, by the exchange that the route belongs to."""

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
        self._own_headers = headers or {}
        self._stall_s = stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: HttpExchange = scope[asgi.EXCHANGE]
        lines = "".join([f"{name}: {value}\r\n" for name, value in self._own_headers.items()])
        await exchange.stream(self.status_code, lines, self._content, self._stall_s)


def no_call(path: str) -> Call | None:
    return None


@dataclass(frozen=True, slots=True)
class Front:
    """One protocol: its inference calls, its other routes, and the shape of its errors for every
    path of its own."""

    prefix: str
    protocol: str
    routes: Sequence[BaseRoute]
    error_response: ErrorResponse
    call: Callable[[str], Call | None] = no_call
    """What answers a POST to this path, if that is an inference call."""
    owns: Callable[[HttpHead], bool] | None = None
    """Whether the path of a head is its own, where that is not told by `prefix`."""

    def has(self, head: HttpHead) -> bool:
        prefix, path = self.prefix, head.path
        if self.owns is not None:
            return self.owns(head)
        return not prefix or path == prefix or path.startswith(f"{prefix}/")


class App:
    """All fronts, as what the server calls for each exchange. An error has the shape of the front
    that the path is of, of several that with the longest prefix, or of the last: the one with the
    routes of operations, and the prefix ""."""

    def __init__(self, services: Services, fronts: Sequence[Front]) -> None:
        self._services = services
        self._fronts = fronts
        self._calls = [front.call for front in fronts if front.call is not no_call]
        self._others = _Routes(
            [route for front in fronts for route in front.routes], redirect_slashes=False
        )

    async def __call__(self, exchange: HttpExchange) -> None:
        services = self._services
        held: AnswerShare | None = None
        try:
            opening: RequestHead | None = exchange.head.known
            # guard: B6.http-key-check minus 3
            # guard: B6.http-settings minus 2
            if (
                opening is None
                or opening.services is not services
                or (not opening.lasting and authenticate(exchange, services) is not opening.caller)
            ):
                opening = self._opening(exchange)
            if opening is None:
                await self._other(exchange)
                return
            exchange.arrival = arrival = intake.arrive(opening.headers, services)
            if opening.bare and exchange.complete:
                body = exchange.whole(services.limits.max_body_bytes)
            else:
                with services.held:
                    share = body_share(opening.caller, services)
                    body = await read_body(exchange, services.limits, share)
            request = opening.build_request(body, arrival)
            if not isinstance(request, InferenceRequest):
                with services.held:
                    request = await request
            held = request.held
            reply = await services.handle(request)
            telling = opening.answer(exchange, request, reply)
            if telling is not None:
                with services.held:
                    await telling
        # guard: A10.http-cancellation -> except ClientLeft:
        except (ClientLeft, asyncio.CancelledError):
            return  # a task keeps what cancels it, whose traceback has the task
        except GatewayError as error:
            self._refuse(error, exchange)
        except Exception as exc:  # noqa: BLE001 - the front is where every failure ends
            # Its text could quote a call (C12).
            _log.error("unhandled %s at %s", type(exc).__name__, _place(exc))
            self._refuse(InternalError("internal error"), exchange)
        finally:
            if held is not None:
                held.close()  # guard: A9.taken-release
            if not exchange.ended:
                exchange.cut()

    def _opening(self, exchange: HttpExchange) -> RequestHead | None:
        """None: it is no inference call. Raises GatewayError."""
        head = exchange.head
        try:
            check(head)
        except RequestRejected:
            exchange.is_last()
            raise
        hosts = self._services.hosts
        if hosts is not None:
            headers = exchange.headers
            hosts.check(headers.get("host", ""), headers.get("origin"), exchange.local)
        for calls in self._calls:
            if (call := calls(head.route)) is not None:
                if head.method != "POST":
                    raise _other_methods({"POST"})
                head.known = opened = call(exchange)
                return opened
        return None

    async def _other(self, exchange: HttpExchange) -> None:
        if exchange.head.path.startswith(_LASTING):
            await asgi.serve(self._others, exchange)
            return
        with self._services.held:
            await asgi.serve(self._others, exchange)

    def _refuse(self, error: GatewayError, exchange: HttpExchange) -> None:
        if exchange.started:  # what has begun can only be cut
            return
        own = [front for front in self._fronts if front.has(exchange.head)]
        front = max(own, key=lambda each: len(each.prefix), default=self._fronts[-1])
        self._services.on_error(front.protocol, error.reason)
        if exchange.arrival is None:
            exchange.arrival = intake.arrive(_unambiguous(exchange), self._services)
        response = front.error_response(error, exchange.arrival)
        if isinstance(error, MethodNotAllowed):
            response.headers["allow"] = ", ".join(error.allowed)
        exchange.reply_fields(response.status_code, response.raw_headers, bytes(response.body))


class _Routes(Router):
    """Starlette's router, with refusals of ours where it would answer in plain text."""

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().app(scope, receive, send)
            return
        with_other_methods: set[object] = set()
        allowed: set[str] = set()
        for route in self.routes:
            match, child_scope = route.matches(scope)
            path = getattr(route, "path", None)
            if match is Match.FULL and with_other_methods <= {path}:
                scope.update(child_scope)
                await route.handle(scope, receive, send)
                return
            if match is not Match.NONE:  # the first path that fits decides
                with_other_methods.add(path)
                if with_other_methods == {path}:
                    allowed |= getattr(route, "methods", None) or set()
        if with_other_methods:
            raise _other_methods(allowed)
        raise UnknownRoute("Not Found: this gateway has no such route")


def _other_methods(allowed: set[str]) -> MethodNotAllowed:
    return MethodNotAllowed("Method Not Allowed: this route has other methods", allowed)


def _unambiguous(exchange: HttpExchange) -> Mapping[str, str]:
    """Of a head that may have been refused, so that only what stands there once counts."""
    names = [name.decode("latin-1") for name, _ in exchange.head.fields]
    return {name: exchange.headers[name] for name in _IDS if names.count(name) == 1}


def _place(exc: BaseException) -> str:
    """Where it was raised. Neither its text nor any value of the frames."""
    trace = exc.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown place"
    return f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
