"""What a queue reads when it decides: how much each of its servers takes now, and the cloud."""

from __future__ import annotations

from collections.abc import Callable

from gateway.accounting.spill import SpillControl
from gateway.endpoints.candidates import ModelEpoch
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import unavailable_why
from gateway.endpoints.versions.handover import Handover
from gateway.scheduling.queue import QueueConditions, ServerNow
from gateway.scheduling.queues import ModelQueues

_OVERTAKEN = 2  # windows of calls with a server, where some that are later were answered first


class ConditionsReader:
    def __init__(
        self,
        registry: EndpointRegistry,
        queues: ModelQueues,
        clouds: Clouds,
        handover: Handover,
        spill: SpillControl,
    ) -> None:
        self._candidates = registry.candidates
        self._states = registry.states
        self._queues = queues
        self._clouds = clouds
        self._handover = handover
        self._siblings = handover.siblings
        self._spill = spill
        self.room_elsewhere: Callable[[str], float] | None = None
        """For a model, what the doors of gateways take that forward their calls to this one; None:
        there are none."""
        self._reported: dict[tuple[str, str], ServerNow] = {}  # the last that was read

    def read(self, model: str, servers: tuple[str, ...]) -> QueueConditions:
        epoch = self._candidates.epoch(model)
        conditions = epoch.conditions.get(servers)
        if conditions is None:
            now = [self._server_now(name, model) for name in servers]
            conditions = QueueConditions(tuple(now), 0.0)
            if epoch.steady and not self._siblings:
                epoch.conditions[servers] = conditions
        if not epoch.cloud_names and self.room_elsewhere is None:
            return conditions
        room = float(self._room(epoch, model))
        if self.room_elsewhere is not None:
            room += self.room_elsewhere(model)
        return QueueConditions(conditions.servers, room)

    def own_cloud_room(self, model: str) -> int:
        """Calls that this gateway's doors to the cloud take now."""
        return self._room(self._candidates.epoch(model), model)

    def _room(self, epoch: ModelEpoch, model: str) -> int:
        clouds = epoch.cloud_names
        if not clouds or self._spill.closed(""):
            return 0
        room = 0
        for name in clouds:
            room += self._clouds.room(name, model)
        return room

    def cloud_capacity(self, model: str) -> dict[str, int]:
        """Calls that each endpoint in the cloud would take now if it had none."""
        closed = bool(self._spill.closed(""))
        names = self._candidates.epoch(model).cloud_names
        return {name: 0 if closed else self._clouds.capacity(name, model) for name in names}

    def _server_now(self, name: str, model: str) -> ServerNow:
        state = self._states[name]
        model_state = state.model_states[model]
        window = self._queues.executions.window(model, name)
        # guard: S2.server-limit -> most = float(_OVERTAKEN * window)
        most = float(min(state.settings.max_in_flight, _OVERTAKEN * window))
        share = model_state.health.slow_start.share()
        if not model_state.breaker.closed:
            most = 1.0  # the probe of a half-open breaker
        elif share < 1.0:
            most = min(most, float(model_state.health.slow_start.limit(window)))
        if self._siblings and (others := self._handover.queued_elsewhere(name, model)):
            most = max(0.0, min(most, float(window)) - others)  # guard: O2.queue-carryover
        up, last = not unavailable_why(state, model_state), self._reported.get((name, model))
        if last is None or last.up is not up or last.most != most:
            last = self._reported[name, model] = ServerNow(name, up, most)
        return last
