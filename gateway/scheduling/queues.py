"""The queues of every model.

A queue stands in front of the on-prem servers that may serve a call, mostly all of its model's: two
queues in front of one server would not see each other (docs/explanation/simulation.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gateway.core.deadline import Clock
from gateway.scheduling.calls import Scheduling
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.executions import Execution, Executions, Key
from gateway.scheduling.gpu_turns import GpuTurns
from gateway.scheduling.queue import ModelQueue, QueueConditions
from gateway.scheduling.queued_calls import QueuedCalls, Weights
from gateway.scheduling.rules.failsafe import Guarded
from gateway.scheduling.servers.sharing import SharedGpu

_FIXED_SHARE = 0.8
"""Of the expected time of a call alone, until batches have been seen: what a batch costs before its
first call. Cautious: it promises little from batching."""
_FIXED_ALONE = 0.2  # the same of calls that end one by one, whose time is in their length
_ALONE = 8  # calls for which their time is fitted once: each of them is a batch of its own


@dataclass(frozen=True, slots=True)
class Prior:
    """What batches of a model took where somebody measured them."""

    fixed_s: float
    per_row_s: float


NewScheduler = Callable[[Mapping[str, BatchModel], int, bool, Mapping[str, SharedGpu]], Scheduling]
"""Of servers, the rows of a batch, whether the next batch is sent before the last has ended, and
the GPUs that have other models as well."""


class ModelQueues:
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
        self.executions = Executions(declared)
        self.calls = QueuedCalls(weights, expected_s, self.executions)
        self.gpus = GpuTurns()
        self._new_scheduler = new_scheduler
        self._expected_s = expected_s
        self.read_conditions: Callable[[str, tuple[str, ...]], QueueConditions] = _nothing_to_read
        """Of a model and its servers, what these and the cloud take now; set before any call."""
        self._clock = clock
        self._measured = measured
        self._queues: dict[Key, ModelQueue] = {}
        self.changes = 0
        """Times that queues changed: a server told something of itself, or a version before this
        one left its queues."""
        self.changed: Callable[[], None] = lambda: None
        """Called each of these times."""

    def queue(self, model: str, servers: tuple[str, ...]) -> ModelQueue:
        key = (model, servers)
        return self._queues.get(key) or self._new(key)

    def __iter__(self) -> Iterator[tuple[Key, ModelQueue]]:
        return iter(self._queues.items())

    def _new(self, key: Key) -> ModelQueue:
        model, servers = key
        layout = self.executions.layout(key)
        gpus = self.gpus.gpus(layout.shared)
        numbers = {name: gpu.vacant for name, gpu in gpus.items()}
        scheduler = self._new_scheduler(
            {name: self._batch_model(model, name, layout.alone) for name in servers},
            layout.rows, layout.ahead, gpus,
        )  # fmt: skip
        for name, instances in layout.instances.items():
            scheduler.grow(name, instances, self._clock())
        queue = self._queues[key] = ModelQueue(
            scheduler, partial(self.read_conditions, model, servers), self._clock,
            acted=self.gpus.passing(layout.shared),
        )  # fmt: skip
        self.gpus.join(queue, numbers)
        return queue

    def batch_model(self, key: Key, server: str) -> BatchModel:
        """What is known of a server's time, as its queue reckons with it."""
        return self.queue(*key).scheduling.servers.model(server)

    def _batch_model(self, model: str, server: str, alone: bool) -> BatchModel:
        # guard: E2.batch-priors -> prior = self._measured(model, server)
        prior = None if alone else self._measured(model, server)
        if prior is not None:
            return BatchModel(prior.fixed_s, prior.per_row_s)
        expected_s = self._expected_s(server)
        fixed = _FIXED_ALONE if alone else _FIXED_SHARE
        return BatchModel(expected_s * fixed, expected_s * (1 - fixed), _ALONE if alone else 1)

    def learn(self, model: str, server: str, learned: Execution) -> None:
        """What a server says of itself. Where its calls turn out to end one by one, or may not
        share batches, those that come from now on have a new queue; else queues grow, and never
        shrink."""
        before, execution = self.executions.learn(model, server, learned)
        if before == execution:
            return
        self._count_change()
        self.calls.measure_anew(model)
        for key in [k for k in self._queues if k[0] == model and server in k[1]]:
            if before.one_by_one != execution.one_by_one or before.apart != execution.apart:
                del self._queues[key]
            else:
                self._widen(key)

    def _widen(self, key: Key) -> None:
        queue, layout = self._queues[key], self.executions.layout(key)
        if not layout.alone:
            limits = queue.scheduling.limits
            limits.max_batch = max(limits.max_batch, layout.rows)
        for name, instances in layout.instances.items():
            queue.decide(partial(queue.scheduling.grow, name, instances))

    def shun(self, model: str, server: str) -> None:
        for (name, servers), queue in tuple(self._queues.items()):
            if name == model and server in servers:
                queue.shun(server)

    def in_flight(self, model: str, server: str) -> int:
        return sum(
            queue.scheduling.servers.in_flight(server)
            for (name, servers), queue in self._queues.items()
            if name == model and server in servers
        )

    def report(self) -> list[dict[str, object]]:
        """For /status: every queue, and what is known of its servers' batches."""
        return [
            {
                "model": model,
                "waiting": queue.waiting,
                **_mode(queue.scheduling, self._clock()),
                "servers": {
                    name: _batches(queue.scheduling, name) | self.gpus.report(name)
                    for name in servers
                },
            }
            for (model, servers), queue in self._queues.items()
        ]

    def take_over(
        self, before: ModelQueues, servers: Collection[str], models: Collection[str]
    ) -> None:
        """From now on what is known of these servers is known here too, and the queues of these
        models are ours, with all who wait there, where they would be made alike."""
        self.gpus.take_over(before.gpus, servers)
        previous = self.executions.take_over(before.executions, servers)
        shared = {
            key: queue
            for key, queue in before._queues.items()
            if key[0] in models and self.executions.knows(*key)
        }
        for key, queue in shared.items():
            self._adopt(key, queue)  # guard: O2.same-queue
        self.calls.take_over(before.calls, servers, {model for model, _ in shared})
        for (model, name), execution in previous.items():
            self.learn(model, name, execution)
        self._count_change()

    def _count_change(self) -> None:
        self.changes += 1
        self.changed()  # guard: S11.batches-change

    def _adopt(self, key: Key, queue: ModelQueue) -> None:
        model, servers = key
        self._queues[key] = queue
        queue.read_conditions = partial(self.read_conditions, model, servers)
        queue.acted = self.gpus.passing([*queue.on_gpus])

    def close(self, others: Sequence[ModelQueues] = ()) -> None:
        """All that none of the others has, too; the last of them with a queue looks after it."""
        for key, queue in self._queues.items():
            keepers = [other for other in others if other._queues.get(key) is queue]
            if keepers:
                keepers[-1]._adopt(key, queue)
                continue
            queue.close()
            self.gpus.leave(queue)


def _nothing_to_read(model: str, servers: tuple[str, ...]) -> QueueConditions:
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
