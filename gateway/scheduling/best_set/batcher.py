"""Which of those who wait make the next batch of a server."""

from __future__ import annotations

import math

from gateway.scheduling.best_set.waiting_calls import WaitingCalls
from gateway.scheduling.calls import QueuedCall, QueueLimits
from gateway.scheduling.servers.instance import Instance
from gateway.scheduling.tuning import Tuning

_FADE = 0.2  # per batch: the last five count


class Batcher:
    def __init__(self, waiting: WaitingCalls, tuning: Tuning, limits: QueueLimits) -> None:
        self.fill = 1.0
        """The share of a full batch that is sent while enough wait for one. Where many are cut,
        those who wait are served later than by full batches: whoever reckons with full ones keeps
        more of them than can be in time, who are then the reason for the next cut."""
        self._waiting = waiting
        self._line = waiting.line
        self._put_off = waiting.put_off.calls
        self._limits = limits
        self._tuning = tuning
        self._starved = 0.0

    def next(self, instance: Instance, now_s: float) -> tuple[QueuedCall, ...]:
        start_s = instance.free_s(now_s)
        calls: list[QueuedCall] = []
        if self._line.calls:
            most = instance.status.room  # guard: S2.batch-room -> most = 1 << 30
            calls = self._take(instance, min(self._how_many(instance, start_s), most))
        if self._put_off:
            self._add_put_off(calls, instance, start_s, now_s)
        for call in calls:
            del self._waiting.positions[call.id]
        return tuple(calls)

    def went_full(self) -> None:
        """A call alone, and no other would have had room beside it."""
        self.fill += _FADE * (1.0 - self.fill)

    def _take(self, instance: Instance, count: int) -> list[QueuedCall]:
        """The first of the line that may go to this instance."""
        line = self._line
        if not any(instance.server in call.avoid for call in line.calls[:count]):
            return line.pop_first(count)
        taken: list[QueuedCall] = []
        at = 0
        while at < len(line.calls) and len(taken) < count:
            if instance.server in line.calls[at].avoid:
                at += 1
            else:
                taken.append(line.pop(at))
        return taken

    def _how_many(self, instance: Instance, start_s: float) -> int:
        """The first calls of the line, fewer than fit if one more would make the tightest late."""
        rows = self._limits.max_batch
        works, dues = self._line.head(rows)
        safe_s = instance.model.per_work_s * self._tuning.batch_safety
        end_s = start_s + instance.model.fixed_s * self._tuning.batch_safety
        tightest_s = math.inf
        for count, (work, due_s) in enumerate(zip(works, dues, strict=True)):
            end_s += work * safe_s
            rows -= self._line.calls[count].rows
            if rows < 0:  # one that is larger than a batch has its own
                self._sent(1.0)
                return max(1, count)
            if count >= self._tuning.smallest_batch and end_s > tightest_s:
                self._cut(count)
                return count
            tightest_s = min(tightest_s, due_s)
        if rows == 0:
            self._sent(1.0)
        return len(works)

    def _cut(self, count: int) -> None:
        most = self._limits.max_batch
        rows = [call.rows for call in self._line.calls[:most]]
        if sum(rows) >= most:
            self._sent(sum(rows[:count]) / most)

    def _sent(self, share: float) -> None:
        self.fill += _FADE * (share - self.fill)

    def _add_put_off(
        self, calls: list[QueuedCall], instance: Instance, start_s: float, now_s: float
    ) -> None:
        """Places that nobody else takes, and now and then one that somebody would have taken, go to
        those who were put off, the oldest first (S4)."""
        # guard: S4.starved-share -> owed = self._starved
        owed = self._starved + len(calls) * self._tuning.starved_share
        self._starved = min(owed, 1.0)
        rows = self._limits.max_batch - sum(call.rows for call in calls)
        room = 0 if self._line.calls else rows
        if room <= 0 and owed >= 1.0:
            room = 1
        room = min(room, instance.status.room - len(calls))
        tightest_s = min((call.deadline_s for call in calls), default=math.inf)
        for call in list(self._put_off.values()):
            if room <= 0:
                return
            if instance.server in call.avoid:
                continue
            displaced = calls[-1:] if call.rows > rows else []
            work = sum(c.work for c in calls) - sum(c.work for c in displaced) + call.work
            freed = sum(c.rows for c in displaced)
            if call.rows > rows + freed and len(calls) > len(displaced):
                continue
            if start_s + instance.least_s(work, now_s) > min(tightest_s, call.deadline_s):
                continue
            for last in displaced:
                calls.pop()
                self._waiting.rejoin(last)
            calls.append(self._put_off.pop(call.id))
            tightest_s = min(tightest_s, call.deadline_s)
            rows += freed - call.rows
            room -= call.rows
            self._starved = 0.0
