"""The queue of one model in front of its group of servers.

At every event (an arrival, a batch's end, a timer) it decides anew which waiting calls stay. They
stand in the order of their deadlines, each with a predicted finish in batches over the group's
servers. While one of them would be late, whichever before it is worth least per second of GPU gives
way (weighted Moore-Hodgson): to the cloud at once if it may leave, else it is put off, and comes
back when there is room or is refused when it is provably late.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from gateway.scheduling.batches import BatchModel
from gateway.scheduling.calls import Action, Call, Leave, Refuse, Release, Spill
from gateway.scheduling.demand import Demand
from gateway.scheduling.servers import Server
from gateway.scheduling.tuning import DEFAULT, Tuning
from gateway.scheduling.waiting import NOBODY, Line, Place, Slot

_TRIES = 3  # calls that may fail to come back at one batch's end
_LATEST_LEAD = 0.5  # of a batch


class Scheduling(Protocol):
    """What the live gateway and the simulation drive. Every method takes the time in monotonic
    seconds and returns what is to be done now, in this order; whoever gets an action must do it."""

    cloud_room: float

    @property
    def wake_s(self) -> float:
        """When `tick` wants to be called, if nothing happens before; inf: never."""
        ...

    @property
    def waiting(self) -> int: ...

    def arrive(self, call: Call, now_s: float) -> list[Action]: ...
    def changed(self, call: Call, now_s: float) -> list[Action]: ...
    def cancelled(self, call_id: int | str, now_s: float) -> list[Action]: ...
    def completed(self, call_id: int | str, now_s: float) -> list[Action]: ...
    def failed(self, call_id: int | str, now_s: float) -> list[Action]: ...
    def tick(self, now_s: float) -> list[Action]: ...
    def server_up(self, name: str, now_s: float) -> list[Action]: ...
    def server_down(self, name: str, now_s: float) -> list[Action]: ...


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
    ) -> None:
        if not servers or max_batch < 1:
            raise ValueError("a scheduler needs a server and batches of at least one call")
        self.cloud_room = math.inf
        self.tuning = tuning
        self.lead_s = lead_s
        self.round_trip_s = round_trip_s
        self._max_batch = max_batch
        self._servers = {name: Server(name, model) for name, model in servers.items()}
        self._up = list(self._servers.values())
        self._model = self._up[0].model  # what a call's share of a batch is reckoned with
        self._line = Line()
        self._places: dict[int | str, Place] = {}  # of all who wait
        self._put_off: dict[int | str, Call] = {}  # of these, who are not in the line; oldest first
        self._last_start: list[tuple[float, int, int | str]] = []  # heap, of who was put off
        self._serial = 0
        self._demand = Demand()
        self._room_made = False
        self._starved = 0.0
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
    def max_batch(self, calls: int) -> None:
        self._max_batch = max(1, calls)

    # What happens

    def arrive(self, call: Call, now_s: float) -> list[Action]:
        """A new call, or one that could not leave after all. Its id must not be waiting."""
        if call.id in self._places:
            raise ValueError(f"call {call.id} is waiting already")
        if len(self._places) >= self.tuning.max_waiting:
            return self._turned_away(call, now_s)
        self._join(call, now_s)
        return self._decide(now_s)

    def changed(self, call: Call, now_s: float) -> list[Action]:
        """Something else is known of a waiting call: it is cleared, or restricted after all.
        Nothing happens if it does not wait any more."""
        if call.id not in self._places:
            return []
        self._remove(call.id)
        self._join(call, now_s)
        return self._decide(now_s)

    def cancelled(self, call_id: int | str, now_s: float) -> list[Action]:
        """Its caller has left, wherever the call is."""
        if call_id in self._places:
            self._remove(call_id)
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

    def occupied(self, name: str, until_s: float, now_s: float) -> list[Action]:
        """The server works on something else until then, e.g. another model on the same GPU."""
        self._servers[name].busy_until_s = until_s
        return self._decide(now_s)

    def completion_s(self, call: Call, now_s: float) -> float:
        """In how many seconds the call would be done if it arrived now; inf: no server is up."""
        up = self._up
        if not up:
            return math.inf
        ahead = self._line.works()[self._line.dues_s() <= call.deadline_s]
        model = up[0].model
        ahead_s = len(ahead) * model.fixed_s / self._max_batch + ahead.sum() * model.per_work_s
        start_s = min(s.free_s(now_s) for s in up) - now_s
        return float(start_s + ahead_s / len(up) + model.predict_s(call.work))

    # The decision

    def _decide(self, now_s: float) -> list[Action]:
        actions: list[Action] = []
        up = self._up
        if self._line.calls:
            self._choose(up, now_s, actions)
        if self._put_off:
            self._refuse_the_late(up, now_s, actions)
        if self._room_made:
            self._room_made = False
            if self._put_off:
                self._bring_back(up, now_s, actions)
        if up and self._places:
            self._release(up, now_s, actions)
        self._wake_s = self._next_wake_s(up, now_s)
        return actions

    def _choose(self, up: Sequence[Server], now_s: float, actions: list[Action]) -> None:
        """Until nobody in the line would be late, the least worthy before the first who would be
        goes."""
        line = self._line
        model = self._model
        slots = [Slot(s.free_s(now_s) - now_s, s.model.fixed_s, s.model.per_work_s) for s in up]
        stretch = self._demand.stretch(
            max(1, len(up)), self.tuning.reserve, self.tuning.margin, now_s, self._memory_s
        )
        fixed_s = model.fixed_s / self._max_batch
        while line.calls:
            last = len(line.calls) - 1
            if slots:
                last = line.first_late(slots, self._max_batch, stretch, now_s)
                if last == NOBODY:
                    return
                if line.hopeless(last, slots, now_s):
                    self._give_way(last, now_s, actions)
                    continue
            at = line.least_worthy(last + 1, fixed_s, model.per_work_s, now_s, self.cloud_room >= 1)
            self._give_way(at, now_s, actions)

    def _give_way(self, at: int, now_s: float, actions: list[Action]) -> None:
        call = self._line.pop(at)
        if self._cloud_is_worth_it(call, now_s):
            del self._places[call.id]
            actions.append(self._spilled(call, "spill_deadline"))
        else:
            self._set_aside(call)

    def _set_aside(self, call: Call) -> None:
        self._put_off[call.id] = call
        self._serial += 1
        heapq.heappush(self._last_start, (self._last_start_s(call), self._serial, call.id))

    def _last_start_s(self, call: Call) -> float:
        return call.deadline_s - self._model.predict_s(call.work)

    def _refuse_the_late(self, up: Sequence[Server], now_s: float, actions: list[Action]) -> None:
        """Provably late: not even the next batch, with nobody else in it, would be in time."""
        start_s = min((s.free_s(now_s) for s in up), default=now_s)
        heap = self._last_start
        while heap and heap[0][0] < start_s:
            _, _, call_id = heapq.heappop(heap)
            call = self._put_off.get(call_id)
            if call is None:
                continue
            if self._last_start_s(call) < start_s:
                del self._put_off[call_id], self._places[call_id]
                actions.append(Refuse(call, "deadline_unmeetable", self._retry_after_s(up, now_s)))
            else:  # batches have become shorter
                self._set_aside(call)

    def _bring_back(self, up: Sequence[Server], now_s: float, actions: list[Action]) -> None:
        """Who was put off tries again, the worthiest first."""
        worthiest = sorted(
            self._put_off.values(), key=lambda c: c.penalty / self._gpu_s(c.work), reverse=True
        )
        failed = 0
        for call in worthiest:
            if self._cloud_is_worth_it(call, now_s):
                del self._put_off[call.id], self._places[call.id]
                actions.append(self._spilled(call, "spill_deadline"))
                continue
            if not up:
                continue
            del self._put_off[call.id]
            self._line.add(call, self._places[call.id])
            self._choose(up, now_s, actions)
            failed += call.id in self._put_off
            if failed >= _TRIES:
                return

    # Batches

    def _release(self, up: Sequence[Server], now_s: float, actions: list[Action]) -> None:
        due = [s for s in up if s.due_s(now_s, self._lead_s(s)) <= now_s]
        for server in due if len(due) < 2 else sorted(due, key=lambda s: s.free_s(now_s)):
            calls = self._next_batch(server, now_s)
            if calls:
                server.send(calls, now_s, self.round_trip_s)
                actions.append(Release(server.name, calls))

    def _next_batch(self, server: Server, now_s: float) -> tuple[Call, ...]:
        start_s = server.free_s(now_s)
        calls = self._line.pop_first(self._how_many(server, start_s)) if self._line.calls else []
        if self._put_off:
            self._add_put_off(calls, server, start_s)
        for call in calls:
            del self._places[call.id]
        return tuple(calls)

    def _how_many(self, server: Server, start_s: float) -> int:
        """The first calls of the line, fewer than fit if one more would make the tightest late."""
        works, dues = self._line.head(self._max_batch)
        safe_s = server.model.per_work_s * self.tuning.batch_safety
        end_s = start_s + server.model.fixed_s * self.tuning.batch_safety
        tightest_s = math.inf
        for count, (work, due_s) in enumerate(zip(works, dues, strict=True)):
            end_s += work * safe_s
            if count >= self.tuning.smallest_batch and end_s > tightest_s:
                return count
            tightest_s = min(tightest_s, due_s)
        return len(works)

    def _add_put_off(self, calls: list[Call], server: Server, start_s: float) -> None:
        """Places that nobody else takes, and now and then one that somebody would have taken, go to
        those who were put off, the oldest first (S4)."""
        owed = self._starved + len(calls) * self.tuning.starved_share
        self._starved = min(owed, 1.0)
        room = 0 if self._line.calls else self._max_batch - len(calls)
        if room == 0 and owed >= 1.0:
            room = 1
        tightest_s = min((call.deadline_s for call in calls), default=math.inf)
        for call in list(self._put_off.values()):
            if room == 0:
                return
            displaced = calls[-1:] if len(calls) == self._max_batch else []
            work = sum(c.work for c in calls) - sum(c.work for c in displaced) + call.work
            if start_s + server.model.predict_s(work) > min(tightest_s, call.deadline_s):
                continue
            for last in displaced:
                calls.pop()
                self._line.add(last, self._places[last.id])
            calls.append(self._put_off.pop(call.id))
            tightest_s = min(tightest_s, call.deadline_s)
            room -= 1
            self._starved = 0.0

    def _lead_s(self, server: Server) -> float:
        if self.lead_s is None:
            lead_s = 2 * self.round_trip_s + 2 * server.model.sigma_s
        else:
            lead_s = self.lead_s
        return min(lead_s, _LATEST_LEAD * server.model.predict_s(self._max_batch))

    # Bookkeeping

    def _stand(self, name: str, up: bool, now_s: float) -> list[Action]:
        self._servers[name].up = up
        self._up = [s for s in self._servers.values() if s.up]
        return self._decide(now_s)

    @property
    def _memory_s(self) -> float:
        return self.tuning.reserve_batches * self._model.predict_s(self._max_batch)

    def _gpu_s(self, work: float) -> float:
        return self._model.fixed_s / self._max_batch + self._model.per_work_s * work

    def _join(self, call: Call, now_s: float) -> None:
        t = self.tuning
        budget_s = call.deadline_s - call.arrived_s
        due_s = call.arrived_s + budget_s * (t.restricted_budget if call.restricted else 1.0)
        worth, gpu_s = call.penalty, self._gpu_s(call.work)
        if self._may_spill(call):
            worth = min(worth, self._cloud_cost(call, now_s))
        density_class = self._demand.class_of(worth / gpu_s)
        self._demand.arrived(density_class, gpu_s, now_s, self._memory_s)
        key = min(due_s, call.arrived_s + t.patience_s)
        self._places[call.id] = place = Place(key, due_s, density_class)
        self._line.add(call, place)

    def _remove(self, call_id: int | str) -> None:
        place = self._places.pop(call_id)
        if self._put_off.pop(call_id, None) is None:
            self._line.pop(self._line.find(call_id, place.key))

    def _gone(self, call_id: int | str, now_s: float, answered: bool) -> list[Action]:
        for server in self._servers.values():
            ended = server.gone(call_id, now_s, answered)
            if ended is not None:
                if not ended:
                    return []
                self._room_made = True
                return self._decide(now_s)
        return []

    def _may_spill(self, call: Call) -> bool:
        return call.leave is Leave.FREELY and call.cloud is not None and self.cloud_room >= 1

    def _cloud_is_worth_it(self, call: Call, now_s: float) -> bool:
        return self._may_spill(call) and self._cloud_cost(call, now_s) < call.penalty

    def _cloud_cost(self, call: Call, now_s: float) -> float:
        assert call.cloud is not None
        return call.price + call.penalty * call.cloud.late(call.deadline_s - now_s)

    def _spilled(self, call: Call, why: str) -> Spill:
        self.cloud_room -= 1
        return Spill(call, why)

    def _turned_away(self, call: Call, now_s: float) -> list[Action]:
        if self._cloud_is_worth_it(call, now_s):
            return [self._spilled(call, "spill_queue")]
        return [Refuse(call, "queue_full", self._retry_after_s(self._up, now_s))]

    def _retry_after_s(self, up: Sequence[Server], now_s: float) -> float:
        """When what is in the line now will be done."""
        works = self._line.works()
        model = self._model
        work_s = len(works) * model.fixed_s / self._max_batch + works.sum() * model.per_work_s
        start_s = min((s.free_s(now_s) for s in up), default=now_s) - now_s
        return float(start_s + work_s / max(1, len(up)))

    def _next_wake_s(self, up: Sequence[Server], now_s: float) -> float:
        """A batch is due, or overdue, or somebody who was put off is late."""
        at_s = math.inf
        if self._places:
            for server in up:
                at_s = min(at_s, server.overdue_s(now_s))
                due_s = server.due_s(now_s, self._lead_s(server))
                if due_s > now_s:
                    at_s = min(at_s, due_s)
        heap = self._last_start
        while heap and heap[0][2] not in self._put_off:
            heapq.heappop(heap)
        if heap:
            at_s = min(at_s, heap[0][0] + 1e-6)
        return at_s if at_s > now_s else now_s + 1e-3
