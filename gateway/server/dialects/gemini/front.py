"""`POST /v1beta/models/NAME:generateContent` and its siblings, also under /v1.

A key goes in `x-goog-api-key`, as Google's SDK sends it, or in `authorization`. One in the query
string is refused: addresses stand in logs.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.responses import Response

from gateway.core.errors import (
    GatewayError,
    NotOffered,
    UnknownRoute,
)
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.types import DocumentCall, InferenceRequest, JsonDocument, WireProtocol
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.http.head import HttpHead, name_in
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, intake
from gateway.server.dialects.gemini import embeddings, requests
from gateway.server.dialects.gemini.answers import response
from gateway.server.dialects.gemini.errors import error_body
from gateway.server.dialects.gemini.events import GenerateWriter
from gateway.server.dialects.gemini.models import (
    BATCH,
    EMBED,
    KEY,
    PREFIX,
    STREAM,
    WHOLE,
    check_query,
    routes,
)
from gateway.server.dialects.head import JSON, TranslatedBody, TranslatedRequestHead
from gateway.server.dialects.stream import StreamWriter
from gateway.server.http import (
    EVENT_LINES,
    Call,
    Front,
)
from gateway.server.intake import RequestContext

_MODELS: Final = ("/v1beta/models/", "/v1/models/")
_PROTOCOL: Final = WireProtocol.GEMINI
_METHODS: Final = frozenset({WHOLE, STREAM, EMBED, BATCH, "countTokens"})
_ARRAY_LINES: Final = f"content-type: {JSON}; charset=UTF-8\r\nx-accel-buffering: no\r\n"


def front(services: Services) -> Front:
    bounds = intake.json_bounds(services.limits)

    def call(route: str) -> Call | None:
        named = _named(route) if ":" in route else None
        return None if named is None else partial(_GenerateRequestHead, services, bounds, *named)

    return Front(PREFIX, _PROTOCOL.value, routes(services), error_response, call, _owns)


def _owns(head: HttpHead) -> bool:
    path = head.path
    if path == PREFIX or path.startswith(f"{PREFIX}/") or _named(head.route) is not None:
        return True
    return KEY in head.headers and _is_models(path)


def _is_models(path: str) -> bool:
    return path == "/v1/models" or path.startswith("/v1/models/")


def _named(route: str) -> tuple[str, str] | None:
    """The model and the method of a path; None: it is another's."""
    for prefix in _MODELS:
        if route.startswith(prefix):
            name, _, method = route.removeprefix(prefix).rpartition(":")
            return (name_in(name), method) if name and method in _METHODS else None
    return None


def described(path: str, body: JsonDocument) -> TranslatedBody | None:
    """What a body on a path means; None: the path is another's. Raises InvalidField."""
    named = _named(path)
    return None if named is None else _translated(body, *named)


def _translated(body: JsonDocument, name: str, method: str) -> TranslatedBody:
    if method in (WHOLE, STREAM):
        return TranslatedBody(*requests.chat(body, name, method == STREAM))
    made = embeddings.embeddings(body, name, method == BATCH)
    return TranslatedBody(made, operation=EMBEDDINGS)


def error_response(error: GatewayError, arrival: RequestContext) -> Response:
    headers = intake.error_headers(arrival, error)
    return Response(error_body(error), error.http_status, headers, JSON)


class _GenerateRequestHead(TranslatedRequestHead):
    __slots__ = ("_events", "_method", "_name")

    def __init__(
        self,
        services: Services,
        bounds: JsonBounds,
        name: str,
        method: str,
        exchange: HttpExchange,
    ) -> None:
        """Raises Unauthenticated, Unverifiable, UnsupportedMedia, RequestRejected, UnknownRoute."""
        given = check_query(exchange)
        events = given.get("alt", given.get("$alt")) == "sse"
        lines = EVENT_LINES if events else _ARRAY_LINES
        super().__init__(services, bounds, _PROTOCOL, exchange, lines)
        if method not in (WHOLE, STREAM, EMBED, BATCH):
            raise UnknownRoute(
                "Not Found: this gateway knows no endpoint's tokens, so that it cannot count them",
                reason=NotOffered.reason,
            )
        self._name, self._method, self._events = name, method, events

    def translated(self, body: JsonDocument) -> TranslatedBody:
        return _translated(body, self._name, self._method)

    def whole(self, body: bytes, request: InferenceRequest, call: DocumentCall) -> bytes:
        if call.operation is EMBEDDINGS:
            return embeddings.answer(body, self._method == BATCH)
        return response(body, call.document.get("stop") or ())

    def writer(self, request: InferenceRequest, call: DocumentCall) -> StreamWriter:
        return GenerateWriter(call.document.get("stop") or (), self._events)
