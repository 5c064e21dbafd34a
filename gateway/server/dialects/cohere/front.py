"""`POST /v2/chat` and `/v2/embed`: a chat and embeddings in Cohere's words."""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.responses import Response

from gateway.core.errors import GatewayError
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.types import DocumentCall, InferenceRequest, JsonDocument, WireProtocol
from gateway.protocols import strictjson
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.http.head import HttpHead
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, intake
from gateway.server.dialects.cohere import embeddings, requests
from gateway.server.dialects.cohere.answers import response
from gateway.server.dialects.cohere.events import ChatWriter
from gateway.server.dialects.failures import words
from gateway.server.dialects.head import JSON, TranslatedBody, TranslatedRequestHead
from gateway.server.dialects.stream import StreamWriter
from gateway.server.http import Call, Front
from gateway.server.intake import RequestContext

_CHAT: Final = "/v2/chat"
_EMBED: Final = "/v2/embed"
_PROTOCOL: Final = WireProtocol.COHERE


def front(services: Services) -> Front:
    bounds = intake.json_bounds(services.limits)
    calls: dict[str, Call] = {
        path: partial(_CohereRequestHead, services, bounds, path) for path in (_CHAT, _EMBED)
    }
    return Front(_CHAT, _PROTOCOL.value, [], error_response, calls.get, _owns)


def _owns(head: HttpHead) -> bool:
    return head.path in (_CHAT, _EMBED)


def described(path: str, body: JsonDocument) -> TranslatedBody | None:
    """What a body on a path means; None: the path is another's. Raises InvalidField."""
    return _translated(body, path) if path in (_CHAT, _EMBED) else None


def _translated(body: JsonDocument, path: str) -> TranslatedBody:
    if path == _EMBED:
        return TranslatedBody(embeddings.embeddings(body), operation=EMBEDDINGS)
    return TranslatedBody(*requests.chat(body))


def error_response(error: GatewayError, arrival: RequestContext) -> Response:
    headers = intake.error_headers(arrival, error)
    body = strictjson.dumps({"id": arrival.request_id, "message": words(error)})
    return Response(body, error.http_status, headers, JSON)


class _CohereRequestHead(TranslatedRequestHead):
    __slots__ = ("_path",)

    def __init__(
        self, services: Services, bounds: JsonBounds, path: str, exchange: HttpExchange
    ) -> None:
        """Raises Unauthenticated, Unverifiable, UnsupportedMedia."""
        super().__init__(services, bounds, _PROTOCOL, exchange)
        self._path = path

    def translated(self, body: JsonDocument) -> TranslatedBody:
        return _translated(body, self._path)

    def whole(self, body: bytes, request: InferenceRequest, call: DocumentCall) -> bytes:
        if call.operation is EMBEDDINGS:
            return embeddings.answer(body, call.document["input"])
        return response(body, call.document.get("stop") or ())

    def writer(self, request: InferenceRequest, call: DocumentCall) -> StreamWriter:
        return ChatWriter(call.document.get("stop") or ())
