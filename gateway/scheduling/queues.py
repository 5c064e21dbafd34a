"""The queues of every model, and what their schedulers are told of a call and of the cloud.

A group is the on-prem servers that may serve a call, mostly all of its model's. It has one queue:
two queues in front of one server do not see each other (docs/explanation/simulation.md).

Where a model's calls end one by one (generation, streams), every call counts as a batch of its own
in one of many instances, and its server makes what batches it likes: one long answer would else
keep the next batch from being sent.

Models on one server share its GPU, where batches are made: their queues tell each other
(`scheduling/sharing.py`), and whose turn it is hears of it here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gateway.core.deadline import Clock
from gateway.core.errors import UnknownModel
from gateway.core.structs import value
from gateway.core.types import InferenceRequest
from gateway.scheduling.calls import FREELY, NEVER, QueuedCall, Scheduling
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import CloudLatency, Tail
from gateway.scheduling.queue import ModelQueue, QueueConditions
from gateway.scheduling.routing.work import CallSize, WorkMeter
from gateway.scheduling.rules.failsafe import Guarded
from gateway.scheduling.servers.sharing import SharedGpu

_FIXED_SHARE = 0.8
"""Of the expected time of a call alone, until batches have been seen: what a batch costs before its
first call. Cautious: it promises little from batching."""
_FIXED_ALONE = 0.2  # the same of calls that end one by one, whose time is in their length
_ALONE = 8  # calls for which their time is fitted once: each of them is a batch of its own
_AHEAD = 2  # batches' worth of calls with a server that makes the batches: the running and the next


@dataclass(frozen=True, slots=True)
class Execution:
    """How a server executes a model's calls."""

    rows: int = 1  # of its largest batch
    instances: int = 1  # batches side by side
    one_by_one: bool = False  # calls end on their own, whatever batch they were in
    shares_gpu: bool = True  # with the other models of its server
    apart: bool = False  # rows of several calls may not share a batch: one call at a time

    @property
    def together(self) -> int:
        """Rows of several calls in one batch."""
        return 1 if self.apart else self.rows


@dataclass(frozen=True, slots=True)
class Prior:
    """What batches of a model took where somebody measured them."""

    fixed_s: float
    per_row_s: float


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


@dataclass(frozen=True, slots=True)
class Layout:
    """What a group's queue has in front of it."""

    rows: int  # of a batch
    alone: bool  # calls end one by one, so each is a batch of its own
    ahead: bool  # the next batch is sent before the last has ended
    instances: Mapping[str, int]  # batches side by side, by server
    shared: tuple[str, ...]  # servers that have a GPU with other models


NewScheduler = Callable[[Mapping[str, BatchModel], int, bool, Mapping[str, SharedGpu]], Scheduling]
"""Of servers, the rows of a batch, whether the next batch is sent before the last has ended, and
the GPUs that have other models as well."""


Key = tuple[str, tuple[str, ...]]
"""A model and its servers."""


