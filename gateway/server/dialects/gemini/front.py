"""`POST /v1beta/models/NAME:generateContent` and its siblings, also under /v1.

A key goes in `x-goog-api-key`, as Google's SDK sends it, or in `authorization`. One in the query
string is refused: addresses stand in logs.
"""

from __future__ import annotations

from functools import partial
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from gateway.auth import Caller
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.errors import (
    GatewayError,
    NotOffered,
    RequestRejected,
    UnknownModel,
    UnknownRoute,
)
from gateway.core.operations.chat import CHAT
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.types import DocumentCall, InferenceRequest, JsonDocument, WireProtocol
from gateway.protocols import strictjson
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.http.head import HttpHead, name_in
from gateway.protocols.strictjson import JsonBounds
from gateway.server import Services, intake
from gateway.server.dialects.gemini import embeddings, requests
from gateway.server.dialects.gemini.answers import response
from gateway.server.dialects.gemini.errors import error_body
from gateway.server.dialects.gemini.events import ResponseWriter
from gateway.server.dialects.head import JSON, TranslatedRequestHead, read_call
from gateway.server.dialects.stream import StreamWriter
from gateway.server.http import (
    EVENT_LINES,
    Call,
    Front,
    authenticate,
    request_exchange,
)
from gateway.server.intake import RequestContext
from gateway.server.routes import endpoint

_PREFIX: Final = "/v1beta"
_MODELS: Final = ("/v1beta/models/", "/v1/models/")
_PROTOCOL: Final = WireProtocol.GEMINI
_KEY: Final = "x-goog-api-key"
_WHOLE, _STREAM = "generateContent", "streamGenerateContent"
_EMBED, _BATCH = "embedContent", "batchEmbedContents"
_TASKS: Final = {CHAT.task: (_WHOLE, _STREAM), EMBEDDINGS.task: (_EMBED, _BATCH)}
_METHODS: Final = frozenset({_WHOLE, _STREAM, _EMBED, _BATCH, "countTokens"})
_ARRAY_LINES: Final = f"content-type: {JSON}; charset=UTF-8\r\nx-accel-buffering: no\r\n"


def front(services: Services) -> Front:
    bounds = intake.json_bounds(services.limits)

    def call(route: str) -> Call | None:
        named = _named(route)
        return None if named is None else partial(_GenerateRequestHead, services, bounds, *named)

    routes = _routes(services)
    return Front(_PREFIX, _PROTOCOL.value, routes, error_response, call, _claims)


def _claims(head: HttpHead) -> bool:
    return _named(head.route) is not None or (_KEY in head.headers and _is_models(head.path))


def _is_models(path: str) -> bool:
    return path == "/v1/models" or path.startswith("/v1/models/")


def _named(route: str) -> tuple[str, str] | None:
    """The model and the method of a path; None: it is another's."""
    for prefix in _MODELS:
        if route.startswith(prefix):
            name, _, method = route.removeprefix(prefix).rpartition(":")
            return (name_in(name), method) if name and method in _METHODS else None
    return None


def described(
    path: str, body: JsonDocument, catalog: Catalog
) -> tuple[CatalogModel, DocumentCall] | None:
    """The call of a path with this body; None: the path is another's. Raises GatewayError."""
    named = _named(path)
    return None if named is None else _call(body, named[0], named[1], catalog, 0)


def _call(
    body: JsonDocument, name: str, method: str, catalog: Catalog, size: int
) -> tuple[CatalogModel, DocumentCall]:
    if method in (_WHOLE, _STREAM):
        document, translation = requests.chat(body, name, method == _STREAM)
        return read_call(document, translation, catalog, size)
    document = embeddings.embeddings(body, name, method == _BATCH)
    return read_call(document, None, catalog, size, EMBEDDINGS)


def error_response(error: GatewayError, arrival: RequestContext) -> Response:
    headers = intake.error_headers(arrival, error)
    return Response(error_body(error), error.http_status, headers, JSON)


