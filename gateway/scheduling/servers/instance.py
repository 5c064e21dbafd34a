"""One instance of a server, with the bursts of calls that it was sent."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

from gateway.scheduling.calls import QueuedCall
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.servers.contention import ALONE
from gateway.scheduling.servers.sharing import SharedGpu

_AT_MOST = 2  # bursts with a server: the running one and the next (BEHAVIOURS S4)
_ANY = 1 << 30
_STALE_S = 30.0  # figures that nobody renewed for so long prove nothing
_LONGER, _SHORTER = 0.125, 0.995  # the lead, after a burst that was split, and one that was not
_LEAST_LEAD = 0.25
"""Of the longest lead. A server that has nothing to do until a batch has come shows in no answer:
with it a model of 36 ms serves as many calls as without a gateway, else 0.95 of them."""
_SPLIT = 0.5  # of a batch of one call: two answers so far from one another are of two batches
_TRIED_S = 1.0  # a server that seems slower is tried again after so long, whatever it seems
_OVERDUE = 0.1  # of its time: how much longer than now a batch is taken to last that should be done
_LEAST_CHECK_S = 1e-3  # a batch of half a millisecond that hangs is no reason to do nothing else


@dataclass(slots=True)
class ServerStatus:
    """What holds for all instances of one server."""

    up: bool = True
    most: float = math.inf  # calls that it takes at once, by slow start
    in_flight: int = 0  # calls that were sent to it and have not ended
    gpu: SharedGpu = field(default_factory=SharedGpu)
    number: int = 0  # of this model there
    running: int = 0  # instances that have a batch
    idle: list[int] = field(default_factory=list)  # its instances that have none, as a heap
    turns: bool = False  # what is known of its batches is of those that had the GPU for themselves
    round_trip_s: float = 0.0  # the network's part of an answer's time: as assumed, until disproved

    @property
    def in_turns(self) -> bool:
        return self.gpu.one_at_a_time

    def taken_until_s(self, now_s: float) -> float:
        """Until when others have their turn."""
        return self.gpu.taken_until_s(self.number, now_s) if self.in_turns else -math.inf

    def turn_s(self) -> float:
        """When its next batch may be sent though it did not hear that the others have ended."""
        return self.gpu.given_up_s(self.number) if self.in_turns else -math.inf

    def may_send(self, due_s: float) -> bool:
        """Whether it is this model's turn, whose first call is due then."""
        return not self.in_turns or self.gpu.may(self.number, due_s)

    @property
    def alone(self) -> bool:
        """Whether no other model keeps it from sending a batch now, nor waits to send one."""
        # guard: S4.express-turn -> return True
        return not self.gpu.shared or self.gpu.clear_for(self.number)

    @property
    def room(self) -> int:
        if self.most >= _ANY:
            return _ANY
        left = self.most - self.in_flight
        return int(left) if left > 0.0 else 0


class Burst:
    """Calls that went to a server together, which makes them one batch there."""

    last_end_s = math.inf
    apart_s = 0.0  # the longest time between an answer and the next
    whole = True  # every call was answered: its time can be learnt from
    answered_s = -math.inf  # when the last of them was

    def __init__(
        self, work: float, earliest_s: float, left: set[int | str], ahead: bool, late: bool
    ) -> None:
        self.work, self.left = work, left
        self.earliest_s = earliest_s  # when an idle server would begin it
        self.calls = len(left)
        self.ahead = ahead  # sent while another was running
        self.late = late  # sent when that had just ended: those who waited could have been before


@dataclass(slots=True)
class Lead:
    """How much longer before the running batch's end the next one must be sent than the network
    alone asks for, as a share of the longest lead: found by trial.

    A burst takes its time to reach the server, call by call. If the running batch ends meanwhile,
    the server begins with what is there, and the burst is executed in two parts: all of them pay
    for the second. Its answers then come in two groups, a batch of one apart or more. So do those
    of a burst that is sent when the running batch has ended already: where bursts were split,
    batches seem to take longer than they will. The answers of one batch come one after the other,
    as the gateway gets to read them; however long all of them take, no two lie so far apart.
    """

    share: float = _LEAST_LEAD

    def observe(self, split: bool) -> None:
        longer, shorter = self.share + _LONGER, self.share * _SHORTER
        self.share = min(1.0, longer) if split else max(_LEAST_LEAD, shorter)


