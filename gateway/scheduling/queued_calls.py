"""What the scheduler is told of a request, and of the cloud that could answer it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from gateway.core.structs import value
from gateway.core.types import InferenceRequest
from gateway.scheduling.calls import FREELY, NEVER, QueuedCall
from gateway.scheduling.estimates.latency import CloudLatency, Tail
from gateway.scheduling.executions import Executions
from gateway.scheduling.routing.work import CallSize, WorkMeter


@value
class CloudCandidate:
    """A cloud endpoint that a call may go to now."""

    endpoint: str
    price_usd: float


@dataclass(frozen=True, slots=True)
class Weights:
    """What a missed budget costs, and what a step of priority does."""

    miss_penalty_usd: float = 0.05
    restricted_factor: float = 10.0  # of the penalty: it has nowhere else to go
    priority_share: float = 0.8  # of the penalty, for each step
    aging_s: float = 10.0  # further back in the line, for each step

    def penalty_usd(self, request: InferenceRequest, restricted: bool) -> float:
        usd = self.miss_penalty_usd
        if request.priority:
            usd *= self.priority_share**request.priority
        return usd * (self.restricted_factor if restricted else 1.0)


class _Meters(dict[str, WorkMeter]):
    """By model, built at the first request for it."""

    __slots__ = ("_executions",)

    def __init__(self, executions: Executions) -> None:
        self._executions = executions

    def __missing__(self, model: str) -> WorkMeter:
        meter = self[model] = WorkMeter(self._executions.rows(model) > 1)
        return meter


class QueuedCalls:
    """Makes a `QueuedCall` of a request, by the work of its model's calls and the latency of the
    cloud, which it learns."""

    def __init__(
        self, weights: Weights, expected_s: Callable[[str], float], executions: Executions
    ) -> None:
        """`expected_s`: of an endpoint, the service time that its settings expect."""
        self._weights = weights
        self._expected_s = expected_s
        self._meters = _Meters(executions)
        self._latencies: dict[tuple[str, str], CloudLatency] = {}  # by endpoint and model
        self._numbers = itertools.count(1)

    def call(
        self,
        request: InferenceRequest,
        restricted: bool,
        clouds: Iterable[CloudCandidate],
        avoid: frozenset[str] = frozenset(),
    ) -> QueuedCall:
        size = self._meters[request.model].size(request)
        return self.weighed(request, size, restricted, clouds, self._weights, avoid)

    def size(self, request: InferenceRequest) -> CallSize:
        return self._meters[request.model].size(request)

    def weighed(
        self,
        request: InferenceRequest,
        size: CallSize,
        restricted: bool,
        clouds: Iterable[CloudCandidate],
        weights: Weights,
        avoid: frozenset[str] = frozenset(),
    ) -> QueuedCall:
        """A call by these weights. Where it may leave, the cheapest place counts, its chance to be
        late included."""
        penalty, price = weights.penalty_usd(request, restricted), 0.0
        tail: Tail | None = None
        if clouds:
            # guard: D4.restricted-stays -> places = [(c.price_usd, self.tail(c.endpoint,
            #   request.model, size.work)) for c in clouds]
            places = [] if restricted else [
                (c.price_usd, self.tail(c.endpoint, request.model, size.work)) for c in clouds
            ]  # fmt: skip
            if len(places) == 1:
                price, tail = places[0]
            elif places:
                left_s = request.deadline.remaining_s()
                price, tail = min(places, key=lambda p: p[0] + penalty * p[1].late(left_s))
        # guard: S4.queue-priority request.priority * weights.aging_s -> 0.0
        return QueuedCall(
            id=next(self._numbers),  # callers may choose the same ids for theirs
            arrived_s=request.received_s,
            deadline_s=request.deadline.at_s,
            penalty=penalty,
            price=price,
            work=size.work,
            rows=size.rows,
            leave=NEVER if tail is None else FREELY,
            restricted=restricted,
            cloud=tail,
            later_s=request.priority * weights.aging_s,
            avoid=avoid,
        )

    def tail(self, endpoint: str, model: str, work: float) -> Tail:
        """How long that endpoint in the cloud takes for a call of this size."""
        return self._latency(endpoint, model).tail(work)

    def entered(self, model: str, call: QueuedCall) -> None:
        """One more call, by which work is measured from now on."""
        self._meters[model].observe(call.work)

    def cloud_answered(self, endpoint: str, request: InferenceRequest, took_s: float) -> None:
        """Of a model without a queue here nobody ever asks."""
        meter = self._meters.get(request.model)
        if meter is not None:
            self._latency(endpoint, request.model).observe(meter.size(request).work, took_s)

    def measure_anew(self, model: str) -> None:
        """Its batches are others now."""
        self._meters.pop(model, None)

    def take_over(
        self, before: QueuedCalls, servers: Collection[str], models: Collection[str]
    ) -> None:
        """What another version has learnt of these servers in the cloud, and of the calls of these
        models, whose queues both have, holds here too."""
        # guard: O2.version-numbers
        self._numbers = before._numbers  # calls of both stand in the same queues
        for (name, model), latency in before._latencies.items():
            if name in servers:
                self._latencies[name, model] = latency
        for model in models:
            if model in before._meters:
                self._meters[model] = before._meters[model]

    def _latency(self, endpoint: str, model: str) -> CloudLatency:
        latency = self._latencies.get((endpoint, model))
        if latency is None:
            latency = CloudLatency(self._expected_s(endpoint))
            self._latencies[endpoint, model] = latency
        return latency
