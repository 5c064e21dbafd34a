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
from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import DeadlineExceeded, GatewayError, ModelDead, UpstreamBusy
from gateway.core.reply import Frame, ReplyStream
from gateway.core.types import InferenceRequest, Payload, ServedModel, WireProtocol
from gateway.endpoints.health.doubts import CanaryCause
from gateway.endpoints.health.model_health import CanaryResult, HealthChange
from gateway.endpoints.outcomes import Outcomes
from gateway.endpoints.recovery import Recovery
from gateway.endpoints.registry import EndpointRegistry
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
        self, registry: EndpointRegistry, outcomes: Outcomes, recovery: Recovery,
        payloads: Payloads, infer: Infer, metrics: Metrics, clock: Clock,
    ) -> None:  # fmt: skip
        self._registry = registry
        self._catalog = registry.catalog
        self._outcomes = outcomes
        self._recovery = recovery
        self._payloads = payloads
        self._infer = infer
        self._metrics = metrics
        self._clock = clock
        self._known: dict[tuple[str, str], _Known] = {}
        self._ids = itertools.count(1)

    @property
    def _settings(self) -> HealthSettings:
        return self._registry.health

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name, state in self._registry.states.items():
                if tended(state):
                    group.create_task(self._run_one(group, name, state))

    async def _run_one(self, group: asyncio.TaskGroup, name: str, state: EndpointState) -> None:
        due_s = self._clock()
        while True:
            late_s = self._clock() - due_s
            if state.up and late_s < _LAG_S:
                self._check(group, name, state)
            due_s = self._clock() + _TICK_S
            await asyncio.sleep(_TICK_S)

    def _check(self, group: asyncio.TaskGroup, name: str, state: EndpointState) -> None:
        for model in self._models(name):
            model_state = self._registry.model_state(name, model)
            known = self._known.setdefault((name, model), _Known())
            if known.going is not None and not known.going.done():
                continue
            if not model_state.health.proven:
                if self._clock() >= known.try_s and not self._proving(name):
                    known.try_s = self._clock() + _PROVE_S
                    known.going = group.create_task(self._prove(name, model))
            elif (doubt := model_state.health.doubt(model_state.times)) is not CanaryCause.NONE:
                log.debug("%s: doubts %s: %s", name, model, doubt.value)
                known.going = group.create_task(self._ask(name, model, model_state))
            elif model_state.health.due():
                known.going = group.create_task(self._ask(name, model, model_state))

    def _models(self, name: str) -> list[str]:
        served = self._catalog.endpoints[name].models
        return [m for m in served if m in self._catalog.models and self._catalog.models[m].canary]

    def _proving(self, name: str) -> bool:
        """First canaries go one by one, not to burden a server that has just come up."""
        return any(
            known.going is not None and not known.going.done()
            for (state, model), known in self._known.items()
            if state == name and not self._registry.model_state(name, model).health.proven
        )

    async def _prove(self, name: str, model: str) -> None:
        answer, _ = await self._canary(name, model, _FIRST_PATIENCE_S)
        if answer is CanaryResult.GOOD:
            model_state = self._registry.model_state(name, model)
            was_out = not model_state.breaker.closed
            model_state.health.prove()
            if was_out:
                self._outcomes.returned(name, model)

    async def _ask(self, name: str, model: str, model_state: ModelState) -> None:
        model_state.health.asking()
        patience_s = self._patience_s(model_state)
        answer, took_s = await self._canary(name, model, patience_s)
        if answer is CanaryResult.LATE and took_s > patience_s + _LAG_S:
            return  # this process was late itself
        self._do(name, model, model_state.health.observe(answer, took_s, model_state.times))

    def _patience_s(self, model_state: ModelState) -> float:
        """A canary that decides for restricted calls too may wait as long as they would."""
        usual_s = max(self._settings.canary_ms / 1000, _PATIENCE_FACTOR * model_state.times.high_s)
        if model_state.health.state == "slow":
            return max(usual_s, self._settings.response_floor_ms / 1000)
        return usual_s if model_state.health.state == "trusted" else _OUT_PATIENCE * usual_s

    def _do(self, name: str, model: str, verdict: HealthChange) -> None:
        if verdict is HealthChange.EJECTED:
            self._outcomes.ejected(name, model, "canary")
            self._registry.states[name].give_up_waiting(lambda waiting: waiting.model == model)
        elif verdict is HealthChange.SLOWED:
            self._outcomes.became_slow(name, model)
        elif verdict is HealthChange.BACK:
            self._outcomes.returned(name, model)
        elif not self._registry.model_state(name, model).breaker.closed:
            self._recovery.still_out(model)  # guard: A1.lost-hope

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
            if (state := self._registry.states[name]).on_gray is not None:
                served = self._catalog.endpoints[name].models[model].model
                state.on_gray(served, f"{model} fails every inference ({dead.reason})")
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
        state, known = self._registry.states[name], self._known[name, model]
        if known.payload is None:
            known.payload = await self._payloads(name, state, model)
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
            name, state, request, self._catalog.endpoints[name].models[model]
        )
        try:
            await _first(stream)
        finally:
            await stream.aclose()


async def _first(stream: ReplyStream) -> Frame | None:
    """A decoupled model may end a call without any answer, which is one too."""
    return await anext(stream, None)


def tended(state: EndpointState) -> bool:
    """By default canaries go to on-prem endpoints alone: elsewhere each of them costs."""
    if state.settings.canary is not None:
        return state.settings.canary
    return state.onprem is not None
