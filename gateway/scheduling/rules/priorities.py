"""The rule with priorities: what only the premises can serve goes first, and the rest leaves early.

Two classes, each in the order of its deadlines: calls that may not leave or that the cloud would
answer too late, and before anybody of the others. At every event each waiting call that may leave
is asked whether the cloud costs less than its wait: a GPU second costs the more the longer the
queue, and a call that would be late costs its penalty as well. What can be served in time by no
means is refused, and a batch takes nobody who would make it late. It knows no more than that, so
little can go wrong in it: it is what follows a scheduler that failed, and the best of the simple
policies (docs/explanation/simulation.md).
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.scheduling.calls import (
    FREELY,
    Action,
    CallExtent,
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

PRIORITIES: Final = "priorities"
_CRITICAL: Final = 0.5  # the cloud misses the budget of such a call more often than this
_MARGIN: Final = 1.1
_DEAR: Final = 1.25  # full batches in the queue that make staying as dear as the mean cloud call
_PATIENCE_S: Final = 60.0  # nobody is ordered as if it had longer
_FIRST, _OTHERS = 0, 1

Entry = tuple[int, float, int, QueuedCall]
"""The class, the order in it, a serial number, the call."""


class PriorityLine:
    """The waiting calls, in their order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._serial = 0

    def entry(self, call: QueuedCall, now_s: float) -> Entry:
        cloud = call.cloud if call.leave is FREELY else None
        critical = cloud is None or cloud.late(call.deadline_s - now_s) >= _CRITICAL
        self._serial += 1
        key_s = min(call.deadline_s, call.arrived_s + _PATIENCE_S) + call.later_s
        # guard: S9.premises-first -> return (_OTHERS, key_s, self._serial, call)
        return _FIRST if critical else _OTHERS, key_s, self._serial, call

    def remove(self, call_id: int | str) -> bool:
        """False: it does not wait."""
        for at, (*_, call) in enumerate(self.entries):
            if call.id == call_id:
                del self.entries[at]
                return True
        return False


