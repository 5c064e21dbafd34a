"""Google's list of models, and the parameters of its URLs."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from gateway.auth import Caller
from gateway.config.model_catalog import CatalogModel
from gateway.core.errors import RequestRejected, UnknownModel
from gateway.core.operations.chat import CHAT
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.http.head import name_in
from gateway.server import Services, intake
from gateway.server.dialects.head import JSON
from gateway.server.http import authenticate, request_exchange
from gateway.server.intake import RequestContext
from gateway.server.routes import endpoint

PREFIX: Final = "/v1beta"
KEY: Final = "x-goog-api-key"
WHOLE, STREAM = "generateContent", "streamGenerateContent"
EMBED, BATCH = "embedContent", "batchEmbedContents"
_TASKS: Final = {CHAT.task: (WHOLE, STREAM), EMBEDDINGS.task: (EMBED, BATCH)}


def routes(services: Services) -> list[Route]:
    models = _Models(services)
    listed, one = endpoint(models.listed, services), endpoint(models.one, services)
    return [
        Route(f"{PREFIX}/models", listed, methods=["GET"]),
        Route(f"{PREFIX}/models/{{name:path}}", one, methods=["GET"]),
        _KeyedRoute("/v1/models", listed, methods=["GET"]),
        _KeyedRoute("/v1/models/{name:path}", one, methods=["GET"]),
    ]


class _KeyedRoute(Route):
    """A path that OpenAI's API has as well: it is Google's for callers with a key as its SDK sends
    them."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if all(name != KEY.encode() for name, _ in scope["headers"]):
            return Match.NONE, {}
        return super().matches(scope)


class _Models:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def listed(self, request: Request, arrival: RequestContext) -> Response:
        """All at once, whatever the size of a page would be: there is no next one."""
        check_query(request_exchange(request))
        caller = authenticate(request_exchange(request), self._services)
        catalog = self._services.catalog
        models = {m.name: m for m in catalog.models.values()}
        models |= {name: catalog.find(name) for name in catalog.aliases}
        shown = [_model(name, m) for name, m in models.items() if _is_shown(m, caller)]
        return _json({"models": shown}, arrival)

    async def one(self, request: Request, arrival: RequestContext) -> Response:
        check_query(request_exchange(request))
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


def check_query(exchange: HttpExchange) -> dict[str, str]:
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
