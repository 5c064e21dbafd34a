"""The page and its streams over HTTP: `/console` and what lies below it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway import strictjson
from gateway.accounting.metrics import Metrics
from gateway.config import LimitSettings
from gateway.console.explanation import explanation
from gateway.console.feed import Events, Feed, TooManyLook
from gateway.console.operators import Operator, Operators
from gateway.console.page import HEADERS, File
from gateway.console.picture import Sight
from gateway.errors import RequestRejected, RouteNotFound, Saturated
from gateway.fronts.http import ClosingResponse, Front, read_body
from gateway.fronts.ops import error_response

log = logging.getLogger(__name__)
_STALL_S = 10.0  # of one who takes nothing more


class ConsoleFront:
    def __init__(
        self,
        sight: Sight,
        feed: Feed,
        operators: Operators,
        limits: LimitSettings,
        metrics: Metrics,
        files: Mapping[str, File],
    ) -> None:
        self._sight = sight
        self._feed = feed
        self._operators = operators
        self._limits = limits
        self._metrics = metrics
        self._files = files

    def front(self) -> Front:
        return Front("/console", "ops", self.routes(), error_response)

    def routes(self) -> list[Route]:
        return [
            Route("/console", self._page, methods=["GET"]),
            Route("/console/events", self._events, methods=["GET"]),
            Route("/console/operator", self._who, methods=["GET"]),
            Route("/console/decisions/{seq:int}", self._decision, methods=["GET"]),
            Route("/console/drain", self._drain, methods=["POST"]),
            Route("/console/spill", self._spill, methods=["POST"]),
            Route("/console/files/{name}", self._file, methods=["GET"]),
        ]

    # The page; it has no data

    async def _page(self, request: Request) -> Response:
        return self._served("index.html")

    async def _file(self, request: Request) -> Response:
        return self._served(request.path_params["name"])

    def _served(self, name: str) -> Response:
        found = self._files.get(name)
        if found is None:
            raise RouteNotFound("Not Found: this gateway has no such route")
        return Response(found.content, 200, HEADERS, found.media_type)

    # For those who may look

    async def _who(self, request: Request) -> Response:
        operator = self._operators.identify(request.headers, _peer(request))
        return _json(
            {"name": operator.name, "operates": operator.operates,
             "development": self._operators.development}
        )  # fmt: skip

    async def _events(self, request: Request) -> Response:
        self._operators.identify(request.headers, _peer(request))
        try:
            looker = self._feed.join(request.headers.get("last-event-id", ""))
        except TooManyLook:
            raise Saturated("too many look at once", retry_after_s=5.0) from None
        headers = {**HEADERS, "content-type": "text/event-stream; charset=utf-8"}
        return ClosingResponse(Events(self._feed, looker), 200, headers, _STALL_S)

    async def _decision(self, request: Request) -> Response:
        self._operators.identify(request.headers, _peer(request))
        seen = self._sight.decisions.find(request.path_params["seq"])
        if seen is None:
            raise RouteNotFound(
                "this decision is not kept any more (console.tail); it is in the audit"
            )
        return _json(explanation(seen))

    # For those who may act

    async def _drain(self, request: Request) -> Response:
        operator = self._operators.acting(request.headers, _peer(request))
        asked = await self._asked(request, endpoint=str, drained=bool)
        name, drained = asked["endpoint"], asked["drained"]
        if name not in self._sight.fleet.places:
            raise RequestRejected("endpoint: there is none of this name")
        self._sight.fleet.drain(name, drained)
        self._done(operator, "drain" if drained else "undrain", f" {name}")
        return _json({"endpoint": name, "drained": drained})

    async def _spill(self, request: Request) -> Response:
        operator = self._operators.acting(request.headers, _peer(request))
        stopped = (await self._asked(request, stopped=bool))["stopped"]
        stop = self._sight.stop
        if stop.file is None:
            raise RequestRejected(
                "routing.spill_stop_file names no file; without one there is no kill switch"
            )
        try:
            stop.turn(stopped)
        except OSError as exc:
            raise RequestRejected(
                f"the file of routing.spill_stop_file cannot be changed: {exc.strerror}"
            ) from None
        self._done(operator, "spill_stop" if stopped else "spill_go", "")
        return _json({"stopped": stop.on})

    async def _asked(self, request: Request, **kinds: type) -> dict[str, Any]:
        document = strictjson.load_object(await read_body(request, self._limits), 2)
        for name, kind in kinds.items():
            if not isinstance(document.get(name), kind):
                raise RequestRejected(f"{name}: must be a {kind.__name__}")
        return document

    def _done(self, operator: Operator, action: str, to: str) -> None:
        self._metrics.operator_actions.labels(action).inc()
        log.warning("operator %s: %s%s", operator.name, action, to)


def _peer(request: Request) -> str | None:
    return None if request.client is None else request.client.host


def _json(value: dict[str, Any]) -> Response:
    return Response(strictjson.dumps(value), 200, HEADERS, "application/json")