def _routes(services: Services) -> list[Route]:
    models = _Models(services)
    listed, one = endpoint(models.listed, services), endpoint(models.one, services)
    return [
        Route(f"{_PREFIX}/models", listed, methods=["GET"]),
        Route(f"{_PREFIX}/models/{{name:path}}", one, methods=["GET"]),
        _KeyedRoute("/v1/models", listed, methods=["GET"]),
        _KeyedRoute("/v1/models/{name:path}", one, methods=["GET"]),
    ]


class _KeyedRoute(Route):
    """A path that OpenAI's API has as well: it is Google's for callers with a key as its SDK sends
    them."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if all(name != _KEY.encode() for name, _ in scope["headers"]):
            return Match.NONE, {}
        return super().matches(scope)


class _Models:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def listed(self, request: Request, arrival: RequestContext) -> Response:
        """All at once, whatever the size of a page would be: there is no next one."""
        _check_query(request_exchange(request))
        caller = authenticate(request_exchange(request), self._services)
        catalog = self._services.catalog
        models = {m.name: m for m in catalog.models.values()}
        models |= {name: catalog.find(name) for name in catalog.aliases}
        shown = [_model(name, m) for name, m in models.items() if _is_shown(m, caller)]
        return _json({"models": shown}, arrival)

    async def one(self, request: Request, arrival: RequestContext) -> Response:
        _check_query(request_exchange(request))
        caller = authenticate(request_exchange(request), self._services)
        name = name_in(request.path_params["name"])
        model = self._services.catalog.find(name)
        if not _is_shown(model, caller):
            raise UnknownModel("this API has no model of that name for this key")
        return _json(_model(name, model), arrival)


def _is_shown(model: CatalogModel, caller: Caller) -> bool:
    return model.task in _TASKS and caller.may_use(model.name)


def _model(name: str, model: CatalogModel) -> JsonDocument:
    methods = [*_TASKS[model.task]]
    return {
        "name": f"models/{name}",
        "version": "1",
        "displayName": name,
        "supportedGenerationMethods": methods,
    }


def _json(document: JsonDocument, arrival: RequestContext) -> Response:
    headers = intake.placement_headers(arrival, None)
    return Response(strictjson.dumps(document), 200, headers, JSON)


def _check_query(exchange: HttpExchange) -> dict[str, str]:
    """The parameters of a URL. Raises RequestRejected for a key, and a form that answers have
    not."""
    query = exchange.head.query
    if not query:
        return {}
    given = dict(parse_qsl(query.decode("latin-1")))
    # guard: S19.key-in-query -> if False:
    if "key" in given:
        raise RequestRejected("key: send it in the header x-goog-api-key; addresses are logged")
    if given.get("alt", given.get("$alt", "json")) not in ("json", "sse"):
        raise RequestRejected("alt: must be json or sse")
    return given


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
        given = _check_query(exchange)
        events = given.get("alt", given.get("$alt")) == "sse"
        lines = EVENT_LINES if events else _ARRAY_LINES
        super().__init__(services, bounds, _PROTOCOL, exchange, lines)
        if method not in (_WHOLE, _STREAM, _EMBED, _BATCH):
            raise UnknownRoute(
                "Not Found: this gateway knows no endpoint's tokens, so that it cannot count them",
                reason=NotOffered.reason,
            )
        self._name, self._method, self._events = name, method, events

    def call(self, body: JsonDocument, size: int) -> tuple[CatalogModel, DocumentCall]:
        return _call(body, self._name, self._method, self.services.catalog, size)

    def whole(self, body: bytes, request: InferenceRequest, call: DocumentCall) -> bytes:
        if call.operation is EMBEDDINGS:
            return embeddings.answer(body, self._method == _BATCH)
        return response(body, call.document.get("stop") or ())

    def writer(self, request: InferenceRequest, call: DocumentCall) -> StreamWriter:
        return ResponseWriter(call.document.get("stop") or (), self._events)
