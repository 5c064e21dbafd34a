"""Which endpoints and models there are, the state of each, and what may be sent where now.

State changes in synchronous methods only; `health/prober.py` asks the endpoints in the background.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from gateway.accounting.pricing.gputime import GpuTime
from gateway.accounting.spill import SpillControl
from gateway.config import HealthSettings
from gateway.config.model_catalog import Catalog
from gateway.core.deadline import Clock
from gateway.core.errors import NoEligibleEndpoint
from gateway.core.types import InferenceRequest, endpoint_name
from gateway.endpoints.candidates import CandidateIndex
from gateway.endpoints.connectors import Inspector
from gateway.endpoints.health.breaker import Breaker
from gateway.endpoints.health.model_health import ModelHealth
from gateway.endpoints.state import EndpointState, ModelState, refused_why, unavailable_why
from gateway.scheduling.queues import ModelQueues
from gateway.scheduling.routing.estimate import ServiceTimes


class EndpointRegistry:
    def __init__(
        self,
        catalog: Catalog,
        states: dict[str, EndpointState],
        queues: ModelQueues,
        spill: SpillControl,
        health: HealthSettings,
        clock: Clock,
    ) -> None:
        self.catalog = catalog
        self.states = states
        self.health = health
        self.candidates = CandidateIndex(catalog, states, self.model_state)
        self._queues = queues
        self._spill = spill
        self._clock = clock
        for name, state in states.items():
            if state.model_states.new is None:
                self.make_model_states([name])
            if state.settings.zone.onprem and state.gpu_time is None:
                first = states[endpoint_name(name)]  # all places of an endpoint are on its GPUs
                state.gpu_time = first.gpu_time or GpuTime(clock)

    def make_model_states(self, names: Iterable[str]) -> None:
        """From now on these settings say what the state of a further model is made of."""
        for name in names:
            state = self.states[name]
            state.model_states.new = partial(self._new_model_state, state)

    def model_state(self, name: str, model: str) -> ModelState:
        return self.states[name].model_states[model]

    def _new_model_state(self, state: EndpointState) -> ModelState:
        h = self.health
        breaker = Breaker(self._clock, dwell_s=h.dwell_s, dwell_max_s=h.dwell_max_s)
        health = ModelHealth(self._clock, h, breaker)
        times = ServiceTimes(state.settings.expected_ms / 1000, self._clock)
        gaps = ServiceTimes(0.0, self._clock)
        return ModelState(breaker, times, gaps, health, state.reachable)

    # What may be sent where

    def refuses(self, name: str, model: str) -> str:
        """Why no call at all may go there now; empty when one may."""
        state = self.states[name]
        return unavailable_why(state, state.model_states[model])

    def refuses_call(self, name: str, request: InferenceRequest) -> str:
        """Why the call may not go there now; empty when it may."""
        state = self.states[name]
        return refused_why(state, state.model_states[request.model], request.tenant)

    def drain(self, name: str, drained: bool) -> None:
        """Whether an endpoint, with its further places, gets no new calls. Those that it has
        finish; those that wait for it are told at once, as when it goes down."""
        names = {place for place in self.states if name in (place, endpoint_name(place))}
        for place in names:
            self.states[place].drained = drained
        for (_, servers), queue in tuple(self._queues):
            if not names.isdisjoint(servers):
                queue.refresh()  # guard: P3.waiter-refusal

    # Readiness and inspection

    def ready(self) -> bool:
        """Whether an endpoint is up that clear calls may go to, wherever it is."""
        # guard: O8.cloud-up minus 2
        # guard: O8.cloud-closed minus 3
        return self.onprem_up() or (self._spill.open and self._any_up(False))

    def onprem_up(self) -> bool:
        """Whether restricted calls have a place."""
        return self._any_up(True)

    def _any_up(self, onprem: bool) -> bool:
        some = [s for s in self.states.values() if s.settings.zone.onprem is onprem]
        # guard: O8.drained-endpoint minus 2
        return any(s.up and not s.drained for s in some)

    def model_ready(self, model: str) -> bool:
        return any(
            not self.refuses(name, model)
            for name in self.catalog.find(model).endpoints
            if self._spill.open or self.states[name].settings.zone.onprem
        )

    def server_inspector(self) -> Inspector:
        for state in self.states.values():
            if state.inspector and state.up and state.settings.zone.onprem:
                return state.inspector
        raise NoEligibleEndpoint("no on-prem inference server is up", retry_after_s=2.0)

    def model_inspector(self, model: str) -> tuple[Inspector, str]:
        entry = self.catalog.find(model)
        names = sorted(entry.endpoints, key=lambda n: not self.states[n].settings.zone.onprem)
        for name in names:
            state = self.states[name]
            if state.inspector and state.up:
                return state.inspector, self.catalog.endpoints[name].models[model].model
        raise NoEligibleEndpoint("no server of this model is up", retry_after_s=2.0)

    def assume_up(self) -> None:
        for state in self.states.values():
            state.up = True
