"""The control port: change the weather, read the counts, search what was received."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.demo.cloud.bytelog import ByteLog
from gateway.demo.cloud.conditions import Conditions
from gateway.demo.cloud.search import search
from gateway.demo.cloud.settings import SettingsError


class CloudControl:
    """`follow` makes new settings true of the ports before they are confirmed."""

    def __init__(
        self, conditions: Conditions, log: ByteLog, follow: Callable[[], Awaitable[None]]
    ) -> None:
        self._conditions = conditions
        self._log = log
        self._follow = follow

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/control/state", self._state),
                Route("/control/settings", self._change, methods=["POST"]),
                Route("/control/reset", self._reset, methods=["POST"]),
                Route("/control/log", self._counts),
                Route("/control/search", self._search, methods=["POST"]),
            ]
        )

    async def _state(self, _: Request) -> Response:
        conditions = self._conditions
        return JSONResponse(
            {
                "simulated": True,
                "settings": conditions.settings.as_json(),
                "in_flight": conditions.in_flight,
                "bill": dataclasses.asdict(conditions.bill),
            }
        )

    async def _change(self, request: Request) -> Response:
        changes = await request.json()
        if not isinstance(changes, dict):
            return JSONResponse({"error": "the body must be a mapping of settings"}, 400)
        try:
            self._conditions.change(self._conditions.settings.changed(changes))
        except SettingsError as error:
            return JSONResponse({"error": str(error)}, 400)
        await self._follow()
        return JSONResponse({"settings": self._conditions.settings.as_json()})

    async def _reset(self, _: Request) -> Response:
        """As at the start: the first settings, the dice from their seed, no counts, no log."""
        self._log.clear()
        self._conditions.reset()
        await self._follow()
        return JSONResponse({})

    async def _counts(self, _: Request) -> Response:
        return JSONResponse(
            {
                "records": self._log.records,
                "bytes": self._log.payload_bytes,
                "connections": self._log.connections,
                "routes": self._conditions.routes,
                "models": self._conditions.models,
                "answers": self._conditions.answers,
            }
        )

    async def _search(self, request: Request) -> Response:
        document = await request.json()
        needles = document.get("needles") if isinstance(document, dict) else None
        if not isinstance(needles, list) or not all(
            isinstance(needle, str) and needle for needle in needles
        ):
            return JSONResponse({"error": "needles: must be a list of texts"}, 400)
        result = await asyncio.to_thread(search, self._log.path, needles)
        return JSONResponse(dataclasses.asdict(result))