@dataclass(slots=True)
class Instance:
    """One of those of a server that execute its batches."""

    number: int  # of those of the group
    server: str
    model: BatchModel
    status: ServerStatus = field(default_factory=ServerStatus)
    bursts: list[Burst] = field(default_factory=list)
    overtaken: set[int | str] = field(default_factory=set)  # not answered, though later ones were
    lead: Lead = field(default_factory=Lead)
    began_s: float = -math.inf  # when the running burst began
    ended_s: float = -math.inf  # when the last burst had ended, and none was behind it
    contended_s: float = 0.0  # by the clock of its GPU, when it began
    renewed_s: float = 0.0  # when a batch told its time last

    def least_s(self, work: float, now_s: float) -> float:
        """What a batch takes for certain: nothing, while the figures are few or old. What seems
        too slow for every call would otherwise be sent none, and never show that it is not (D6)."""
        # guard: D6.cut-certainty -> sure_s = _STALE_S
        sure_s = _STALE_S if self.model.slower == 1.0 else _TRIED_S
        # guard: D6.refusal-sample -> sure = True
        sure = not self.model.cold and now_s - self.renewed_s <= sure_s
        return self.model.predict_s(work) if sure else 0.0

    def send_one(self, call: QueuedCall, now_s: float) -> None:
        """What `send` does with one call, where this is the first instance of its server that is
        idle."""
        status = self.status
        if status.gpu.shared:
            self.send((call,), now_s)
            return
        self.began_s = began_s = now_s + status.round_trip_s
        self.bursts.append(Burst(call.work, began_s, {call.id}, False, now_s == self.ended_s))
        status.in_flight += 1
        status.running += 1
        heapq.heappop(status.idle)

    def send(self, calls: tuple[QueuedCall, ...], now_s: float) -> None:
        status, bursts = self.status, self.bursts
        gpu, earliest_s = status.gpu, now_s + status.round_trip_s
        work, ids = sum([call.work for call in calls]), {call.id for call in calls}
        burst = Burst(work, earliest_s, ids, bool(bursts), now_s == self.ended_s)
        bursts.append(burst)
        status.in_flight += len(calls)  # guard: S2.sent-count
        if gpu.shared:
            gpu.sent()
        if not burst.ahead:
            status.running += 1
            if status.idle[0] == self.number:
                heapq.heappop(status.idle)
            else:
                status.idle.remove(self.number)
                heapq.heapify(status.idle)
            self._begin(earliest_s, now_s)
        elif gpu.shared:
            self._observe(now_s)

    def _begin(self, at_s: float, now_s: float) -> None:
        self.began_s = at_s
        if self.status.gpu.shared:
            self.contended_s = self.status.gpu.overlap_s(now_s)
            self._observe(now_s)

    def _observe(self, now_s: float) -> None:
        needs_s = self.model.predict_s(self.bursts[0].work)
        self.status.gpu.runs(self.status.number, needs_s, self.end_s(now_s), now_s)

    def free_s(self, now_s: float) -> float:
        """When everything that is with it should be done; never in the past."""
        end_s = self.end_s(now_s) if self.bursts else now_s
        status = self.status
        return max(end_s, status.taken_until_s(now_s)) if status.gpu.shared else end_s

    def end_s(self, now_s: float) -> float:
        """When its own batches should be done, of which there must be one."""
        end_s = self.running_end_s(now_s)
        for burst in self.bursts[1:]:
            end_s += self.model.predict_s(burst.work)
        return end_s

    def running_end_s(self, now_s: float) -> float:
        """When the running batch should end; never in the past."""
        took_s = self.model.predict_s(self.bursts[0].work)
        end_s = self.began_s + took_s
        return end_s if end_s >= now_s else now_s + _OVERDUE * took_s

    def due_s(self, now_s: float, lead_s: float) -> float:
        """When it should be sent its next batch; inf: not before something happens."""
        bursts, status = self.bursts, self.status
        if bursts and (lead_s <= 0.0 or len(bursts) >= _AT_MOST):  # guard: S4.batch-depth minus 4
            return math.inf
        if not (status.up and status.room):
            return math.inf
        due_s = now_s
        if bursts:
            end_s = self.began_s + self.model.predict_s(bursts[0].work)
            due_s = max(now_s, end_s - lead_s)
        return max(due_s, status.turn_s()) if status.gpu.shared else due_s

    def overdue_s(self, now_s: float) -> float:
        """When to look again whether the running batch has ended; inf: none is running."""
        if not self.bursts:
            return math.inf
        took_s = self.model.predict_s(self.bursts[0].work)
        return max(self.began_s + took_s, now_s) + max(_OVERDUE * took_s, _LEAST_CHECK_S)

    def ended(self, call_id: int | str, now_s: float, answered: bool) -> bool:
        """One of its calls ended. True: a batch has ended with it."""
        self.status.in_flight -= 1
        for at, burst in enumerate(self.bursts):
            left = burst.left
            if call_id in left:
                left.discard(call_id)
                if answered:
                    burst.answered_s = now_s
                else:
                    burst.whole = False
                if burst.calls > 1:
                    if now_s - burst.last_end_s > burst.apart_s:
                        burst.apart_s = now_s - burst.last_end_s
                    # guard: S4.batch-gap now_s -> min(now_s, burst.last_end_s)
                    burst.last_end_s = now_s
                if left:
                    return False
                self._ended(at, burst, now_s)
                return True
        self.overtaken.discard(call_id)
        return False

    def _ended(self, at: int, burst: Burst, now_s: float) -> None:
        """Batches are executed in turn: what came before one that has ended is not running any
        more, whatever became of the calls that were not answered."""
        bursts = self.bursts
        if at:
            for earlier in bursts[:at]:
                self.overtaken |= earlier.left
        elif burst.whole:
            self._learn(burst, now_s)
        else:
            self._learn_cut(burst, now_s)  # guard: D6.cut-estimate
        del bursts[: at + 1]
        if bursts:
            self._begin(max(now_s, bursts[0].earliest_s), now_s)
            return
        self.ended_s = now_s
        status = self.status
        status.running -= 1
        heapq.heappush(status.idle, self.number)
        if status.gpu.shared and not status.running:
            status.gpu.idle(status.number, now_s)

    def _learn_cut(self, burst: Burst, now_s: float) -> None:
        """Not all were awaited to the end. Where some were answered it had ended by then; else it
        lasted longer than until now."""
        if self.status.gpu.shared:
            return
        model, lasted_s = self.model, now_s - self.began_s
        if burst.answered_s > self.began_s:
            if model.slower > 1.0 or burst.answered_s - self.began_s > model.predict_s(burst.work):
                self.renewed_s = now_s
                model.observe(burst.work, burst.answered_s - self.began_s)
        elif model.at_least(burst.work, lasted_s):
            self.renewed_s = now_s

    def _learn(self, burst: Burst, now_s: float) -> None:
        self.renewed_s = now_s
        if now_s <= self.began_s and not burst.ahead:
            self._nearer(now_s)
        if self.status.gpu.shared:
            self._learn_contention(burst, now_s)
        else:
            self.model.observe(burst.work, now_s - self.began_s)
        if burst.ahead or burst.late:
            one_s = self.model.predict_s(burst.work / burst.calls)
            split = burst.apart_s > _SPLIT * one_s
            if burst.ahead or split:
                self.lead.observe(split)

    def _nearer(self, now_s: float) -> None:
        """An answer was here before its batch should have begun: the server is nearer than was
        assumed. How the time divides nobody knows; half of it is the network's from now on."""
        whole_s = max(0.0, now_s - (self.began_s - self.status.round_trip_s))
        self.status.round_trip_s = min(self.status.round_trip_s, whole_s / 2)
        self.began_s = now_s - whole_s / 2

    def _learn_contention(self, burst: Burst, now_s: float) -> None:
        """Where models take turns, a batch that went beside others says nothing of the next one."""
        gpu, number = self.status.gpu, self.status.number
        took_s, contended_s = now_s - self.began_s, gpu.overlap_s(now_s) - self.contended_s
        if not gpu.turns or contended_s <= ALONE * took_s:
            self.model.observe(burst.work, took_s)
        gpu.observe(number, self.model, burst.work, took_s, contended_s)
        needs = gpu.contention.needs(number) if gpu.turns else None
        if needs is not None and not self.status.turns:
            self.model.adopt(needs)
        self.status.turns = needs is not None
