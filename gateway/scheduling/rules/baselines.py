"""The simple policies: a call's place is decided once, when it arrives, and never again.

They are what the scheduler is compared with, and what to fall back to when it is not trusted. The
first to come is served first, in batches as large as they can be, when a server is free.
"""

from __future__ import annotations

import copy
import math
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.scheduling.calls import (
    Action,
    CallExtent,
    CloudPermission,
    QueuedCall,
    QueueLimits,
    Refuse,
    Release,
    SpillNow,
)
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.servers.events import GroupEvents
from gateway.scheduling.servers.group import Servers
from gateway.scheduling.servers.instance import Instance


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a rule may know when a call arrives."""

    now_s: float
    onprem_s: float  # predicted seconds to the call's answer here
    queued_s: float  # GPU seconds of those who would be served before it, per server
    backlog_s: float  # GPU seconds of all who wait, per server
    full_batch_s: float
    filled: float  # full batches taken of late beyond what the servers could do
    gpu_s: float  # of this call, in a full batch


Rule = Callable[[QueuedCall, Backlog], bool]
"""Whether a call that may leave does."""

_CRITICAL: Final = 0.5  # the cloud misses the budget of such a call more often than this
_CAP: Final = 0.35  # of a call's budget: how long the queue may be for it to join
_MARGIN: Final = 1.2
_DEAR: Final = 1.5  # full batches in the queue that make staying as dear as the mean cloud call
_BUCKET: Final = 1.0  # full batches that provisioned throughput lets through at once


def never(call: QueuedCall, backlog: Backlog) -> bool:
    """On-prem only."""
    return False


def unless_critical(call: QueuedCall, backlog: Backlog) -> bool:
    """Static split: what the cloud could not answer in time stays, the rest leaves."""
    assert call.cloud is not None
    return call.cloud.late(call.deadline_s - backlog.now_s) < _CRITICAL


def to_the_faster(call: QueuedCall, backlog: Backlog) -> bool:
    """Least latency."""
    assert call.cloud is not None
    return call.cloud.quantile_s(0.5) < backlog.onprem_s


def above_a_cap(call: QueuedCall, backlog: Backlog) -> bool:
    """Queue cap: the tighter the budget, the shorter the queue that a call may join."""
    return backlog.queued_s > _CAP * (call.deadline_s - backlog.now_s)


def when_late(call: QueuedCall, backlog: Backlog) -> bool:
    """Predicted completion: leaves when it would miss its budget here."""
    return backlog.onprem_s * _MARGIN > call.deadline_s - backlog.now_s


def when_cheaper(call: QueuedCall, backlog: Backlog) -> bool:
    """Price on arrival: a GPU second costs the more the longer the queue, and a call that would be
    late costs its penalty as well."""
    assert call.cloud is not None
    left_s = call.deadline_s - backlog.now_s
    cloud = call.price + call.penalty * call.cloud.late(left_s)
    onprem_cost = call.price * backlog.backlog_s / (_DEAR * backlog.full_batch_s)
    if backlog.onprem_s * _MARGIN > left_s:
        onprem_cost += call.penalty
    return cloud < onprem_cost


def when_the_bucket_is_full(call: QueuedCall, backlog: Backlog) -> bool:
    """Provisioned throughput: a leaky bucket of GPU time, and what overflows leaves."""
    return backlog.filled > _BUCKET


RULES: Final[Mapping[str, Rule]] = {
    "onprem_only": never,
    "static_split": unless_critical,
    "least_latency": to_the_faster,
    "queue_cap": above_a_cap,
    "predicted_completion": when_late,
    "price_on_arrival": when_cheaper,
    "provisioned_throughput": when_the_bucket_is_full,
}


class OnArrival(GroupEvents):
    """A `Scheduling` that follows one of the rules."""

    def __init__(
        self, servers: Mapping[str, BatchModel], max_batch: int, rule: Rule, max_waiting: int = 4096
    ) -> None:
        self.limits = QueueLimits(max_batch)
        self.servers = Servers(servers)
        self._rule = rule
        self._max_waiting = max_waiting
        self._queue: list[tuple[float, int, QueuedCall]] = []  # by deadline
        self._serial = 0
        self._filled_s = 0.0
        self._leaked_s = 0.0

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def wake_s(self) -> float:
        return self._queue[0][0] if self._queue and not self.servers.up else math.inf

    def arrive(self, call: QueuedCall, now_s: float) -> list[Action]:
        return self.arrive_together((call,), now_s)

    def arrive_together(self, calls: Sequence[QueuedCall], now_s: float) -> list[Action]:
        entered = [action for call in calls for action in self._enter(call, now_s)]
        return [*entered, *self._decide(now_s)]

    def _enter(self, call: QueuedCall, now_s: float) -> list[SpillNow | Refuse]:
        """Empty: it waits."""
        self._leak(now_s)
        backlog = self._backlog(call, call.deadline_s, now_s)
        may_leave = (
            call.leave is CloudPermission.FREELY
            and call.cloud is not None
            and self.limits.cloud_room >= 1
        )
        if may_leave and self._rule(call, backlog):
            self.limits.cloud_room -= 1
            return [SpillNow(call, "spill_rule")]
        if len(self._queue) >= self._max_waiting:
            return [Refuse(call, "queue_full", backlog.onprem_s)]
        self._join(call, now_s)
        self._filled_s += backlog.gpu_s
        return []

    def changed(self, call: QueuedCall, now_s: float) -> list[Action]:
        """Where it goes was decided when it arrived; it only must not leave any more."""
        for at, (deadline_s, serial, waiting) in enumerate(self._queue):
            if waiting.id == call.id:
                self._queue[at] = (deadline_s, serial, call)
        return []

    def cancelled(self, call_id: int | str, now_s: float) -> list[Action]:
        for at, (_, _, waiting) in enumerate(self._queue):
            if waiting.id == call_id:
                del self._queue[at]
                return []
        return self.ended(call_id, False, now_s)

    def would(self, call: QueuedCall, now_s: float) -> SpillNow | Refuse | None:
        return next((a for a in copy.deepcopy(self)._enter(call, now_s)), None)

    def completion_s(self, size: CallExtent, deadline_s: float, now_s: float) -> float:
        return self._backlog(size, deadline_s, now_s).onprem_s

    def _join(self, call: QueuedCall, now_s: float) -> None:
        self._serial += 1
        insort(self._queue, (call.deadline_s, self._serial, call))

    def _decide(self, now_s: float) -> list[Action]:
        in_time = bisect_left(self._queue, (math.nextafter(now_s, math.inf),))  # due now is late
        late, self._queue = self._queue[:in_time], self._queue[in_time:]
        actions: list[Action] = [Refuse(call, "deadline_exceeded_in_queue") for _, _, call in late]
        for instance in self.servers.up:
            if self._queue and instance.due_s(now_s, 0.0) <= now_s:
                batch = self._next_batch(instance)
                if batch:
                    self.servers.send(instance, batch, now_s)
                    actions.append(Release(instance.server, batch))
        return actions

    def _next_batch(self, instance: Instance) -> tuple[QueuedCall, ...]:
        """The first who may go there, as many as fit."""
        taken: list[QueuedCall] = []
        rows, left = self.limits.max_batch, []
        for entry in self._queue:
            call = entry[2]
            fits = call.rows <= rows or not taken
            if fits and len(taken) < instance.status.room and instance.server not in call.avoid:
                taken.append(call)
                rows -= call.rows
            else:
                left.append(entry)
        self._queue = left
        return tuple(taken)

    def _backlog(self, size: CallExtent, deadline_s: float, now_s: float) -> Backlog:
        up = self.servers.up
        ahead = self._queue[: bisect_left(self._queue, (deadline_s,))]
        queued_s = sum(self._gpu_s(c) for _, _, c in ahead) / max(1, len(up))
        start_s = self.servers.start_s(now_s) - now_s
        full_s = self.servers.first_model.predict_s(self.limits.max_batch)
        return Backlog(
            now_s=now_s,
            onprem_s=start_s + queued_s + self.servers.first_model.predict_s(size.work),
            queued_s=queued_s,
            backlog_s=sum(self._gpu_s(c) for _, _, c in self._queue) / max(1, len(up)),
            full_batch_s=full_s,
            filled=self._filled_s / max(1, len(up)) / full_s,
            gpu_s=self._gpu_s(size),
        )

    def _leak(self, now_s: float) -> None:
        self._filled_s -= (now_s - self._leaked_s) * len(self.servers.up)
        self._filled_s = max(0.0, self._filled_s)
        self._leaked_s = now_s

    def _gpu_s(self, size: CallExtent) -> float:
        model = self.servers.first_model
        return model.fixed_s * size.rows / self.limits.max_batch + model.per_work_s * size.work