class Groups:
    def __init__(
        self,
        weights: Weights,
        new_scheduler: NewScheduler,
        expected_s: Callable[[str], float],
        declared: Callable[[str, str], Execution],
        clock: Clock,
        measured: Callable[[str, str], Prior | None] = lambda model, server: None,
    ) -> None:
        """`expected_s`: of an endpoint, the service time that its settings expect. `declared`: of a
        model and a server, what they say of its execution; `measured`: what its batches took."""
        self._weights = weights
        self._new_scheduler = new_scheduler
        self._expected_s = expected_s
        self._declared = declared
        self.read_conditions: Callable[[str, Sequence[str]], QueueConditions] = _nothing_to_read
        """Of a model and its servers, what these and the cloud take now; set before any call."""
        self._clock = clock
        self._measured = measured
        self._groups: dict[Key, ModelQueue] = {}
        self._gpus: dict[str, SharedGpu] = {}  # by server
        self._on_gpu: dict[str, dict[int, ModelQueue]] = {}  # by their numbers there
        self._passing_on = False
        self._executions: dict[tuple[str, str], Execution] = {}
        self._meters: dict[str, WorkMeter] = {}
        self._clouds: dict[tuple[str, str], CloudLatency] = {}
        self._numbers = itertools.count(1)
        self.changes = 0
        """Times that queues changed: a server told something of itself, or a version before this
        one left its queues."""

    def queue(self, model: str, servers: Sequence[str]) -> ModelQueue:
        key = (model, tuple(servers))
        queue = self._groups.get(key)
        if queue is None:
            queue = self._groups[key] = self._new(key)
        return queue

    def __iter__(self) -> Iterator[tuple[Key, ModelQueue]]:
        return iter(self._groups.items())

    def _new(self, key: Key) -> ModelQueue:
        model, servers = key
        layout = self.layout(key)
        gpus = {name: self._gpus.setdefault(name, SharedGpu()) for name in layout.shared}
        numbers = {name: gpu.vacant for name, gpu in gpus.items()}
        scheduler = self._new_scheduler(
            {name: self._batch_model(model, name, layout.alone) for name in servers},
            layout.rows, layout.ahead, gpus,
        )  # fmt: skip
        for name, instances in layout.instances.items():
            scheduler.grow(name, instances, self._clock())
        group = ModelQueue(
            scheduler, partial(self.read_conditions, model, servers), self._clock,
            acted=self._passing(layout.shared),
        )  # fmt: skip
        for name, number in numbers.items():
            if gpus[name].vacant != number:  # a simple rule takes no part in turns
                self._on_gpu.setdefault(name, {})[number] = group
                group.on_gpus[name] = number
        return group

    def layout(self, key: Key) -> Layout:
        model, servers = key
        alone = self._one_by_one(key)
        executions = {name: self.execution(model, name) for name in servers}
        apart = any(e.apart for e in executions.values())
        # guard: E4.batch-ahead minus 4
        return Layout(
            rows=1 if alone or apart else max(e.rows for e in executions.values()),
            alone=alone,
            ahead=not (alone or apart),
            instances={name: self._side_by_side(model, name, alone) for name in servers},
            shared=() if alone else tuple(n for n, e in executions.items() if e.shares_gpu),
        )

    def batch_model(self, key: Key, server: str) -> BatchModel:
        """What is known of a server's time, as its queue reckons with it."""
        return self.queue(*key).scheduling.servers.model(server)

    def takes_turns(self, server: str) -> bool:
        """Whether its models execute one batch at a time."""
        gpu = self._gpus.get(server)
        return gpu is not None and gpu.turns

    def _passing(self, servers: Collection[str]) -> Callable[[], None] | None:
        return partial(self._pass_on, servers) if servers else None

    def _pass_on(self, servers: Iterable[str]) -> None:
        """Where models of a server take turns, the next one is told."""
        if self._passing_on:
            return
        self._passing_on = True
        try:
            for name in servers:
                on_gpu = self._on_gpu.get(name, {})
                for _ in range(len(on_gpu)):
                    turn = self._gpus[name].whose_turn()
                    if turn is None:
                        break
                    on_gpu[turn].refresh()
        finally:
            self._passing_on = False

    def _batch_model(self, model: str, server: str, alone: bool) -> BatchModel:
        # guard: E2.batch-priors -> prior = self._measured(model, server)
        prior = None if alone else self._measured(model, server)
        if prior is not None:
            return BatchModel(prior.fixed_s, prior.per_row_s)
        expected_s = self._expected_s(server)
        fixed = _FIXED_ALONE if alone else _FIXED_SHARE
        return BatchModel(expected_s * fixed, expected_s * (1 - fixed), _ALONE if alone else 1)

    def _one_by_one(self, key: Key) -> bool:
        model, servers = key
        return any(self.execution(model, name).one_by_one for name in servers)

    def _side_by_side(self, model: str, server: str, alone: bool) -> int:
        execution = self.execution(model, server)
        if execution.apart:  # guard: E4.batch-concurrency
            return 1
        return _AHEAD * execution.rows * execution.instances if alone else execution.instances

    def window(self, model: str, server: str) -> int:
        """Calls that a server has at most: those of the running batches and of the next."""
        execution = self.execution(model, server)
        return 1 if execution.apart else _AHEAD * execution.rows * execution.instances

    def execution(self, model: str, server: str) -> Execution:
        execution = self._executions.get((model, server))
        if execution is None:
            execution = self._executions[model, server] = self._declared(model, server)
        return execution

    def learn(self, model: str, server: str, learned: Execution) -> None:
        """What a server says of itself; what was declared may say more. Where its calls turn out to
        end one by one, or may not share batches, those that come from now on have a new queue; else
        queues grow, and never shrink."""
        before = self.execution(model, server)
        execution = Execution(
            max(before.rows, learned.rows),
            max(before.instances, learned.instances),
            before.one_by_one or learned.one_by_one,
            before.shares_gpu,
            learned.apart,
        )
        if before == execution:
            return
        self._executions[model, server] = execution
        self.changes += 1
        self._meters.pop(model, None)
        for key in [k for k in self._groups if k[0] == model and server in k[1]]:
            if before.one_by_one != execution.one_by_one or before.apart != execution.apart:
                del self._groups[key]
            else:
                self._widen(key)

    def _widen(self, key: Key) -> None:
        model, servers = key
        group, alone = self._groups[key], self._one_by_one(key)
        if not alone:
            rows = self.layout(key).rows
            limits = group.scheduling.limits
            limits.max_batch = max(limits.max_batch, rows)
        for name in servers:
            group.grow(name, self._side_by_side(model, name, alone))

    def shun(self, model: str, server: str) -> None:
        for (name, servers), group in tuple(self._groups.items()):
            if name == model and server in servers:
                group.shun(server)

    def in_flight(self, model: str, server: str) -> int:
        return sum(
            group.scheduling.servers.in_flight(server)
            for (name, servers), group in self._groups.items()
            if name == model and server in servers
        )

    def report(self) -> list[dict[str, object]]:
        """For /status: every queue, and what is known of its servers' batches."""
        return [
            {
                "model": model,
                "waiting": group.waiting,
                **_mode(group.scheduling, self._clock()),
                "servers": {
                    name: _batches(group.scheduling, name) | self._sharing(name) for name in servers
                },
            }
            for (model, servers), group in self._groups.items()
        ]

    def shared_gpus(self) -> Iterator[tuple[str, SharedGpu]]:
        """Those that have several models, by their server."""
        return ((name, gpu) for name, gpu in self._gpus.items() if gpu.shared)

    def _sharing(self, server: str) -> dict[str, object]:
        gpu = self._gpus.get(server)
        if gpu is None or not gpu.shared:
            return {}
        value = gpu.contention.value
        return {"contention": None if value is None else round(value, 3), "turns": gpu.turns}

    def call(
        self,
        request: InferenceRequest,
        restricted: bool,
        clouds: Iterable[CloudCandidate],
        avoid: frozenset[str] = frozenset(),
    ) -> QueuedCall:
        return self.reported(request, self.size(request), restricted, clouds, self._weights, avoid)

    def size(self, request: InferenceRequest) -> CallSize:
        meter = self._meters.get(request.model) or self._meter(request.model)
        return meter.size(request)

    def reported(
        self,
        request: InferenceRequest,
        size: CallSize,
        restricted: bool,
        clouds: Iterable[CloudCandidate],
        weights: Weights,
        avoid: frozenset[str] = frozenset(),
    ) -> QueuedCall:
        """What the scheduler is told of a request. Where it may leave, the cheapest place counts,
        its chance to be late included."""
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
        return self._cloud(endpoint, model).tail(work)

    def _meter(self, model: str) -> WorkMeter:
        meter = self._meters.get(model)
        if meter is None:
            rows = (e.rows for (name, _), e in self._executions.items() if name == model)
            meter = self._meters[model] = WorkMeter(max(rows, default=1) > 1)
        return meter

    def entered(self, model: str, call: QueuedCall) -> None:
        """One more call, by which work is measured from now on."""
        self._meter(model).observe(call.work)

    def cloud_answered(self, endpoint: str, request: InferenceRequest, took_s: float) -> None:
        """Of a model without a queue here nobody ever asks."""
        meter = self._meters.get(request.model)
        if meter is not None:
            model = request.model
            cloud = self._clouds.get((endpoint, model)) or self._cloud(endpoint, model)
            cloud.observe(meter.estimate(request), took_s)

    def _cloud(self, endpoint: str, model: str) -> CloudLatency:
        latency = self._clouds.get((endpoint, model))
        if latency is None:
            latency = self._clouds[endpoint, model] = CloudLatency(self._expected_s(endpoint))
        return latency

    def take_over(self, before: Groups, servers: Collection[str], models: Collection[str]) -> None:
        """From now on what is known of these servers is known here too, and the queues of these
        models are ours, with all who wait there, where they would be made alike."""
        for name in servers:
            if name in before._gpus:
                self._gpus[name] = before._gpus[name]
                self._on_gpu[name] = before._on_gpu.setdefault(name, {})
        # guard: O2.version-numbers
        self._numbers = before._numbers  # calls of both stand in the same queues
        previous, self._executions = self._executions, {}
        for (model, name), execution in before._executions.items():
            if name in servers and self._alike(before, model, name):
                self._executions[model, name] = execution
        for (name, model), latency in before._clouds.items():
            if name in servers:
                self._clouds[name, model] = latency
        for key, group in before._groups.items():
            if key[0] in models and all((key[0], name) in self._executions for name in key[1]):
                self._adopt(key, group)  # guard: O2.same-queue
                if key[0] in before._meters:
                    self._meters[key[0]] = before._meters[key[0]]
        for (model, name), execution in previous.items():
            self.learn(model, name, execution)
        self.changes += 1

    def _alike(self, before: Groups, model: str, server: str) -> bool:
        return self._known(model, server) == before._known(model, server) is not None

    def _known(self, model: str, server: str) -> Execution | None:
        """What is declared; None where the settings have no such model."""
        try:
            return self._declared(model, server)
        except UnknownModel:
            return None

    def _adopt(self, key: Key, group: ModelQueue) -> None:
        model, servers = key
        self._groups[key] = group
        group.belongs_to(
            partial(self.read_conditions, model, servers), self._passing([*group.on_gpus])
        )

    def close(self, others: Sequence[Groups] = ()) -> None:
        """All that none of the others has, too; the last of them with a queue looks after it."""
        for key, group in self._groups.items():
            keepers = [other for other in others if other._groups.get(key) is group]
            if keepers:
                keepers[-1]._adopt(key, group)
                continue
            group.close()
            for name, number in group.on_gpus.items():
                self._gpus[name].leave(number)  # guard: O2.gpu-departure
                self._on_gpu[name].pop(number, None)
            group.on_gpus.clear()


def _nothing_to_read(model: str, servers: Sequence[str]) -> QueueConditions:
    raise AssertionError("the queues are not put together yet")


def _mode(scheduling: Scheduling, now_s: float) -> dict[str, object]:
    """Whether a simple rule decides; nothing of one that the settings name."""
    return {"scheduler": scheduling.report(now_s)} if isinstance(scheduling, Guarded) else {}


def _batches(scheduling: Scheduling, server: str) -> dict[str, object]:
    model = scheduling.servers.model(server)
    error = model.error
    return {
        "in_flight": scheduling.servers.in_flight(server),
        "batches": error.batches,
        "fixed_s": round(model.fixed_s, 6),
        "per_work_s": round(model.per_work_s, 6),
        "error": round(error.mean, 4) if error.batches else None,
        "absolute_error": round(error.absolute, 4) if error.batches else None,
    }
