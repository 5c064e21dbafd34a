"""`POST /v1/messages`: a chat in Anthropic's words.

What a beta of that API (`anthropic-beta`) allows stands in fields of the body, each of which is
known or refused; so the header itself asks for nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.core.errors import (
    GatewayError,
    NotOffered,
    RequestRejected,
    UnknownRoute,
    should_retry,
)
from gateway.core.types import DocumentCall, InferenceRequest, JsonDocument, WireProtocol
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, intake
from gateway.server.dialects.anthropic import requests
from gateway.server.dialects.anthropic.answers import message
from gateway.server.dialects.anthropic.errors import error_body
from gateway.server.dialects.anthropic.events import MessageWriter
from gateway.server.dialects.head import JSON, TranslatedBody, TranslatedRequestHead
from gateway.server.dialects.stream import StreamWriter
from gateway.server.http import Call, Front
from gateway.server.intake import RequestContext
from gateway.server.routes import endpoint

PATH: Final = "/v1/messages"
VERSIONS: Final = ("2023-06-01", "2026-10-21")
_UNREAD: Final = ("anthropic-beta",)
_PROTOCOL: Final = WireProtocol.ANTHROPIC


def front(services: Services) -> Front:
    bounds = intake.json_bounds(services.limits)
    calls: dict[str, Call] = {PATH: partial(_MessagesRequestHead, services, bounds)}
    return Front(PATH, _PROTOCOL.value, _routes(services), error_response, calls.get)


def described(path: str, body: JsonDocument) -> TranslatedBody | None:
    """What a body on a path means; None: the path is another's. Raises InvalidField."""
    return TranslatedBody(*requests.chat(body)) if path == PATH else None


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
    return Response(error_body(error, arrival.request_id), error.http_status, headers, JSON)


class _MessagesRequestHead(TranslatedRequestHead):
    def __init__(self, services: Services, bounds: JsonBounds, exchange: HttpExchange) -> None:
        """Raises Unauthenticated, Unverifiable, UnsupportedMedia, RequestRejected."""
        super().__init__(services, bounds, _PROTOCOL, exchange, unread=_UNREAD)
        if exchange.headers.get("anthropic-version", VERSIONS[0]) not in VERSIONS:
            raise RequestRejected(f"anthropic-version: must be {' or '.join(VERSIONS)}")

    def translated(self, body: JsonDocument) -> TranslatedBody:
        return TranslatedBody(*requests.chat(body))

    def whole(self, body: bytes, request: InferenceRequest, call: DocumentCall) -> bytes:
        return message(body, call.document.get("stop") or ())

    def writer(self, request: InferenceRequest, call: DocumentCall) -> StreamWriter:
        return MessageWriter(call.document.get("stop") or (), request.id)

    def lines(self, request: InferenceRequest) -> str:
        return f"request-id: {request.id}\r\n"
