"""A call's entry in the queue of its model: what the scheduler sees of it, and its turn."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gateway.accounting.metrics import Metrics
from gateway.core.types import Decision, Endpoint, InferenceRequest
from gateway.endpoints.registry import EndpointRegistry
from gateway.scheduling.calls import QueuedCall, SpillNow
from gateway.scheduling.queue import Grant, refusal
from gateway.scheduling.queued_calls import CloudCandidate
from gateway.scheduling.queues import ModelQueues
from gateway.scheduling.routing.policy import avoided, leaving


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
        candidates: Sequence[CloudCandidate] = ()
        if clouds and not restricted:
            prices_usd = self._candidates.epoch(request.model).prices_usd
            candidates = [CloudCandidate(cloud.name, prices_usd[cloud.name]) for cloud in clouds]
        return self._calls.call(request, restricted, candidates, avoid)

    async def enter(
        self, request: InferenceRequest, call: QueuedCall, servers: tuple[str, ...]
    ) -> Grant:
        """A turn at one of the servers. Raises what `ModelQueue.enter` does."""
        model = request.model
        self._calls.entered(model, call)
        grant = await self._queues.queue(model, servers).enter(call, request.deadline)
        self._metrics.queued_seconds.labels(grant.server, model).observe(grant.queued_s)
        return grant

    def foresee(self, request: InferenceRequest, restricted: bool, decision: Decision) -> Decision:
        """What the queue would make of a decision at once, were the call sent now. Raises what
        the call would be refused with."""
        if not decision.attempts[0].zone.onprem:
            return decision
        clouds = [e for e in decision.attempts if not e.zone.onprem]
        call = self.call(request, restricted, clouds, avoided(decision))
        servers = self._candidates.server_group(request)
        action = self._queues.queue(request.model, servers).would(call)
        if action is None:
            return decision
        if isinstance(action, SpillNow):
            return leaving(decision, action.why)
        raise refusal(action)
