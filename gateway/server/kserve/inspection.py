"""The read-only questions of the Open Inference Protocol: health, metadata, configs, statistics.

The answers are an on-prem server's own, handed through byte for byte. Only the server's metadata
is written anew, without the extensions that this gateway does not offer.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import orjson
from starlette.requests import Request
from starlette.responses import Response

from gateway.auth import Caller
from gateway.config.model_catalog import CatalogModel
from gateway.core.errors import (
    Forbidden,
    GatewayError,
    RequestRejected,
    UnknownModel,
    UnknownRoute,
    UpstreamFailed,
)
from gateway.core.reply import RestBody
from gateway.core.types import AT_ONCE_BYTES
from gateway.protocols import strictjson
from gateway.protocols.http.head import name_in
from gateway.protocols.oip.inspect import OFFERED_EXTENSIONS
from gateway.server import Services, intake
from gateway.server.http import authenticate, body_share, read_body, request_exchange
from gateway.server.intake import RequestContext

ANSWER_S = 5.0  # a server that takes longer over a question about itself does not answer

_JSON = "application/json"


def known(services: Services, caller: Caller, name: str) -> CatalogModel:
    """The model in a path. Raises UnknownModel or Forbidden."""
    model = services.catalog.find(caller.named(name))
    if not caller.may_use(model.name):
        raise Forbidden("this key may not use this model")
    return model


def checked_version(version: str) -> str:
    if version and not (version.isascii() and version.isdigit() and len(version) <= 18):
        raise UnknownRoute("Not Found: a version is a whole number")
    return version


class Inspecting:
    """One method for each route. Health needs no key; the rest shows a caller its own models."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def live(self, request: Request, arrival: RequestContext) -> Response:
        live = self._services.inspection.live()
        return _json_response({"live": live}, arrival, 200 if live else 400)

    async def ready(self, request: Request, arrival: RequestContext) -> Response:
        ready = self._services.inspection.ready()
        return _json_response({"ready": ready}, arrival, 200 if ready else 400)

    async def model_ready(self, request: Request, arrival: RequestContext) -> Response:
        """As Triton does it, a model that nobody knows is one that is not ready."""
        try:
            name, version = self._requested_model(request)
        except UnknownModel:
            return _json_response({"error": "Model version not ready"}, arrival, 400)
        ready = self._services.inspection.model_ready(name)
        if ready and version:
            ready = await self._version_ready(name, version)
        if not ready:
            return _json_response(
                {"error": "Model version not ready", "name": name, "ready": False}, arrival, 400
            )
        return _json_response({"name": name, "ready": True}, arrival)

    async def server(self, request: Request, arrival: RequestContext) -> Response:
        authenticate(request_exchange(request), self._services)
        inspector = self._services.inspection.server_inspector()
        document = _object(await inspector.rest("/v2", ANSWER_S))
        extensions = document.get("extensions", [])
        document["extensions"] = [e for e in extensions if e in OFFERED_EXTENSIONS]
        return _json_response(document, arrival)

    async def model(self, request: Request, arrival: RequestContext) -> Response:
        return await self._answer(request, arrival, "")

    async def config(self, request: Request, arrival: RequestContext) -> Response:
        return await self._answer(request, arrival, "/config")

    async def stats(self, request: Request, arrival: RequestContext) -> Response:
        try:
            return await self._answer(request, arrival, "/stats")
        except UnknownModel:
            raise RequestRejected("requested model is not available") from None

    async def all_stats(self, request: Request, arrival: RequestContext) -> Response:
        """Of the models that this caller may use and that a server answers for."""
        names = self._visible(request)
        answers = await asyncio.gather(*(self._inspect_model(n, "", "/stats") for n in names))
        statistics = [entry for a in answers if a for entry in _object(a).get("model_stats", [])]
        return _json_response({"model_stats": statistics}, arrival)

    async def index(self, request: Request, arrival: RequestContext) -> Response:
        names = self._visible(request)
        only_ready = await self._only_ready(request)
        entries = await asyncio.gather(*(self._entries(name) for name in sorted(names)))
        ready = [e for each in entries for e in each if e["state"] == "READY" or not only_ready]
        return _json_response(ready, arrival)

    async def _only_ready(self, request: Request) -> bool:
        exchange, limits = request_exchange(request), self._services.limits
        share = body_share(authenticate(exchange, self._services), self._services)
        body = await read_body(exchange, limits, share, AT_ONCE_BYTES)
        if not body:
            return False
        return strictjson.load_object(body, limits.max_json_depth).get("ready") is True

    async def _entries(self, name: str) -> list[dict[str, str]]:
        if not self._services.inspection.model_ready(name):
            return [{"name": name, "version": "", "state": "UNAVAILABLE", "reason": ""}]
        answer = await self._inspect_model(name, "", "")
        versions = _object(answer).get("versions") if answer else None
        if not isinstance(versions, list) or not versions:
            versions = [""]
        return [{"name": name, "version": str(v), "state": "READY"} for v in versions]

    async def _version_ready(self, name: str, version: str) -> bool:
        return await self._inspect_model(name, version, "/ready") is not None

    async def _answer(self, request: Request, arrival: RequestContext, what: str) -> Response:
        name, version = self._requested_model(request)
        inspector, there = self._services.inspection.model_inspector(name)
        answer = await inspector.rest(_path(there, version, what), ANSWER_S)
        return Response(answer.body, 200, intake.placement_headers(arrival, None), _JSON)

    async def _inspect_model(self, name: str, version: str, what: str) -> RestBody | None:
        """None where no server answers."""
        try:
            inspector, there = self._services.inspection.model_inspector(name)
            return await inspector.rest(_path(there, version, what), ANSWER_S)
        except GatewayError:
            return None

    def _requested_model(self, request: Request) -> tuple[str, str]:
        caller = authenticate(request_exchange(request), self._services)
        params = request.path_params
        model = known(self._services, caller, name_in(params["model"]))
        version = checked_version(params.get("version", ""))
        self._services.catalog.refuse_other_versions(model, version)
        return model.name, version

    def _visible(self, request: Request) -> list[str]:
        caller = authenticate(request_exchange(request), self._services)
        return [name for name in self._services.catalog.names() if caller.may_use(name)]


def _path(model: str, version: str, what: str) -> str:
    at = f"/versions/{version}" if version else ""
    return f"/v2/models/{quote(model, safe='')}{at}{what}"


def _object(body: RestBody) -> dict[str, Any]:
    try:
        document = orjson.loads(body.body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise UpstreamFailed("the endpoint's answer is not of the protocol")
    return document


def _json_response(document: Any, arrival: RequestContext, status: int = 200) -> Response:
    headers = intake.placement_headers(arrival, None)
    return Response(strictjson.dumps(document), status, headers, _JSON)
