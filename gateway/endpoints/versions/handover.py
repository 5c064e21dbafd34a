"""The hand-over from one version of the settings to the next: nothing is lost, or had twice.

The calls of a version go on when the next one serves. Both use the same servers: where an endpoint
stayed the same they have its state in common, and where only the server did, its calls are counted
together (S2).
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.core.types import endpoint_name
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.registry import EndpointRegistry
from gateway.scheduling.queues import ModelQueues


class Handover:
    def __init__(self, registry: EndpointRegistry, queues: ModelQueues, clouds: Clouds) -> None:
        self._registry = registry
        self._queues = queues
        self._clouds = clouds
        self.siblings: list[Handover] = []
        """The other versions whose calls have not ended."""
        clouds.siblings, clouds.elsewhere = self.siblings, self.calls_elsewhere

    def follow(self, before: Handover, same_queues: bool) -> None:
        """Take the place of a version whose calls go on."""
        states, states_before = self._registry.states, before._registry.states
        for name, state in states.items():
            was = states_before.get(name) or states_before.get(endpoint_name(name))
            if was is not None and was is not state:
                state.drained = was.drained  # guard: O2.drain-carryover
        both = frozenset(n for n, state in states.items() if states_before.get(n) is state)
        self._registry.make_model_states(both)
        models = frozenset(
            m for m in self._registry.catalog.models
            if self._servers(m) == before._servers(m) and both.issuperset(self._servers(m))
        )  # fmt: skip
        self._queues.take_over(before._queues, both, models if same_queues else frozenset())
        self._clouds.line = before._clouds.line
        self.siblings[:] = [before, *before.siblings]
        for other in self.siblings:
            other.siblings.append(self)
            other._registry.candidates.end_epochs()  # guard: S11.versions-change

    def part(self) -> None:
        """No call of this version is left."""
        for other in self.siblings:
            other.siblings.remove(self)
        self.siblings.clear()
        self._registry.candidates.end_epochs()  # or states that live on would hold them

    def _servers(self, model: str) -> tuple[str, ...]:
        """The on-prem servers of a model; none where the settings have no such model."""
        model_settings = self._registry.catalog.models.get(model)
        names = () if model_settings is None else model_settings.endpoints
        states = self._registry.states
        return tuple(n for n in names if states[n].settings.zone.onprem)

    def calls_elsewhere(self, name: str) -> int:
        """Calls of other versions with the server of an endpoint, where its state is not ours."""
        if not self.siblings:
            return 0
        states = self._registry.states
        address = states[name].address(name)
        own = {id(state) for state in states.values()}
        others = {
            id(state): state.in_flight
            for sibling in self.siblings
            for n, state in sibling._registry.states.items()
            if id(state) not in own and state.address(n) == address
        }
        return sum(others.values())

    def queued_elsewhere(self, name: str, model: str) -> int:
        """Calls that queues which are not ours have with the same model of the same server."""
        known = {id(queue) for _, queue in self._queues}
        executed, count = self._executed(name, model), 0
        for sibling in self.siblings:
            for (its_model, servers), queue in sibling._queues:
                if id(queue) in known:
                    continue
                known.add(id(queue))
                same = (n for n in servers if sibling._executed(n, its_model) == executed)
                count += sum(queue.scheduling.servers.in_flight(n) for n in same)
        return count

    def _executed(self, name: str, model: str) -> tuple[str, str]:
        """The address of a server, and the model's name there."""
        served = self._registry.catalog.endpoints[name].models.get(model)
        address = self._registry.states[name].address(name)
        return address, model if served is None else served.model

    async def aclose(self, others: Sequence[Handover] | None = None) -> None:
        """Close all but what the others, which live on, have too: unless given, the siblings. A
        version that never followed shares states with them all the same."""
        others = tuple(self.siblings) if others is None else others
        self.part()
        self._queues.close([other._queues for other in others])
        shared = {id(state) for other in others for state in other._registry.states.values()}
        for state in self._registry.states.values():
            if id(state) not in shared:  # guard: O2.shared-connections always
                await state.connector.aclose()
