"""The queue of one model in front of its group of servers.

At every event (an arrival, a batch's end, a timer) it decides anew which waiting calls stay. They
stand in the order of their deadlines, each with a predicted finish in batches over the group's
servers. While one of them would be late, whichever before it is worth least per second of GPU gives
way (weighted Moore-Hodgson): to the cloud at once if it may leave, else it is put off, and comes
back when there is room or is refused when it is provably late.
"""

from __future__ import annotations

import copy
import heapq
import math
from collections.abc import Iterable, Mapping, Sequence

from gateway.scheduling.batcher import Batcher
from gateway.scheduling.calls import (
    FREELY,
    Action,
    CallExtent,
    CloudPermission,
    QueuedCall,
    Refuse,
    Release,
    SpillNow,
)
from gateway.scheduling.deferred import PutOff
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.demand import Demand, WaitStretch
from gateway.scheduling.servers import Instance, Servers
from gateway.scheduling.sharing import SharedGpu
from gateway.scheduling.tuning import DEFAULT, Tuning
from gateway.scheduling.waiting import NOBODY, QueuePosition, Slot, WaitingQueue

_TRIES = 3  # calls that may fail to come back at one batch's end
_LATEST_LEAD = 0.5  # of a batch
_LAST_S = 1e18  # a time after all deadlines
_RECHECK = 0.1  # of a full batch: when another model does not take its turn
_ROWS_SHARE = 0.05  # of the newest call in the mean


def _free_in_s(slot: Slot) -> float:
    return slot.free_in_s


