"""The frozen view of the endpoints that the policy decides on, and the decision that it makes."""

from __future__ import annotations

from gateway.accounting.spill import SpillControl
from gateway.core.deadline import Clock
from gateway.core.types import (
    Classification,
    Decision,
    EndpointSnapshot,
    InferenceRequest,
)
from gateway.endpoints.candidates import Candidate
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.recovery import sure_s
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import refused_why
from gateway.scheduling.queues import ModelQueues
from gateway.scheduling.routing.policy import Policy


class Snapshots:
    def __init__(
        self,
        registry: EndpointRegistry,
        queues: ModelQueues,
        clouds: Clouds,
        spill: SpillControl,
        clock: Clock,
    ) -> None:
        self._candidates = registry.candidates
        self._queues = queues
        self._executions = queues.executions
        self._clouds = clouds
        self._spill = spill
        self._clock = clock

    def decide(
        self, request: InferenceRequest, classification: Classification, policy: Policy
    ) -> Decision:
        """What the policy makes of the states of now. Raises what it does."""
        snapshots = self.snapshot(request, classification.restricted)
        return policy.decide(request, classification, snapshots)

    def snapshot(self, request: InferenceRequest, restricted: bool) -> tuple[EndpointSnapshot, ...]:
        """The state of every endpoint that may serve the request's model."""
        model, now_s = request.model, self._clock()
        onprem: tuple[float, int] | None = None  # its predicted seconds, and how many wait
        closed: str | None = None
        snapshots = []
        candidates = self._candidates.for_model(model)
        for candidate in candidates.all:
            state, model_state = candidate.state, candidate.model_state
            times = model_state.times
            if model_state.suspects:
                model_state.suspects.forget_old()
            # guard: B2.cloud-only-closure -> why = refused_why(state, model_state, request.tenant)
            #   or self._spill.closed(request.tenant)
            why = refused_why(state, model_state, request.tenant)
            if candidate.onprem:
                if onprem is None:  # all of them have one queue
                    servers = candidates.server_group(request)
                    onprem = (
                        self._queued(request, servers, now_s) if servers else (times.usual_s, 0)
                    )
                predicted_s, waiting = onprem
                room, batch = (
                    True,
                    self._executions.execution(model, candidate.name).together,
                )
            else:
                if closed is None:
                    closed = self._spill.closed(request.tenant)
                why = why or closed  # guard: S5.cloud-closed
                predicted_s = times.slow_s
                room = self._clouds.takes_another(candidate.name, model)
                waiting, batch = 0, 1
            # guard: S3.stale-notice state.statistics is not None and state.statistics.stale ->
            #   False
            # guard: S3.own-count model_state.in_flight -> 0
            snapshots.append(EndpointSnapshot(
                endpoint=candidate.endpoint,
                served=candidate.served,
                available=not why,
                unavailable_why=why,
                predicted_s=predicted_s,
                p50_s=times.usual_s,
                waiting=waiting,
                in_flight=model_state.in_flight,
                batch=batch,
                room=room,
                cold=times.cold_at(now_s),
                slow=model_state.health.slow_since_s is not None,
                back_in_s=_back_in_s(candidate, request.tenant) if why else None,
                stale=state.statistics is not None and state.statistics.stale,
                price_usd=candidate.price_usd,
            ))  # fmt: skip
        return tuple(snapshots)

    def _queued(
        self, request: InferenceRequest, servers: tuple[str, ...], now_s: float
    ) -> tuple[float, int]:
        """Seconds to the whole answer were the call queued now, and how many calls wait there."""
        queue, size = self._queues.queue(request.model, servers), self._queues.calls.size(request)
        onprem_s = queue.scheduling.completion_s(size, request.deadline.at_s, now_s)
        return onprem_s, queue.waiting


def _back_in_s(candidate: Candidate, tenant: str) -> float | None:
    """When an endpoint that refuses the call is expected to take it; None: nobody knows."""
    state, model_state = candidate.state, candidate.model_state
    back_in_s = state.back_in_s()
    if back_in_s or model_state.breaker.open_until_s:
        out_s = model_state.health.out_for_s() if state.up else None
        return sure_s(back_in_s or out_s)
    if model_state.suspects.suspended:
        out_s = model_state.suspects.out_for_s(tenant)
        return sure_s(out_s) if out_s else None
    return back_in_s
