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
from gateway.endpoints.candidates import Candidate, ModelEpoch, Plan
from gateway.endpoints.cloud_capacity import Clouds
from gateway.endpoints.recovery import sure_s
from gateway.endpoints.registry import EndpointRegistry
from gateway.endpoints.state import refused_why
from gateway.scheduling.queue import ModelQueue
from gateway.scheduling.queues import ModelQueues
from gateway.scheduling.routing.policy import Policy


@value
class Figures:
    """A `Forecast`: what ranks an endpoint among those that may serve a call."""

    endpoint: Endpoint
    price_usd: float
    predicted_s: float
    p50_s: float
    waiting: int = 0  # counts in the cloud alone, where calls do not queue


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
        self._calls = queues.calls
        self._executions = queues.executions
        self._clouds = clouds
        self._spill = spill
        self._clock = clock

    def decide(
        self, request: InferenceRequest, classification: Classification, policy: Policy
    ) -> Decision:
        """What the policy makes of the states of now. Raises what it does. Where the call may go
        is computed once in an epoch of its model, for all calls of its shape."""
        epoch = self._candidates.epoch(request.model)
        if epoch.steady and not epoch.special(request):
            if epoch.policy is not policy:
                epoch.policy = policy
                epoch.plans.clear()
            shape = (request.payload.operation, request.zones, classification.admitted)
            plan = epoch.plans.get(shape)
            if plan is None:
                plan = epoch.plans[shape] = self._plan(epoch, request, classification, policy)
            if plan.eligible.attempts and (not plan.clouds or self._open(plan, request)):
                return self._placed(epoch, plan, request, policy)
        return policy.decide(request, classification, self.snapshot(request))

    def _plan(
        self,
        epoch: ModelEpoch,
        request: InferenceRequest,
        classification: Classification,
        policy: Policy,
    ) -> Plan:
        """For calls of this shape, were every endpoint idle and the cloud open."""
        idle = [replace(state, room=True) for state in self._snapshot(request, closed="")]
        eligible = policy.eligible(request, classification, idle)
        clouds = tuple([epoch.all[number].name for number in eligible.cloud])
        return Plan(eligible, clouds, self._queue(epoch, request))

    def _open(self, plan: Plan, request: InferenceRequest) -> bool:
        """Whether the cloud takes the call, wherever it may go there."""
        if self._spill.closed(request.tenant):  # guard: S5.cloud-closed
            return False
        return all([self._clouds.takes_another(name, request.model) for name in plan.clouds])

    def _placed(
        self, epoch: ModelEpoch, plan: Plan, request: InferenceRequest, policy: Policy
    ) -> Decision:
        eligible, figures = plan.eligible, []
        predicted_s: dict[str, float] = {}
        queued_s: float | None = None
        for candidate in epoch.all:
            times = candidate.model_state.times
            if not candidate.onprem:
                s = times.slow_s
            elif queued_s is not None:
                s = queued_s
            else:
                s = queued_s = self._queued_s(plan.queue, request, times.usual_s)
            predicted_s[candidate.name] = round(s, 6)
            if len(eligible.attempts) > 1:
                figures.append(Figures(candidate.endpoint, candidate.price_usd, s, times.usual_s))
        return policy.place(request, eligible, predicted_s, figures)

    def snapshot(self, request: InferenceRequest) -> tuple[EndpointSnapshot, ...]:
        """The state of every endpoint that may serve the request's model."""
        return self._snapshot(request, self._spill.closed(request.tenant))

    def _snapshot(self, request: InferenceRequest, closed: str) -> tuple[EndpointSnapshot, ...]:
        """`closed`: why no call of its tenant may leave; empty when one may."""
        model, now_s = request.model, self._clock()
        queued_s: float | None = None
        snapshots = []
        epoch = self._candidates.epoch(model)
        queue = self._queue(epoch, request)
        for candidate in epoch.all:
            state, model_state = candidate.state, candidate.model_state
            times = model_state.times
            if model_state.suspects:
                model_state.suspects.forget_old()
            # guard: B2.cloud-only-closure -> why = refused_why(state, model_state, request.tenant)
            #   or self._spill.closed(request.tenant)
            why = refused_why(state, model_state, request.tenant)
            if candidate.onprem:
                if queued_s is None:
                    queued_s = self._queued_s(queue, request, times.usual_s)
                predicted_s = queued_s
                waiting = 0 if queue is None else queue.waiting
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

    def _queue(self, epoch: ModelEpoch, request: InferenceRequest) -> ModelQueue | None:
        """That of all servers that may serve the call."""
        servers = epoch.server_group(request)
        return self._queues.queue(request.model, servers) if servers else None

    def _queued_s(
        self, queue: ModelQueue | None, request: InferenceRequest, usual_s: float
    ) -> float:
        """Seconds to the whole answer were the call queued now. `usual_s`: where there is no queue
        for it."""
        if queue is None:
            return usual_s
        size = self._calls.size(request)
        return queue.scheduling.completion_s(size, request.deadline.at_s, self._clock())


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