class Scheduler:
    """See the module. `cloud_room` is how many calls may be spilled from now on: the caller sets
    it (0: kill switch, breaker, limit or budget; inf: no limit) and every spill takes one of it.
    `round_trip_s` is the network's part of an answer's time. `lead_s` is how long before the end of
    the running batch the next one is sent; 0 sends it on completion, None twice the network's time
    and two sigma of the batches'."""

    def __init__(
        self,
        servers: Mapping[str, BatchModel],
        max_batch: int,
        tuning: Tuning = DEFAULT,
        lead_s: float | None = 0.0,
        round_trip_s: float = 0.0,
        gpus: Mapping[str, SharedGpu] | None = None,
    ) -> None:
        if not servers or max_batch < 1:
            raise ValueError("a scheduler needs a server and batches of at least one call")
        self.cloud_room = math.inf
        self.tuning = tuning
        self.lead_s = lead_s
        self._max_batch = max_batch  # rows
        self._rows = 1.0  # of a call, on average
        self._servers = Servers(servers, gpus, round_trip_s)
        self._model = self._servers.model
        self._line = WaitingQueue()
        self._places: dict[int | str, QueuePosition] = {}  # of all who wait
        self._put_off = PutOff(tuning.least_prospects)  # of these, who are not in the line
        self._batcher = Batcher(self._line, self._places, self._put_off.calls, tuning, max_batch)
        self._demand = Demand()
        self._room_made = False
        self._deferred = False  # a batch, as it was another model's turn
        self._barren: set[str] = set()  # servers that none of those who wait may go to
        self._wake_s = math.inf

    @property
    def wake_s(self) -> float:
        return self._wake_s

    @property
    def waiting(self) -> int:
        return len(self._places)

    @property
    def max_batch(self) -> int:
        return self._max_batch

    @max_batch.setter
    def max_batch(self, rows: int) -> None:
        self._max_batch = self._batcher.max_batch = max(1, rows)

    # What happens

    def arrive(self, call: QueuedCall, now_s: float) -> list[Action]:
        """A new call, or one that could not leave after all. Its id must not be waiting."""
        if call.id in self._places:
            raise ValueError(f"call {call.id} is waiting already")
        if len(self._places) >= self.tuning.max_waiting:  # guard: A1.queue-limit
            return self._turned_away(call, now_s)
        place = self._position(call, now_s)
        if not (self._places or call.avoid):
            actions = self._at_once(call, place, now_s)
            if actions is not None:
                return actions
        self._join(call, place)
        return self._decide(now_s)

    def _at_once(self, call: QueuedCall, place: QueuePosition, now_s: float) -> list[Action] | None:
        """What `_decide` comes to for a call that meets nobody, where a server is idle and would
        answer it in time, as most are met. None: it has to be decided on."""
        servers = self._servers
        idle = servers.idle()
        if idle is None:
            return None
        model = idle.model
        end_s = model.fixed_s + call.work * model.per_work_s
        # guard: S4.express-deadline
        if end_s * self._stretch(now_s).few[place.density_class] > place.due_s - now_s:
            return None
        instance = servers.at_once(idle, now_s, self.lead_s != 0.0)
        if instance is None:
            return None
        if call.rows >= self._max_batch:
            self._batcher.went_full()
        servers.send_one(instance, call, now_s)
        self._put_off.served(call.id)
        self._rest()
        return [Release(instance.server, (call,))]

    def changed(self, call: QueuedCall, now_s: float) -> list[Action]:
        """Something else is known of a waiting call: it is cleared, or restricted after all.
        Nothing happens if it does not wait any more."""
        if call.id not in self._places:
            return []
        self._remove(call.id)
        self._join(call, self._position(call, now_s))
        return self._decide(now_s)

    def cancelled(self, call_id: int | str, now_s: float) -> list[Action]:
        """Its caller has left, wherever the call is."""
        if call_id in self._places:
            self._remove(call_id)
            self._put_off.forget(call_id)
            self._room_made = True
            return self._decide(now_s)
        return self.failed(call_id, now_s)

    def completed(self, call_id: int | str, now_s: float) -> list[Action]:
        """A server answered a released call. The last one of a batch tells the batch's time."""
        return self._gone(call_id, now_s, answered=True)

    def failed(self, call_id: int | str, now_s: float) -> list[Action]:
        """A released call ended without an answer, which says nothing of the batch's time. Bring
        it back with `arrive` if it is to be tried again."""
        return self._gone(call_id, now_s, answered=False)

    def tick(self, now_s: float) -> list[Action]:
        """The time is `wake_s`, or something outside has changed (`cloud_room`)."""
        self._room_made = True
        return self._decide(now_s)

    def server_up(self, name: str, now_s: float) -> list[Action]:
        self._room_made = True
        return self._stand(name, True, now_s)

    def server_down(self, name: str, now_s: float) -> list[Action]:
        """It gets no more batches. Calls that it has stay its own until they are told of."""
        return self._stand(name, False, now_s)

    def limit(self, name: str, calls: float, now_s: float) -> list[Action]:
        """At most so many calls are with that server at once; inf: as many as two batches hold."""
        self._servers.limit(name, calls)
        return self._decide(now_s)

    def grow(self, name: str, instances: int, now_s: float) -> list[Action]:
        """So many of a server's instances execute batches side by side. It only grows."""
        self._servers.grow(name, instances)
        return self._decide(now_s)

    def would(self, call: QueuedCall, now_s: float) -> SpillNow | Refuse | None:
        """What `arrive` would do to this call at once; None: it stays. Changes nothing."""
        for action in copy.deepcopy(self).arrive(call, now_s):
            if not isinstance(action, Release) and action.call.id == call.id:
                return action
        return None

    def in_flight(self, name: str) -> int:
        """Calls that were released to a server and have not ended."""
        return self._servers.in_flight(name)

    def model(self, name: str) -> BatchModel:
        """What is known of a server's time."""
        return self._servers.server_model(name)

    def completion_s(self, size: CallExtent, deadline_s: float, now_s: float) -> float:
        """In how many seconds a call would be done if it arrived now; inf: no server is up."""
        up = self._servers.up
        if not up:
            return math.inf
        model = up[0].model
        if not self._places and self._servers.idle() is not None:  # it would begin now
            return model.fixed_s + model.per_work_s * size.work
        start_s = self._servers.start_s(now_s) - now_s
        if not self._places:
            return start_s + (model.fixed_s + model.per_work_s * size.work)
        if not self._line.calls:
            return start_s + model.predict_s(size.work)
        ahead = self._line.works()[self._line.dues_s() <= deadline_s]
        ahead_s = len(ahead) * self._fixed_share_s + ahead.sum() * model.per_work_s
        return float(start_s + ahead_s / len(up) + model.predict_s(size.work))

    # The decision

    def _decide(self, now_s: float) -> list[Action]:
        if not self._places:
            self._rest()
            return []
        actions: list[Action] = []
        up = self._servers.up
        if self._line.calls:
            self._choose(up, now_s, actions)
        if self._put_off:
            self._refuse_the_late(up, now_s, actions)
        if self._room_made:
            self._room_made = False
            if self._put_off:
                self._bring_back(up, now_s, actions)
        self._deferred = False
        self._barren.clear()
        if up and self._places:
            self._release(up, now_s, actions)
        if self._servers.shared:
            self._servers.want(self._first_due_s, self._barren, now_s, self._lead_s)
        self._wake_s = self._next_wake_s(up, now_s)
        return actions

    def _rest(self) -> None:
        """Nobody waits: there is nothing to decide before the next event."""
        self._room_made = self._deferred = False
        if self._barren:
            self._barren.clear()
        if self._servers.on_gpus and self._servers.shared:
            self._servers.want_nothing()
        self._wake_s = math.inf

    def _stretch(self, now_s: float) -> WaitStretch:
        servers, tuning = self._servers, self.tuning
        if servers.on_gpus and servers.in_turns:
            return servers.stretch(tuning.reserve, tuning.margin, now_s)
        return self._demand.stretch(
            len(servers.up) or 1, tuning.reserve, tuning.margin, now_s, self._memory_s
        )

    def _choose(self, up: Sequence[Instance], now_s: float, actions: list[Action]) -> None:
        """Until nobody in the line would be late, the least worthy before the first who would be
        goes."""
        line = self._line
        model = self._model
        slots = [Slot(s.free_s(now_s) - now_s, s.model.fixed_s, s.model.per_work_s) for s in up]
        if len(up) > len(line.calls):
            slots = heapq.nsmallest(len(line.calls), slots, key=_free_in_s)
        stretch = self._stretch(now_s)
        fixed_s, calls = self._fixed_share_s, self._calls_a_batch
        while line.calls:
            last = len(line.calls) - 1
            if slots:
                last = line.first_late(slots, calls, stretch, now_s)
                if last == NOBODY:
                    return
                if line.hopeless(last, slots, now_s):
                    self._release_instead(last, up, now_s, actions)
                    continue
            at = line.least_worthy(last + 1, fixed_s, model.per_work_s, now_s, self.cloud_room >= 1)
            self._release_instead(at, up, now_s, actions)

    def _release_instead(
        self, at: int, up: Sequence[Instance], now_s: float, actions: list[Action]
    ) -> None:
        call = self._line.pop(at)
        if self._cloud_is_worth_it(call, now_s):  # guard: D4.late-spill
            # guard: D4.spill-reason -> actions.append(self._spilled(call, 'spill_queue'))
            actions.append(self._spilled(call, "spill_deadline"))
        elif call.leave is CloudPermission.NEVER and up and not self._put_off.hopeful(call):
            actions.append(self._refused(call, up, now_s))
        else:
            self._put_off.add(call, call.deadline_s - self._model.predict_s(call.work))

    def _refuse_the_late(self, up: Sequence[Instance], now_s: float, actions: list[Action]) -> None:
        """Provably late: not even the next batch, with nobody else in it, would be in time."""
        start_s = self._servers.start_s(now_s) if up else now_s

        def last_start_s(call: QueuedCall) -> float:
            # guard: D4.early-refusal -> return -math.inf if call.deadline_s < now_s else math.inf
            return call.deadline_s - self._servers.least_s(call.work, now_s)

        for call in self._put_off.refuse_before(start_s, last_start_s):
            actions.append(self._refused(call, up, now_s))

    def _bring_back(self, up: Sequence[Instance], now_s: float, actions: list[Action]) -> None:
        """Who was put off tries again, the worthiest first."""
        worthiest = sorted(
            self._put_off.calls.values(), key=lambda c: c.penalty / self._gpu_s(c), reverse=True
        )
        failed = 0
        for call in worthiest:
            if self._cloud_is_worth_it(call, now_s):
                self._put_off.take(call.id)
                actions.append(self._spilled(call, "spill_deadline"))
                continue
            if not up:
                continue
            self._put_off.take(call.id)
            self._line.add(call, self._places[call.id])
            self._choose(up, now_s, actions)
            failed += call.id in self._put_off
            if failed >= _TRIES:
                return

    # Batches

    def _release(self, up: Sequence[Instance], now_s: float, actions: list[Action]) -> None:
        due = [i for i in up if i.due_s(now_s, self._lead_s(i)) <= now_s]
        if len(due) > 1:
            due.sort(key=lambda i: i.free_s(now_s) + i.model.predict_s(1.0))
        for instance in due:
            if not instance.status.may_send(self._first_due_s):
                self._deferred = True
                continue
            calls = self._batcher.next(instance, now_s)
            if not self._places and not calls:
                return
            if not calls:
                self._barren.add(instance.server)
            else:
                self._servers.send(instance, calls, now_s)
                for call in calls:
                    self._put_off.served(call.id)
                actions.append(Release(instance.server, calls))

    @property
    def _first_due_s(self) -> float:
        """Those who were put off have their turn when nobody else has."""
        if self._line.calls:
            return self._line.first_key
        return _LAST_S if self._places else math.inf

    def _lead_s(self, instance: Instance) -> float:
        if self.lead_s == 0.0:
            return 0.0
        # guard: S4.half-batch -> work = self._max_batch
        work = instance.bursts[0].work if instance.bursts else self._max_batch
        longest_s = _LATEST_LEAD * instance.model.predict_s(work)
        if self.lead_s is not None:
            return min(self.lead_s, longest_s)
        network_s = 2 * instance.status.round_trip_s + 2 * instance.model.sigma_s
        return min(network_s + instance.lead.share * longest_s, longest_s)

    # Bookkeeping

    def retire(self, now_s: float) -> None:
        """It has failed, and decides no more."""
        self._servers.retire(now_s)

    def leave(self) -> None:
        """Another one takes its place, and its numbers on the GPUs."""
        self._servers.leave()

    def take_over(
        self, sent: Iterable[tuple[str, QueuedCall]], waiting: Iterable[QueuedCall], now_s: float
    ) -> list[Action]:
        """The calls of another that decided until now: those with a server, and those that wait."""
        for name, call in sent:
            self._servers.adopt(name, call, now_s)
        for call in tuple(waiting):
            self._join(call, self._position(call, now_s))
        return self._decide(now_s)

    def _stand(self, name: str, up: bool, now_s: float) -> list[Action]:
        self._servers.stand(name, up)
        return self._decide(now_s)

    @property
    def _memory_s(self) -> float:
        model = self._model
        return self.tuning.reserve_batches * (model.fixed_s + model.per_work_s * self._max_batch)

    @property
    def _calls_a_batch(self) -> int:
        return max(1, round(self._max_batch / self._rows * self._batcher.fill))

    @property
    def _fixed_share_s(self) -> float:
        """Of a call, of what a full batch costs before its first call."""
        return self._model.fixed_s / self._calls_a_batch

    def _gpu_s(self, call: QueuedCall) -> float:
        model, rows, most = self._model, call.rows, self._max_batch
        fixed_s = model.fixed_s if rows >= most else model.fixed_s * (rows / most)
        return fixed_s + model.per_work_s * call.work

    def _position(self, call: QueuedCall, now_s: float) -> QueuePosition:
        """Where a call belongs that comes now, which counts as asked for from here on."""
        t, servers, memory_s = self.tuning, self._servers, self._memory_s
        if call.rows != self._rows:
            self._rows += _ROWS_SHARE * (call.rows - self._rows)
        due_s = call.arrived_s + (call.deadline_s - call.arrived_s) * (
            t.restricted_budget if call.restricted else 1.0
        )
        worth, gpu_s = call.penalty, self._gpu_s(call)
        if call.cloud is not None and self._may_spill(call):
            worth = min(worth, self._cloud_cost(call, now_s))
        density = worth / gpu_s
        density_class = servers.demand.density_class(density)
        self._demand.arrived(density_class, gpu_s, now_s, memory_s)
        if servers.on_gpus and servers.shared:
            servers.observe_demand(density, gpu_s, now_s, memory_s)
        # guard: S4.priority-order -> key = min(due_s, call.arrived_s + t.patience_s)
        # guard: S4.patience-bound -> key = due_s + call.later_s
        key = min(due_s, call.arrived_s + t.patience_s) + call.later_s
        return QueuePosition(key, due_s, density_class)

    def _join(self, call: QueuedCall, place: QueuePosition) -> None:
        self._places[call.id] = place
        self._line.add(call, place)

    def _remove(self, call_id: int | str) -> None:
        place = self._places.pop(call_id)
        if self._put_off.take(call_id) is None:
            self._line.pop(self._line.find(call_id, place.key))

    def _gone(self, call_id: int | str, now_s: float, answered: bool) -> list[Action]:
        if not self._servers.gone(call_id, now_s, answered):
            return []
        if not self._places:
            self._rest()
            return []
        self._room_made = True
        return self._decide(now_s)

    def _may_spill(self, call: QueuedCall) -> bool:
        # guard: D4.leave-permission minus 1
        return call.leave is FREELY and call.cloud is not None and self.cloud_room >= 1

    def _cloud_is_worth_it(self, call: QueuedCall, now_s: float) -> bool:
        # guard: D4.cloud-feasible minus 2
        return self._may_spill(call) and self._cloud_cost(call, now_s) < call.penalty

    def _cloud_cost(self, call: QueuedCall, now_s: float) -> float:
        assert call.cloud is not None
        return call.price + call.penalty * call.cloud.late(call.deadline_s - now_s)

    def _spilled(self, call: QueuedCall, why: str) -> SpillNow:
        self._places.pop(call.id, None)
        self._put_off.forget(call.id)
        self.cloud_room -= 1  # guard: S2.cloud-places
        return SpillNow(call, why)

    def _refused(self, call: QueuedCall, up: Sequence[Instance], now_s: float) -> Refuse:
        del self._places[call.id]
        return Refuse(call, "deadline_unmeetable", self._retry_after_s(up, now_s))

    def _turned_away(self, call: QueuedCall, now_s: float) -> list[Action]:
        if self._cloud_is_worth_it(call, now_s):
            return [self._spilled(call, "spill_queue")]
        return [Refuse(call, "queue_full", self._retry_after_s(self._servers.up, now_s))]

    def _retry_after_s(self, up: Sequence[Instance], now_s: float) -> float:
        """When what is in the line now will be done."""
        line = self._line
        work_s = len(line) * self._fixed_share_s + line.work * self._model.per_work_s
        start_s = self._servers.start_s(now_s) - now_s if up else 0.0
        return start_s + work_s / max(1, len(up))

    def _next_wake_s(self, up: Sequence[Instance], now_s: float) -> float:
        """A batch is due, or overdue, or somebody who was put off is late."""
        at_s = math.inf
        if self._places:
            for instance in up:
                at_s = min(at_s, instance.overdue_s(now_s))
                due_s = instance.due_s(now_s, self._lead_s(instance))
                if due_s > now_s:
                    at_s = min(at_s, due_s)
            if self._deferred:
                at_s = min(at_s, now_s + _RECHECK * self._model.predict_s(self._max_batch))
        if self._put_off:
            at_s = min(at_s, self._put_off.next_s + 1e-6)
        return at_s if at_s > now_s else now_s + 1e-3
