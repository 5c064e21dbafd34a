"""`POST /v1/messages`: a chat in Anthropic's words.

The call is made a chat before anything else looks at it, and the answer a message behind all else.
What a beta of that API (`anthropic-beta`) allows stands in fields of the body, each of which is
known or refused; so the header itself asks for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from dataclasses import replace
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.auth.caller import ANYONE, Caller
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.errors import (
    GatewayError,
    InternalError,
    NotOffered,
    RequestRejected,
    UnknownRoute,
    UnsupportedMedia,
    should_retry,
)
from gateway.core.operations.chat import CHAT
from gateway.core.reply import Frame, FrameSource, InferenceReply, JsonBody, OneFrame, received
from gateway.core.types import (
    AT_ONCE_BYTES,
    DocumentCall,
    InferenceRequest,
    JsonDocument,
    WireProtocol,
)
from gateway.protocols import strictjson
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, intake, labels
from gateway.server.anthropic import requests
from gateway.server.anthropic.answers import message
from gateway.server.anthropic.errors import error_body
from gateway.server.anthropic.events import MessageBytes
from gateway.server.http import EVENT_LINES, Call, Front, RequestHead
from gateway.server.intake import RequestContext
from gateway.server.openai.documents import read
from gateway.server.routes import endpoint

PATH: Final = "/v1/messages"
VERSIONS: Final = ("2023-06-01", "2026-10-21")
_UNREAD: Final = ("anthropic-beta",)
_JSON: Final = "application/json"
_PROTOCOL: Final = WireProtocol.ANTHROPIC


def front(services: Services) -> Front:
    bounds = intake.json_bounds(services.limits)
    calls: dict[str, Call] = {PATH: partial(_MessagesRequestHead, services, bounds)}
    return Front(PATH, _PROTOCOL.value, _routes(services), error_response, calls.get)


def chat_call(
    body: JsonDocument, catalog: Catalog, size: int = 0, caller: Caller = ANYONE
) -> tuple[CatalogModel, DocumentCall]:
    """The model, and the call; `size`: bytes of a large one; `caller` may have names of its
    own for models. Raises InvalidField, UnknownModel, RequestRejected."""
    labels.check_document(body)
    document, translation = requests.chat(body)
    model, call = read(CHAT, document, catalog, size, caller=caller)
    return model, replace(call, translation=translation)


def _routes(services: Services) -> list[Route]:
    async def absent(request: Request, arrival: RequestContext) -> Response:
        raise UnknownRoute(
            "Not Found: this gateway knows no endpoint's tokens, so that it cannot count them",
            reason=NotOffered.reason,
        )

    count = endpoint(absent, services)
    return [Route(f"{PATH}/count_tokens", count, methods=["POST"])]


def error_response(error: GatewayError, arrival: RequestContext) -> Response:
    """A failure in Anthropic's shape, with what its SDKs read from the headers."""
    headers = intake.error_headers(arrival, error)
    headers["request-id"] = arrival.request_id
    headers["x-should-retry"] = "true" if should_retry(error) else "false"
    return Response(error_body(error, arrival.request_id), error.http_status, headers, _JSON)


class _MessagesRequestHead(RequestHead):
    __slots__ = ("_bounds",)

    def __init__(self, services: Services, bounds: JsonBounds, exchange: HttpExchange) -> None:
        """Raises Unauthenticated, Unverifiable, UnsupportedMedia, RequestRejected."""
        super().__init__(exchange, services)
        self._bounds = bounds
        headers = exchange.headers
        if headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
            raise UnsupportedMedia(f"content-type: send the body as {_JSON}")
        if headers.get("anthropic-version", VERSIONS[0]) not in VERSIONS:
            raise RequestRejected(f"anthropic-version: must be {' or '.join(VERSIONS)}")

    def build_request(
        self, body: bytes, arrival: RequestContext
    ) -> InferenceRequest | Awaitable[InferenceRequest]:
        if len(body) > AT_ONCE_BYTES:
            return self._read_aside(body, arrival)
        return self._request(*self._read(body, 0), arrival)

    async def _read_aside(self, body: bytes, arrival: RequestContext) -> InferenceRequest:
        return self._request(*await asyncio.to_thread(self._read, body, len(body)), arrival)

    def _read(self, body: bytes, size: int) -> tuple[CatalogModel, DocumentCall]:
        services = self.services
        document = strictjson.load_object(body, services.limits.max_json_depth, self._bounds)
        return chat_call(document, services.catalog, size, self.caller)

    def _request(
        self, model: CatalogModel, call: DocumentCall, arrival: RequestContext
    ) -> InferenceRequest:
        return self.terms(_PROTOCOL, model).request(arrival, call)

    def answer(
        self, exchange: HttpExchange, request: InferenceRequest, reply: InferenceReply
    ) -> Awaitable[None] | None:
        frames, call = reply.frames, request.payload
        assert isinstance(call, DocumentCall)
        lines = intake.placement_lines(request.id, request.traceparent, reply.placement)
        lines += f"request-id: {request.id}\r\n"
        lines += self.translation_line(call, reply.placement, _UNREAD)
        stops = call.document.get("stop") or ()
        if call.streamed:
            written = MessageBytes(frames, stops, request.id)
            return exchange.stream(200, lines + EVENT_LINES, written)
        frame = frames.take() if isinstance(frames, OneFrame) else None
        if isinstance(frame, JsonBody) and len(frame.body) <= AT_ONCE_BYTES:
            made = message(frame.body, stops)
            exchange.reply(200, _whole(made, lines), made)
            return None
        return _read_on(exchange, lines, frame, frames, stops)


async def _read_on(
    exchange: HttpExchange,
    lines: str,
    frame: Frame | None,
    frames: FrameSource,
    stops: Collection[str],
) -> None:
    if frame is None:
        answer = await received(frames)
        frame = answer[0] if len(answer) == 1 else None
    if not isinstance(frame, JsonBody):
        raise InternalError("an answer came in other frames than this protocol has")
    made = await asyncio.to_thread(message, frame.body, stops)
    await exchange.reply_as_taken(200, _whole(made, lines), made)


def _whole(body: bytes, lines: str) -> str:
    return f"content-type: {_JSON}\r\ncontent-length: {len(body)}\r\n{lines}"
