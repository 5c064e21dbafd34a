"""What a queue reads when it decides: how much each of its servers takes now, and the cloud."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.accounting.spill import SpillControl
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import unavailable_why
from gateway.endpoints.versions.handover import Handover
from gateway.scheduling.queue import QueueConditions, ServerNow
from gateway.scheduling.queues import ModelQueues

_OVERTAKEN = 2  # windows of calls with a server, where some that are later were answered first


class _Usual:
    """The conditions of a server that is well, while all that they are made of stays the same."""

    __slots__ = ("revision", "server")

    def __init__(self, server: ServerNow, revision: int) -> None:
        self.server, self.revision = server, revision


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
        self.room_elsewhere: Callable[[str], float] = lambda model: 0
        """For a model, what the doors of gateways take that forward their calls to this one."""
        self._reported: dict[tuple[str, str], ServerNow] = {}  # the last that was read
        self._usual: dict[tuple[str, str], _Usual] = {}

    def read(self, model: str, servers: Sequence[str]) -> QueueConditions:
        now = []
        for name in servers:
            now.append(self._server_now(name, model))
        return QueueConditions(now, self.own_cloud_room(model) + self.room_elsewhere(model))

    def own_cloud_room(self, model: str) -> int:
        """Calls that this gateway's doors to the cloud take now."""
        clouds = self._candidates.for_model(model).cloud_names
        if not clouds or self._spill.closed(""):
            return 0
        room = 0
        for name in clouds:
            room += self._clouds.room(name, model)
        return room

    def cloud_capacity(self, model: str) -> dict[str, int]:
        """Calls that each endpoint in the cloud would take now if it had none."""
        closed = bool(self._spill.closed(""))
        names = self._candidates.for_model(model).cloud_names
        return {name: 0 if closed else self._clouds.capacity(name, model) for name in names}

    def _server_now(self, name: str, model: str) -> ServerNow:
        state, changes = self._states[name], self._queues.changes
        model_state, usual = state.model_states[model], self._usual.get((name, model))
        well = (
            state.up
            and not state.drained
            and not model_state.breaker.open_until_s
            and not model_state.health.slow_start.going
            and not self._siblings
        )
        if well and usual is not None and usual.revision == changes:
            return usual.server
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
        if well:
            self._usual[name, model] = _Usual(last, changes)
        return last
