"""The frozen view of the endpoints that the policy decides on, and the decision that it makes."""

from __future__ import annotations

from dataclasses import replace

from gateway.accounting.spill import SpillControl
from gateway.core.deadline import Clock
from gateway.core.structs import value
from gateway.core.types import (
    Classification,
    Decision,
    Endpoint,
    EndpointSnapshot,
    InferenceRequest,
)
from gateway.endpoints.candidates import Candidate, ModelEpoch
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.recovery import sure_s
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import refused_why
from gateway.scheduling.queues import ModelQueues
from gateway.scheduling.routing.policy import Eligible, Policy


@value
class Figures:
    """A `Forecast`: all that is read of an endpoint when a call is placed of which the rest is
    known."""

    endpoint: Endpoint
    price_usd: float
    predicted_s: float
    p50_s: float
    waiting: int
    room: bool


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
        """What the policy makes of the states of now. Raises what it does. Where the call may go
        is found out once in an epoch of its model, for all calls of its shape."""
        epoch = self._candidates.epoch(request.model)
        shape = epoch.shape(request, classification.restricted) if epoch.steady else None
        if shape is not None:
            if epoch.policy is not policy:
                epoch.policy = policy
                epoch.eligible.clear()
            eligible = epoch.eligible.get(shape)
            if eligible is None:
                eligible = epoch.eligible[shape] = self._eligible(request, classification, policy)
            # guard: S5.cloud-closed always
            if not (eligible.cloud and self._spill.closed(request.tenant)):
                figures = self._figures(epoch, request)
                decision = policy.place(request, classification, eligible, figures)
                if decision is not None:
                    return decision
        return policy.decide(request, classification, self.snapshot(request))

    def _eligible(
        self, request: InferenceRequest, classification: Classification, policy: Policy
    ) -> Eligible:
        """Were every endpoint idle, and the cloud open."""
        idle = [replace(state, room=True) for state in self._snapshot(request, closed="")]
        return policy.eligible(request, classification, idle)

    def _figures(self, epoch: ModelEpoch, request: InferenceRequest) -> list[Figures]:
        queued: tuple[float, int] | None = None
        figures = []
        for candidate in epoch.all:
            times = candidate.model_state.times
            if candidate.onprem:
                if queued is None:
                    queued = self._queued(epoch, request, times.usual_s)
                predicted_s, waiting = queued
                room = True
            else:
                predicted_s, waiting = times.slow_s, 0
                room = self._clouds.takes_another(candidate.name, request.model)
            figures.append(
                Figures(
                    candidate.endpoint, candidate.price_usd, predicted_s, times.usual_s, waiting,
                    room,
                )
            )  # fmt: skip
        return figures

    def snapshot(self, request: InferenceRequest) -> tuple[EndpointSnapshot, ...]:
        """The state of every endpoint that may serve the request's model."""
        return self._snapshot(request, self._spill.closed(request.tenant))

    def _snapshot(self, request: InferenceRequest, closed: str) -> tuple[EndpointSnapshot, ...]:
        """`closed`: why no call of its tenant may leave; empty when one may."""
        model, now_s = request.model, self._clock()
        queued: tuple[float, int] | None = None
        snapshots = []
        epoch = self._candidates.epoch(model)
        for candidate in epoch.all:
            state, model_state = candidate.state, candidate.model_state
            times = model_state.times
            if model_state.suspects:
                model_state.suspects.forget_old()
            # guard: B2.cloud-only-closure -> why = refused_why(state, model_state, request.tenant)
            #   or self._spill.closed(request.tenant)
            why = refused_why(state, model_state, request.tenant)
            if candidate.onprem:
                if queued is None:
                    queued = self._queued(epoch, request, times.usual_s)
                predicted_s, waiting = queued
                room, batch = (
                    True,
                    self._executions.execution(model, candidate.name).together,
                )
            else:
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
        self, epoch: ModelEpoch, request: InferenceRequest, usual_s: float
    ) -> tuple[float, int]:
        """Seconds to the whole answer were the call queued now, and how many calls wait there: all
        servers have one queue. `usual_s`: where there is none for the call."""
        servers = epoch.server_group(request)
        if not servers:
            return usual_s, 0
        queue, size = self._queues.queue(request.model, servers), self._queues.calls.size(request)
        onprem_s = queue.scheduling.completion_s(size, request.deadline.at_s, self._clock())
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