class ByPriority(GroupEvents):
    """A `Scheduling`; see the module."""

    def __init__(
        self, servers: Mapping[str, BatchModel], max_batch: int, max_waiting: int = 4096
    ) -> None:
        self.limits = QueueLimits(max_batch)
        self.servers = Servers(servers)
        self._max_waiting = max_waiting
        self._line = PriorityLine()

    @property
    def waiting(self) -> int:
        return len(self._line.entries)

    @property
    def wake_s(self) -> float:
        """The first deadline: maybe nothing happens before."""
        return min((call.deadline_s for *_, call in self._line.entries), default=math.inf)

    # What happens

    def arrive(self, call: QueuedCall, now_s: float) -> list[Action]:
        return self.arrive_together((call,), now_s)

    def arrive_together(self, calls: Sequence[QueuedCall], now_s: float) -> list[Action]:
        actions: list[Action] = []
        for call in calls:
            if len(self._line.entries) < self._max_waiting:
                self._join(call, now_s)
                continue
            action = self._turned_away(call, now_s)
            self.limits.cloud_room -= isinstance(action, SpillNow)
            actions.append(action)
        return [*actions, *self._decide(now_s)]

    def changed(self, call: QueuedCall, now_s: float) -> list[Action]:
        if not self._line.remove(call.id):
            return []
        self._join(call, now_s)
        return self._decide(now_s)

    def cancelled(self, call_id: int | str, now_s: float) -> list[Action]:
        return [] if self._line.remove(call_id) else self.ended(call_id, False, now_s)

    # What is asked

    def would(self, call: QueuedCall, now_s: float) -> SpillNow | Refuse | None:
        if len(self._line.entries) >= self._max_waiting:
            return self._turned_away(call, now_s)
        queue = self._line.entries.copy()
        insort(queue, self._line.entry(call, now_s))
        actions = (action for _, action in self._judged(queue, now_s))
        return next((a for a in actions if a is not None and a.call is call), None)

    def completion_s(self, size: CallExtent, deadline_s: float, now_s: float) -> float:
        queued_s = 0.0
        for group, key_s, _, call in self._line.entries:
            if group == _FIRST or key_s <= deadline_s:
                queued_s += self._gpu_s(call)
        queued_s /= max(1, len(self.servers.up))
        alone_s = self.servers.first_model.predict_s(size.work)
        return self.servers.start_s(now_s) - now_s + queued_s + alone_s

    # The rule

    def _join(self, call: QueuedCall, now_s: float) -> None:
        insort(self._line.entries, self._line.entry(call, now_s))

    def _decide(self, now_s: float) -> list[Action]:
        judged = list(self._judged(self._line.entries, now_s))
        self._line.entries = [entry for entry, action in judged if action is None]
        actions: list[Action] = [action for _, action in judged if action is not None]
        self.limits.cloud_room -= sum(isinstance(action, SpillNow) for action in actions)
        for instance in self.servers.up:
            if self._line.entries and instance.due_s(now_s, 0.0) <= now_s:
                batch = self._next_batch(instance, now_s)
                if batch:
                    self.servers.send(instance, batch, now_s)
                    actions.append(Release(instance.server, batch))
        return actions

    def _judged(
        self, queue: list[Entry], now_s: float
    ) -> Iterator[tuple[Entry, SpillNow | Refuse | None]]:
        """What becomes of each; None: it waits."""
        servers, room = max(1, len(self.servers.up)), self.limits.cloud_room
        start_s, model = self.servers.start_s(now_s) - now_s, self.servers.first_model
        full_s = model.predict_s(self.limits.max_batch)
        ahead_s = 0.0  # of GPU time, of those before who can be in time
        for entry in queue:
            call = entry[3]
            left_s, own_s = call.deadline_s - now_s, self._gpu_s(call)
            alone_s = model.predict_s(call.work)
            end_s = start_s + ahead_s / servers + alone_s
            action: SpillNow | Refuse | None = None
            if room >= 1 and (why := self._leaves(call, left_s, end_s, (ahead_s + own_s) / full_s)):
                action = SpillNow(call, why)
                room -= 1
            elif left_s <= 0.0:
                action = Refuse(call, "deadline_exceeded_in_queue")
            elif left_s < start_s + alone_s < math.inf:
                action = Refuse(call, "deadline_unmeetable", start_s)
            elif end_s <= left_s:
                ahead_s += own_s
            yield entry, action

    def _leaves(self, call: QueuedCall, left_s: float, end_s: float, batches: float) -> str:
        """Why a call leaves now; empty: it does not. `batches`: full ones before its answer."""
        if call.leave is not FREELY or call.cloud is None:
            return ""
        late = end_s * _MARGIN > left_s
        onprem = call.price * batches / (_DEAR * max(1, len(self.servers.up)))
        if late:
            onprem += call.penalty
        if call.price + call.penalty * call.cloud.late(left_s) >= onprem:
            return ""
        return "spill_deadline" if late else "spill_rule"

    def _next_batch(self, instance: Instance, now_s: float) -> tuple[QueuedCall, ...]:
        """The first who may go there, as many as fit and are in time together."""
        taken: list[QueuedCall] = []
        left: list[Entry] = []
        rows, work, due_s = self.limits.max_batch, 0.0, math.inf
        for entry in self._line.entries:
            call = entry[3]
            end_s = now_s + instance.model.predict_s(work + call.work)
            # guard: S9.batch-lateness minus 6
            if (
                (call.rows <= rows or not taken)
                and len(taken) < instance.status.room
                and instance.server not in call.avoid
                and end_s <= min(due_s, call.deadline_s)
            ):
                taken.append(call)
                rows, work, due_s = rows - call.rows, work + call.work, min(due_s, call.deadline_s)
            else:
                left.append(entry)
        self._line.entries = left
        return tuple(taken)

    def _turned_away(self, call: QueuedCall, now_s: float) -> SpillNow | Refuse:
        if call.leave is FREELY and call.cloud is not None and self.limits.cloud_room >= 1:
            return SpillNow(call, "spill_queue")
        return Refuse(call, "queue_full", self.completion_s(call, call.deadline_s, now_s))

    def _gpu_s(self, size: CallExtent) -> float:
        """Of a call, with its share of a full batch."""
        model = self.servers.first_model
        return model.fixed_s * size.rows / self.limits.max_batch + model.per_work_s * size.work
