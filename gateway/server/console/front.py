"""The page and its streams over HTTP: `/console` and what lies below it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.accounting.audit.actions import Actions
from gateway.accounting.live.explanation import explanation
from gateway.accounting.live.feed import Events, Feed, TooManyViewers
from gateway.accounting.live.shares import parsed_id
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import RecordUnwritable
from gateway.accounting.spill import SpillStop
from gateway.config import LimitSettings
from gateway.core.errors import RequestRejected, Saturated, UnknownRoute
from gateway.protocols import strictjson
from gateway.server.console.operators import Operator, Operators
from gateway.server.console.page import HEADERS, File
from gateway.server.console.picture import ConsoleSources
from gateway.server.http import ClosingResponse, Front, read_body, request_exchange
from gateway.server.ops import error_response

log = logging.getLogger(__name__)
_STALL_S = 10.0  # of one who takes nothing more
_BODY_BYTES = 64 * 1024
_CLOSING = ("drain", "spill_stop")


class ConsoleFront:
    def __init__(
        self,
        sight: ConsoleSources,
        feed: Feed,
        operators: Operators,
        limits: LimitSettings,
        metrics: Metrics,
        files: Mapping[str, File],
        actions: Actions,
    ) -> None:
        self._sight = sight
        self._feed = feed
        self._operators = operators
        self._limits = limits
        self._metrics = metrics
        self._files = files
        self._actions = actions

    def front(self) -> Front:
        return Front("/console", "ops", self.routes(), error_response)

    def routes(self) -> list[Route]:
        return [
            Route("/console", self._page, methods=["GET"]),
            Route("/console/events", self._events, methods=["GET"]),
            Route("/console/operator", self._who, methods=["GET"]),
            Route("/console/decisions/{decision}", self._decision, methods=["GET"]),
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
        file = self._files.get(name)
        if file is None:
            raise UnknownRoute("Not Found: this gateway has no such route")
        return Response(file.content, 200, HEADERS, file.media_type)

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
            await self._feed.refresh()
            looker = self._feed.join(request.headers.get("last-event-id", ""))
        except TooManyViewers:
            raise Saturated("too many look at once", retry_after_s=5.0) from None
        headers = {**HEADERS, "content-type": "text/event-stream; charset=utf-8"}
        forwarded, peer = dict(request.headers), _peer(request)
        events = Events(self._feed, looker, lambda: self._operators.knows(forwarded, peer))
        return ClosingResponse(events, 200, headers, _STALL_S)

    async def _decision(self, request: Request) -> Response:
        self._operators.identify(request.headers, _peer(request))
        decision = parsed_id(request.path_params["decision"], self._sight.worker)
        explained = None if decision is None else await self._explained(*decision)
        if explained is None:
            raise UnknownRoute(
                "this decision is not kept any more (console.tail); it is in the audit"
            )
        return _json(explained)

    async def _explained(self, worker: int, seq: int) -> dict[str, Any] | None:
        if worker != self._sight.worker:
            return await self._sight.shares.explained(worker, seq)
        row = self._sight.decisions.find(seq)
        return None if row is None else explanation(row)

    # For those who may act

    async def _drain(self, request: Request) -> Response:
        operator = self._operators.acting(request.headers, _peer(request))
        wanted = await self._read_body(request, endpoint=str, drained=bool)
        name, drained = wanted["endpoint"], wanted["drained"]
        if name not in self._sight.registry.states:
            raise RequestRejected("endpoint: there is none of this name")
        if drained:
            # guard: B7.drain-unrecorded -> await self._done(operator, 'drain', name);
            #   self._sight.registry.drain(name, True)
            self._sight.registry.drain(name, True)
            await self._sight.announce_drained(name, True)  # guard: B7.drain-unrecorded
            await self._done(operator, "drain", name)  # guard: B7.drain-unrecorded
        else:
            # guard: B7.undrain-record -> self._sight.registry.drain(name, False); await
            #   self._done(operator, 'undrain', name)
            await self._done(operator, "undrain", name)
            self._sight.registry.drain(name, False)  # guard: B7.undrain-record
            await self._sight.announce_drained(name, False)
        return _json({"endpoint": name, "drained": drained})

    async def _spill(self, request: Request) -> Response:
        operator = self._operators.acting(request.headers, _peer(request))
        stopped = (await self._read_body(request, stopped=bool))["stopped"]
        stop = self._sight.stop()
        if stop.file is None:
            raise RequestRejected(
                "routing.spill_stop_file names no file; without one there is no kill switch"
            )
        async with self._actions.switching:  # guard: B7.own-switch -> if True:
            if stopped:
                self._turn(stop, True)
                await self._done(operator, "spill_stop", str(stop.file))
            else:
                # guard: B7.reopen-record -> self._turn(stop, False); await self._done(operator,
                #   'spill_go', str(stop.file))
                await self._done(operator, "spill_go", str(stop.file))
                self._turn(stop, False)  # guard: B7.reopen-record
        return _json({"stopped": stop.on})

    def _turn(self, stop: SpillStop, on: bool) -> None:
        """If it cannot be opened, the next look at the file puts the records right."""
        try:
            stop.turn(on)
        except OSError as exc:
            raise RequestRejected(
                f"the file of routing.spill_stop_file cannot be changed: {exc.strerror}"
            ) from None

    async def _read_body(self, request: Request, **kinds: type) -> dict[str, Any]:
        body = await read_body(request_exchange(request), self._limits, None, _BODY_BYTES)
        document = strictjson.load_object(body, 2)
        for name, kind in kinds.items():
            if not isinstance(document.get(name), kind):
                raise RequestRejected(f"{name}: must be a {kind.__name__}")
        return document

    async def _done(self, operator: Operator, action: str, on: str) -> None:
        """On record. What closes something is done before, whatever the audit's disk says; what
        opens something only after. Raises RecordUnwritable."""
        try:
            await self._actions.record(action, operator.name, on)
        except RecordUnwritable as failed:
            log.error("operator %s: %s %s could not be recorded", operator.name, action, on)
            done = "it is done" if action in _CLOSING else "it is not done"
            raise RecordUnwritable(f"{failed.message}; {done}", retry_after_s=1.0) from None
        self._metrics.operator_actions.labels(action).inc()
        log.warning("operator %s: %s %s", operator.name, action, on)


def _peer(request: Request) -> str | None:
    return None if request.client is None else request.client.host


def _json(value: dict[str, Any]) -> Response:
    return Response(strictjson.dumps(value), 200, HEADERS, "application/json")
