"""Reads what Triton servers say of themselves, and notices where calls wait and nothing runs."""

from __future__ import annotations

import asyncio
import logging

from tritonclient.grpc import service_pb2

from gateway.accounting.metrics import Metrics
from gateway.config.endpoint_kinds import KINDS
from gateway.core.deadline import Clock
from gateway.core.errors import GatewayError
from gateway.endpoints.health import statistics
from gateway.endpoints.health.patience import doubt_s
from gateway.endpoints.health.statistics import ModelFigures, ServerStatistics, StallWatch
from gateway.endpoints.outcomes import Outcomes
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import EndpointState, ModelState

log = logging.getLogger(__name__)

_UNPROVEN = 4.0  # times the patience where no canary can tell a stall from one long execution


class Scraping:
    def __init__(
        self, registry: EndpointRegistry, outcomes: Outcomes, metrics: Metrics, clock: Clock
    ) -> None:
        self._registry = registry
        self._catalog = registry.catalog
        self._outcomes = outcomes
        self._metrics = metrics
        self._clock = clock
        self._stalls: dict[tuple[str, str], StallWatch] = {}
        for state in registry.states.values():
            reports = KINDS[state.settings.kind].extensions and state.inspector is not None
            if reports and state.statistics is None:
                state.statistics = ServerStatistics(clock, registry.health.statistics_s)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name, state in self._registry.states.items():
                if state.statistics is not None:
                    group.create_task(self._run_one(name, state, state.statistics))

    async def _run_one(self, name: str, state: EndpointState, known: ServerStatistics) -> None:
        reported = False
        while True:
            await self.read(name, state, known)
            if known.stale and not reported and state.up:
                log.warning(
                    "%s: its statistics are stale; only our own count of calls is used", name
                )
            reported = known.stale
            await asyncio.sleep(known.period_s)

    async def read(self, name: str, state: EndpointState, known: ServerStatistics) -> None:
        """One reading. None that fails changes anything but the age of the last one."""
        if not state.up or state.inspector is None:
            return
        request = service_pb2.ModelStatisticsRequest().SerializeToString()
        try:
            async with asyncio.timeout(known.period_s):
                raw = await state.inspector.grpc("ModelStatistics", request, known.period_s)
            known.learn(statistics.read(raw))
        except (GatewayError, TimeoutError):
            return  # guard: S3.failed-scrape -> raise
        except Exception:  # noqa: BLE001 - a background loop goes on; the bug is counted
            self._metrics.tasks_failed.labels("statistics").inc()
            return
        for model, served in self._catalog.endpoints[name].models.items():
            model_state, figures = state.model_states.get(model), known.models.get(served.model)
            if model_state is not None and figures is not None:
                self._check_stall(name, model, model_state, figures)

    def _check_stall(
        self, name: str, model: str, model_state: ModelState, figures: ModelFigures
    ) -> None:
        watch = self._stalls.setdefault((name, model), StallWatch(self._clock))
        settings = self._registry.health
        patience_s = max(settings.stall_s, doubt_s(model_state.times, settings))
        if not model_state.health.proven:
            patience_s *= _UNPROVEN
        # Once it is out, only canaries ask; that it is out does not end the stall.
        flat_s = watch.flat_s(
            figures.executions, model_state.in_flight > 0 or model_state.health.answers.silent
        )
        if flat_s < patience_s or watch.reported:
            return
        watch.reported = True
        self._metrics.endpoint_stalls.labels(name).inc()  # guard: S8.stall-notice
        log.warning(
            "%s: stalled: %s is asked and has executed nothing for %.1f s; calls there: %d",
            name, model, flat_s, model_state.in_flight,
        )  # fmt: skip
        # guard: S8.stall-canary model_state.breaker.closed -> False
        model_state.health.doubts.stalled = model_state.breaker.closed
        if not model_state.health.proven and model_state.health.open():  # guard: S8.stall-fallback
            self._outcomes.ejected(name, model, "stall")
            self._registry.states[name].give_up_waiting(lambda waiting: waiting.model == model)
