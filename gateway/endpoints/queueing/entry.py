"""A call's entry in the queue of its model: what the scheduler sees of it, and its turn."""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Sequence
from typing import Any, Final

from gateway.accounting.metrics import Metrics
from gateway.core.types import (
    CLOUD,
    Decision,
    Endpoint,
    InferenceRequest,
    Zone,
)
from gateway.endpoints.registry import EndpointRegistry
from gateway.scheduling.calls import QueuedCall, SpillNow
from gateway.scheduling.queue import Grant, refusal
from gateway.scheduling.queued_calls import CloudCandidate
from gateway.scheduling.queues import ModelQueues
from gateway.scheduling.routing.policy import leaving, slow_ones

_NONE: Final[frozenset[str]] = frozenset()


class QueueEntry:
    def __init__(self, registry: EndpointRegistry, queues: ModelQueues, metrics: Metrics) -> None:
        self._candidates = registry.candidates
        self._queues = queues
        self._calls = queues.calls
        self._metrics = metrics

    def call(
        self, request: InferenceRequest, restricted: bool, clouds: Collection[Endpoint],
        avoid: frozenset[str] = frozenset(),
    ) -> QueuedCall:  # fmt: skip
        candidates = () if restricted else self._cloud_candidates(request.model, clouds)
        return self._calls.call(request, restricted, candidates, avoid)

    def _cloud_candidates(
        self, model: str, clouds: Collection[Endpoint]
    ) -> Sequence[CloudCandidate]:
        if not clouds:
            return ()
        prices_usd = self._candidates.epoch(model).prices_usd
        return [CloudCandidate(endpoint.name, prices_usd[endpoint.name]) for endpoint in clouds]

    async def enter(
        self, request: InferenceRequest, call: QueuedCall, servers: tuple[str, ...]
    ) -> Grant:
        """A turn at one of the servers. Raises what `ModelQueue.enter` does."""
        self._calls.entered(request.model, call)
        grant = await self._queues.queue(request.model, servers).enter(call, request.deadline)
        self._observe(grant, request.model)
        return grant

    def ask(
        self, request: InferenceRequest, restricted: bool, decision: Decision
    ) -> Grant | Coroutine[Any, Any, Grant]:
        """The same for a call that was decided on in this step, whose turn may be there at once;
        else what waits for it, to be awaited. Raises NoServer."""
        model, attempts = request.model, decision.attempts
        clouds: Sequence[Endpoint] = ()
        if len(attempts) > 1 and not restricted:
            clouds = [endpoint for endpoint in attempts if endpoint.zone is CLOUD]
        avoid = slow_ones(decision) if decision.vetoes else _NONE
        call = self._calls.call(request, restricted, self._cloud_candidates(model, clouds), avoid)
        servers = self._candidates.server_group(request)
        grant = self._queues.queue(model, servers).ask(call, request.deadline)
        self._calls.entered(model, call)
        if isinstance(grant, Grant):
            self._observe(grant, model)
            return grant
        return self._wait(grant, model)

    async def _wait(self, waiting: Coroutine[Any, Any, Grant], model: str) -> Grant:
        grant = await waiting
        self._observe(grant, model)
        return grant

    def _observe(self, grant: Grant, model: str) -> None:
        self._metrics.queued_seconds.labels(grant.server, model).observe(grant.queued_s)

    def foresee(self, request: InferenceRequest, restricted: bool, decision: Decision) -> Decision:
        """What the queue would make of a decision at once, were the call sent now. Raises what
        the call would be refused with."""
        if decision.attempts[0].zone is not Zone.ONPREM:
            return decision
        clouds = [e for e in decision.attempts if e.zone is Zone.CLOUD]
        call = self.call(request, restricted, clouds, slow_ones(decision))
        servers = self._candidates.server_group(request)
        action = self._queues.queue(request.model, servers).would(call)
        if action is None:
            return decision
        if isinstance(action, SpillNow):
            return leaving(decision, action.why)
        raise refusal(action)
