"""Which of the waiting calls stay on the premises.

They stand in the order of their deadlines, each with a predicted finish in batches over the group's
servers. While one of them would be late, whichever before it is worth least per second of GPU gives
way (weighted Moore-Hodgson): to the cloud at once if it may leave, else it is put off, and comes
back when there is room or is refused when it is provably late.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from gateway.scheduling.best_set.valuation import Valuation
from gateway.scheduling.best_set.waiting import NOBODY, Slot
from gateway.scheduling.best_set.waiting_calls import WaitingCalls
from gateway.scheduling.calls import (
    Action,
    CloudPermission,
    QueuedCall,
    QueueLimits,
    Refuse,
    SpillNow,
)
from gateway.scheduling.servers.group import Servers
from gateway.scheduling.servers.instance import Instance

_TRIES = 3  # calls that may fail to come back at one batch's end


def _free_in_s(slot: Slot) -> float:
    return slot.free_in_s


class Selection:
    def __init__(
        self, waiting: WaitingCalls, servers: Servers, valuation: Valuation, limits: QueueLimits
    ) -> None:
        self._waiting = waiting
        self._line = waiting.line
        self._put_off = waiting.put_off
        self._servers = servers
        self._model = servers.first_model
        self._valuation = valuation
        self._limits = limits

    def choose(self, up: Sequence[Instance], now_s: float, actions: list[Action]) -> None:
        """Until nobody in the line would be late, the least worthy before the first who would be
        goes."""
        line = self._line
        model = self._model
        slots = [Slot(s.free_s(now_s) - now_s, s.model.fixed_s, s.model.per_work_s) for s in up]
        if len(up) > len(line.calls):
            slots = heapq.nsmallest(len(line.calls), slots, key=_free_in_s)
        valuation = self._valuation
        stretch = valuation.stretch(now_s)
        fixed_s, calls = valuation.fixed_share_s, valuation.calls_a_batch
        while line.calls:
            last = len(line.calls) - 1
            if slots:
                last = line.first_late(slots, calls, stretch, now_s)
                if last == NOBODY:
                    return
                if line.hopeless(last, slots, now_s):
                    self._release_instead(last, up, now_s, actions)
                    continue
            cloud_open = self._limits.cloud_room >= 1
            at = line.least_worthy(last + 1, fixed_s, model.per_work_s, now_s, cloud_open)
            self._release_instead(at, up, now_s, actions)

    def _release_instead(
        self, at: int, up: Sequence[Instance], now_s: float, actions: list[Action]
    ) -> None:
        call = self._line.pop(at)
        if self._valuation.cloud_is_worth_it(call, now_s):  # guard: D4.late-spill
            # guard: D4.spill-reason -> actions.append(self._spilled(call, 'spill_queue'))
            actions.append(self._spilled(call, "spill_deadline"))
        elif call.leave is CloudPermission.NEVER and up and not self._put_off.hopeful(call):
            actions.append(self._refused(call, up, now_s))
        else:
            self._put_off.add(call, call.deadline_s - self._model.predict_s(call.work))

    def refuse_the_late(self, up: Sequence[Instance], now_s: float, actions: list[Action]) -> None:
        """Provably late: not even the next batch, with nobody else in it, would be in time."""
        start_s = self._servers.start_s(now_s) if up else now_s

        def last_start_s(call: QueuedCall) -> float:
            # guard: D4.early-refusal -> return -1e18 if call.deadline_s < now_s else 1e18
            return call.deadline_s - self._servers.least_s(call.work, now_s)

        for call in self._put_off.refuse_before(start_s, last_start_s):
            actions.append(self._refused(call, up, now_s))

    def bring_back(self, up: Sequence[Instance], now_s: float, actions: list[Action]) -> None:
        """Who was put off tries again, the worthiest first."""
        valuation = self._valuation
        worthiest = sorted(
            self._put_off.calls.values(),
            key=lambda call: call.penalty / valuation.gpu_s(call),
            reverse=True,
        )
        failed = 0
        for call in worthiest:
            if valuation.cloud_is_worth_it(call, now_s):
                self._put_off.take(call.id)
                actions.append(self._spilled(call, "spill_deadline"))
                continue
            if not up:
                continue
            self._put_off.take(call.id)
            self._waiting.rejoin(call)
            self.choose(up, now_s, actions)
            failed += call.id in self._put_off
            if failed >= _TRIES:
                return

    def turn_away(self, call: QueuedCall, now_s: float) -> SpillNow | Refuse:
        """What becomes of a call for which the queue has no room."""
        if self._valuation.cloud_is_worth_it(call, now_s):
            return self._spilled(call, "spill_queue")
        return Refuse(call, "queue_full", self._retry_after_s(self._servers.up, now_s))

    def _spilled(self, call: QueuedCall, why: str) -> SpillNow:
        self._waiting.positions.pop(call.id, None)
        self._put_off.forget(call.id)
        self._limits.cloud_room -= 1  # guard: S2.cloud-places
        return SpillNow(call, why)

    def _refused(self, call: QueuedCall, up: Sequence[Instance], now_s: float) -> Refuse:
        del self._waiting.positions[call.id]
        return Refuse(call, "deadline_unmeetable", self._retry_after_s(up, now_s))

    def _retry_after_s(self, up: Sequence[Instance], now_s: float) -> float:
        """When what is in the line now will be done."""
        line = self._line
        work_s = len(line) * self._valuation.fixed_share_s + line.work * self._model.per_work_s
        start_s = self._servers.start_s(now_s) - now_s if up else 0.0
        return start_s + work_s / max(1, len(up))
