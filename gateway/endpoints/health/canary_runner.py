"""Sends canaries: to models that are doubted, and to those that are out or slow and may be back.

One task for each endpoint looks at its models a few times a second. Nothing here decides: what a
canary meets is told to the model's `ModelHealth`, and what that says is done.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gateway.accounting.metrics import Metrics
from gateway.config import HealthSettings
from gateway.config.model_catalog import Catalog
from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import DeadlineExceeded, GatewayError, ModelDead, UpstreamBusy
from gateway.core.types import (
    Frame,
    InferenceRequest,
    Payload,
    ReplyStream,
    ServedModel,
    WireProtocol,
)
from gateway.endpoints.fleet import Fleet
from gateway.endpoints.health.model_health import CanaryCause, CanaryResult, HealthChange
from gateway.endpoints.state import EndpointState, ModelState

log = logging.getLogger(__name__)

_TICK_S = 0.1
_LAG_S = 0.25  # a tick that comes so late says more of this process than of the endpoint
_PROVE_S = 30.0  # between tries of a first canary that failed
_PATIENCE_FACTOR = 4.0
_OUT_PATIENCE = 2.5  # of a canary to a model that is out: it may come back slow
_FIRST_PATIENCE_S = 10.0  # nothing depends on it yet

Payloads = Callable[[str, EndpointState, str], Awaitable[Payload]]
"""The canary's payload for a model of an endpoint, from the model's metadata."""
Infer = Callable[[str, EndpointState, InferenceRequest, ServedModel], Awaitable[ReplyStream]]


@dataclass(slots=True)
class _Known:
    """What is known of canaries to one model."""

    payload: Payload | None = None
    try_s: float = 0.0  # not before this is a first canary tried (again)
    going: asyncio.Task[None] | None = field(default=None, repr=False)


class CanaryRunner:
    def __init__(
        self, fleet: Fleet, catalog: Catalog, payloads: Payloads, infer: Infer, metrics: Metrics,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._fleet = fleet
        self._catalog = catalog
        self._payloads = payloads
        self._infer = infer
        self._metrics = metrics
        self._clock = clock
        self._known: dict[tuple[str, str], _Known] = {}
        self._ids = itertools.count(1)

    @property
    def _settings(self) -> HealthSettings:
        return self._fleet.health

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name, place in self._fleet.places.items():
                if tended(place):
                    group.create_task(self._run_one(group, name, place))

    async def _run_one(self, group: asyncio.TaskGroup, name: str, place: EndpointState) -> None:
        due_s = self._clock()
        while True:
            late_s = self._clock() - due_s
            if place.up and late_s < _LAG_S:
                self._check(group, name, place)
            due_s = self._clock() + _TICK_S
            await asyncio.sleep(_TICK_S)

    def _check(self, group: asyncio.TaskGroup, name: str, place: EndpointState) -> None:
        for model in self._models(name):
            lane = self._fleet.lane(name, model)
            known = self._known.setdefault((name, model), _Known())
            if known.going is not None and not known.going.done():
                continue
            if not lane.health.proven:
                if self._clock() >= known.try_s and not self._proving(name):
                    known.try_s = self._clock() + _PROVE_S
                    known.going = group.create_task(self._prove(name, model))
            elif (doubt := lane.health.doubt(lane.times)) is not CanaryCause.NONE:
                log.debug("%s: doubts %s: %s", name, model, doubt.value)
                known.going = group.create_task(self._ask(name, model, lane))
            elif lane.health.due():
                known.going = group.create_task(self._ask(name, model, lane))

    def _models(self, name: str) -> list[str]:
        served = self._catalog.endpoints[name].models
        return [m for m in served if m in self._catalog.models and self._catalog.models[m].canary]

    def _proving(self, name: str) -> bool:
        """First canaries go one by one, not to burden a server that has just come up."""
        return any(
            known.going is not None and not known.going.done()
            for (place, model), known in self._known.items()
            if place == name and not self._fleet.lane(name, model).health.proven
        )

    async def _prove(self, name: str, model: str) -> None:
        answer, _ = await self._canary(name, model, _FIRST_PATIENCE_S)
        if answer is CanaryResult.GOOD:
            lane = self._fleet.lane(name, model)
            was_out = not lane.breaker.closed
            lane.health.prove()
            if was_out:
                self._fleet.returned(name, model)

    async def _ask(self, name: str, model: str, lane: ModelState) -> None:
        lane.health.asking()
        patience_s = self._patience_s(lane)
        answer, took_s = await self._canary(name, model, patience_s)
        if answer is CanaryResult.LATE and took_s > patience_s + _LAG_S:
            return  # this process was late itself
        self._do(name, model, lane.health.observe(answer, took_s, lane.times))

    def _patience_s(self, lane: ModelState) -> float:
        """A canary that decides for restricted calls too may wait as long as they would."""
        usual_s = max(self._settings.canary_ms / 1000, _PATIENCE_FACTOR * lane.times.high_s)
        if lane.health.state == "slow":
            return max(usual_s, self._settings.response_floor_ms / 1000)
        return usual_s if lane.health.state == "trusted" else _OUT_PATIENCE * usual_s

    def _do(self, name: str, model: str, verdict: HealthChange) -> None:
        if verdict is HealthChange.EJECTED:
            self._fleet.ejected(name, model, "canary")
            self._fleet.places[name].give_up_waiting(lambda waiting: waiting.model == model)
        elif verdict is HealthChange.SLOWED:
            self._fleet.became_slow(name, model)
        elif verdict is HealthChange.BACK:
            self._fleet.returned(name, model)
        elif not self._fleet.lane(name, model).breaker.closed:
            self._fleet.still_out(model)  # guard: A1.lost-hope

    async def _canary(self, name: str, model: str, patience_s: float) -> tuple[CanaryResult, float]:
        began_s = self._clock()
        try:
            async with asyncio.timeout(patience_s):
                await self._infer_one(name, model, patience_s)
            answer = CanaryResult.GOOD
        except (TimeoutError, DeadlineExceeded, UpstreamBusy):
            answer = CanaryResult.LATE
        except ModelDead as dead:
            answer = CanaryResult.BAD
            if (place := self._fleet.places[name]).on_gray is not None:
                place.on_gray(f"{model} fails every inference ({dead.reason})")
        except GatewayError as exc:
            answer = CanaryResult.BAD
            self._known[name, model].payload = None  # the model may have changed
            log.debug("%s: a canary to %s met %s", name, model, exc.reason)
        except Exception:  # noqa: BLE001 - a background loop goes on; the bug is counted
            answer = CanaryResult.BAD
            self._metrics.tasks_failed.labels("canary").inc()
        self._metrics.canaries.labels(name, answer.value).inc()
        return answer, self._clock() - began_s

    async def _infer_one(self, name: str, model: str, patience_s: float) -> None:
        place, known = self._fleet.places[name], self._known[name, model]
        if known.payload is None:
            known.payload = await self._payloads(name, place, model)
        request = InferenceRequest(
            id=f"canary-{next(self._ids)}",
            protocol=WireProtocol.KSERVE_GRPC,
            tenant="",
            model=model,
            payload=known.payload,
            deadline=Deadline.after(patience_s, self._clock),
            received_s=self._clock(),
        )
        stream = await self._infer(
            name, place, request, self._catalog.endpoints[name].models[model]
        )
        try:
            await _first(stream)
        finally:
            await stream.aclose()


async def _first(stream: ReplyStream) -> Frame | None:
    """A decoupled model may end a call without any answer, which is one too."""
    return await anext(stream, None)


def tended(place: EndpointState) -> bool:
    """By default canaries go to on-prem endpoints alone: elsewhere each of them costs."""
    if place.settings.canary is not None:
        return place.settings.canary
    return place.onprem is not None
