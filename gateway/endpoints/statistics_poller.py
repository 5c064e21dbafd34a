"""Reads what Triton servers say of themselves, and notices where calls wait and nothing runs."""

from __future__ import annotations

import asyncio
import logging

from tritonclient.grpc import service_pb2

from gateway.accounting.metrics import Metrics
from gateway.config.model_catalog import Catalog
from gateway.core.deadline import Clock
from gateway.core.errors import GatewayError
from gateway.endpoints.fleet import Fleet
from gateway.endpoints.health import statistics
from gateway.endpoints.health.patience import doubt_s
from gateway.endpoints.health.statistics import ModelFigures, ServerStatistics, StallWatch
from gateway.endpoints.state import EndpointState, ModelState

log = logging.getLogger(__name__)

_UNPROVEN = 4.0  # times the patience where no canary can tell a stall from one long execution


class Scraping:
    def __init__(self, fleet: Fleet, catalog: Catalog, metrics: Metrics, clock: Clock) -> None:
        self._fleet = fleet
        self._catalog = catalog
        self._metrics = metrics
        self._clock = clock
        self._stalls: dict[tuple[str, str], StallWatch] = {}
        for place in fleet.places.values():
            reports = place.settings.kind == "triton" and place.inspector is not None
            if reports and place.statistics is None:
                place.statistics = ServerStatistics(clock, fleet.health.statistics_s)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name, place in self._fleet.places.items():
                if place.statistics is not None:
                    group.create_task(self._run_one(name, place, place.statistics))

    async def _run_one(self, name: str, place: EndpointState, known: ServerStatistics) -> None:
        reported = False
        while True:
            await self.read(name, place, known)
            if known.stale and not reported and place.up:
                log.warning(
                    "%s: its statistics are stale; only our own count of calls is used", name
                )
            reported = known.stale
            await asyncio.sleep(known.period_s)

    async def read(self, name: str, place: EndpointState, known: ServerStatistics) -> None:
        """One reading. None that fails changes anything but the age of the last one."""
        if not place.up or place.inspector is None:
            return
        request = service_pb2.ModelStatisticsRequest().SerializeToString()
        try:
            async with asyncio.timeout(known.period_s):
                raw = await place.inspector.grpc("ModelStatistics", request, known.period_s)
            known.learn(statistics.read(raw))
        except (GatewayError, TimeoutError):
            return  # guard: S3.failed-scrape -> raise
        except Exception:  # noqa: BLE001 - a background loop goes on; the bug is counted
            self._metrics.tasks_failed.labels("statistics").inc()
            return
        for model, served in self._catalog.endpoints[name].models.items():
            lane, figures = place.lanes.get(model), known.models.get(served.model)
            if lane is not None and figures is not None:
                self._check_stall(name, model, lane, figures)

    def _check_stall(self, name: str, model: str, lane: ModelState, figures: ModelFigures) -> None:
        watch = self._stalls.setdefault((name, model), StallWatch(self._clock))
        settings = self._fleet.health
        patience_s = max(settings.stall_s, doubt_s(lane.times, settings))
        if not lane.health.proven:
            patience_s *= _UNPROVEN
        # Once it is out, only canaries ask; that it is out does not end the stall.
        flat_s = watch.flat_s(figures.executions, lane.in_flight > 0 or lane.health.silent)
        if flat_s < patience_s or watch.reported:
            return
        watch.reported = True
        self._metrics.endpoint_stalls.labels(name).inc()  # guard: S8.stall-notice
        log.warning(
            "%s: stalled: %s is asked and has executed nothing for %.1f s; calls there: %d",
            name, model, flat_s, lane.in_flight,
        )  # fmt: skip
        # guard: S8.stall-canary lane.breaker.closed -> False
        lane.health.stalled = lane.breaker.closed
        if not lane.health.proven and lane.health.open():  # guard: S8.stall-fallback
            self._fleet.ejected(name, model, "stall")
            self._fleet.places[name].give_up_waiting(lambda waiting: waiting.model == model)
