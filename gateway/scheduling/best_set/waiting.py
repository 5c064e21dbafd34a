"""The waiting calls of one scheduler in the order of their deadlines, as columns of numbers.

An event must stay cheap with a thousand waiting. What is asked of all of them (who would be late
first, who is worth least) is answered by a loop while they are few, and by arrays when they are
many: the columns are buffers that both read without a copy.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gateway.scheduling.calls import FREELY, QueuedCall
from gateway.scheduling.estimates.demand import WaitStretch
from gateway.scheduling.estimates.latency import GRID, Tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FEW: Final = 24  # up to so many a loop is faster
NOBODY: Final = -1


class QueuePosition(NamedTuple):
    """Where a call belongs in the line."""

    key: float  # what the line is sorted by
    due_s: float  # when the call should be done
    density_class: int


class Slot(NamedTuple):
    """A server as the line sees it."""

    free_in_s: float
    fixed_s: float
    per_work_s: float


class WaitingQueue:
    """Sorted by key; ties in the order of joining."""

    def __init__(self) -> None:
        self.calls: list[QueuedCall] = []
        self._keys = array("d")
        self._due_s = array("d")
        self._deadline_s = array("d")
        self._work = array("d")
        self._penalty = array("d")
        self._price = array("d")
        self._tail = array("q")
        self._class = array("q")
        self._columns = (
            self._keys, self._due_s, self._deadline_s, self._work, self._penalty, self._price,
            self._tail, self._class,
        )  # fmt: skip
        self._tails = _Tails()
        self._batches_before = np.zeros(0)
        self._batch = 0

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def first_key(self) -> float:
        """Of the first call; there must be one."""
        return self._keys[0]

    @property
    def work(self) -> float:
        """Of all of them."""
        few = len(self.calls) <= FEW
        return sum(self._work) if few else float(np.frombuffer(self._work).sum())

    def works(self) -> Floats:
        """Read it before the line changes: the numbers are the line's own."""
        return np.frombuffer(self._work)

    def dues_s(self) -> Floats:
        return np.frombuffer(self._due_s)

    def head(self, count: int) -> tuple[Sequence[float], Sequence[float]]:
        """Work and due time of the first calls."""
        return self._work[:count], self._due_s[:count]

    def add(self, call: QueuedCall, place: QueuePosition) -> None:
        # guard: S4.arrival-order bisect_right -> bisect_left
        at = bisect_right(self._keys, place.key)  # guard: S4.deadline-order -> at = len(self.calls)
        self._keys.insert(at, place.key)
        self._due_s.insert(at, place.due_s)
        self._deadline_s.insert(at, call.deadline_s)
        self._work.insert(at, call.work)
        self._penalty.insert(at, call.penalty)
        self._price.insert(at, call.price)
        self._class.insert(at, place.density_class)
        leaves = call.leave is FREELY and call.cloud is not None
        self._tail.insert(at, self._tails.index(call.cloud) if leaves and call.cloud else 0)
        self.calls.insert(at, call)

    def find(self, call_id: int | str, key: float) -> int:
        at = bisect_left(self._keys, key)
        while self.calls[at].id != call_id:
            at += 1
        return at

    def pop(self, at: int) -> QueuedCall:
        for column in self._columns:
            del column[at]
        return self.calls.pop(at)

    def pop_first(self, count: int) -> list[QueuedCall]:
        for column in self._columns:
            del column[:count]
        taken = self.calls[:count]
        del self.calls[:count]
        return taken

    def first_late(
        self, slots: Sequence[Slot], max_batch: int, stretch: WaitStretch, now_s: float
    ) -> int:
        """The first call that would be late even if its batch were cut behind it; NOBODY if all
        are in time. Batches go to whichever server is free first."""
        if len(self.calls) <= FEW:
            return self._first_small(slots, max_batch, stretch.few, now_s)
        wait_s = self._finish_in_s(slots, max_batch)
        wait_s *= stretch.many[np.frombuffer(self._class, dtype=np.int64)]
        late = wait_s > np.frombuffer(self._due_s) - now_s
        first = int(late.argmax())
        return first if late[first] else NOBODY

    def hopeless(self, at: int, slots: Sequence[Slot], now_s: float) -> bool:
        """Whether it would miss its deadline even if it were alone."""
        work, left_s = self._work[at], self._deadline_s[at] - now_s
        return all(s.free_in_s + s.fixed_s + s.per_work_s * work > left_s for s in slots)

    def _first_small(
        self, slots: Sequence[Slot], max_batch: int, stretch: Sequence[float], now_s: float
    ) -> int:
        if len(slots) == 1:
            return self._first_small_at(slots[0], max_batch, stretch, now_s)
        free = [(slot.free_in_s, at) for at, slot in enumerate(slots)]
        room, end_s, per_work_s = 0, 0.0, 0.0
        for at, work in enumerate(self._work):
            if room == 0:
                if at:
                    heapq.heapreplace(free, (end_s, free[0][1]))
                else:
                    heapq.heapify(free)
                slot = slots[free[0][1]]
                end_s, per_work_s, room = free[0][0] + slot.fixed_s, slot.per_work_s, max_batch
            end_s += work * per_work_s
            if end_s * stretch[self._class[at]] > self._due_s[at] - now_s:
                return at
            room -= 1
        return NOBODY

    def _first_small_at(
        self, slot: Slot, max_batch: int, stretch: Sequence[float], now_s: float
    ) -> int:
        end_s, fixed_s, per_work_s = slot
        columns = zip(self._work, self._class, self._due_s, strict=True)
        for at, (work, density_class, due_s) in enumerate(columns):
            if at % max_batch == 0:
                end_s += fixed_s
            end_s += work * per_work_s
            if end_s * stretch[density_class] > due_s - now_s:
                return at
        return NOBODY

    def _finish_in_s(self, slots: Sequence[Slot], max_batch: int) -> Floats:
        work = np.frombuffer(self._work).cumsum()
        n = len(work)
        if len(slots) == 1:
            slot = slots[0]
            work *= slot.per_work_s
            work += self._full_batches_before(n, max_batch) * slot.fixed_s
            work += slot.free_in_s + slot.fixed_s
            return work
        free = [(slot.free_in_s, at) for at, slot in enumerate(slots)]
        heapq.heapify(free)
        upto = [*work[max_batch - 1 :: max_batch].tolist(), float(work[-1])]
        before, begin_s, per_work_s = 0.0, [], []
        for end in upto[: -(-n // max_batch)]:
            free_in_s, at = free[0]
            slot = slots[at]
            begin_s.append(free_in_s + slot.fixed_s - before * slot.per_work_s)
            per_work_s.append(slot.per_work_s)
            end_s = free_in_s + slot.fixed_s + (end - before) * slot.per_work_s
            heapq.heapreplace(free, (end_s, at))
            before = end
        work *= np.repeat(per_work_s, max_batch)[:n]
        work += np.repeat(begin_s, max_batch)[:n]
        return work

    def _full_batches_before(self, n: int, max_batch: int) -> Floats:
        if len(self._batches_before) < n or self._batch != max_batch:
            self._batch = max_batch
            self._batches_before = np.floor(np.arange(2 * n) / max_batch)
        return self._batches_before[:n]

    def least_worthy(
        self, count: int, fixed_s: float, per_work_s: float, now_s: float, cloud_open: bool
    ) -> int:
        """Which of the first calls is worth least per second of GPU. What serving a call here saves
        is its whole penalty, or what the cloud would cost it if that is less. Of equals the last:
        it has waited least, and has the most time to be served elsewhere."""
        if count <= FEW:
            return self._least_small(count, fixed_s, per_work_s, now_s, cloud_open)
        worth = penalty = np.frombuffer(self._penalty, count=count)
        if cloud_open:
            left_s = np.frombuffer(self._deadline_s, count=count) - now_s
            late = self._tails.late(np.frombuffer(self._tail, np.int64, count), left_s)
            late *= penalty
            late += np.frombuffer(self._price, count=count)
            worth = np.minimum(late, penalty)
        gpu_s = np.frombuffer(self._work, count=count) * per_work_s
        gpu_s += fixed_s
        return int((worth / gpu_s).argmin())

    def _least_small(
        self, count: int, fixed_s: float, per_work_s: float, now_s: float, cloud_open: bool
    ) -> int:
        least, index = float("inf"), 0
        tails = self._tails
        for at in range(count):
            worth = self._penalty[at]
            if cloud_open and self._tail[at]:
                left_s = self._deadline_s[at] - now_s
                worth = min(worth, self._price[at] + worth * tails.late_one(self._tail[at], left_s))
            # guard: S4.worth-rate -> density = worth
            density = worth / (fixed_s + per_work_s * self._work[at])
            if density < least:  # guard: S4.least-worth -> if at == 0:
                least, index = density, at
        return index


class _Tails:
    """The clouds' latencies, drawn side by side, so that many calls can be asked about at once.
    Number 0 is of those that cannot leave: it is always late."""

    def __init__(self) -> None:
        self._tails: list[Tail | None] = [None]
        self._index: dict[int, int] = {}
        self._versions: list[int] = [0]
        self._drawn = np.ones((1, GRID + 1))
        self._steps_per_s = np.ones(1)

    def index(self, tail: Tail) -> int:
        position = self._index.get(id(tail))
        if position is None:
            position = self._index[id(tail)] = len(self._tails)
            self._tails.append(tail)
            self._versions.append(-1)
            self._drawn = np.concatenate([self._drawn, np.ones((1, GRID + 1))])
            self._steps_per_s = np.append(self._steps_per_s, 1.0)
        return position

    def late_one(self, which: int, within_s: float) -> float:
        tail = self._tails[which]
        return 1.0 if tail is None else tail.late(within_s)

    def late(self, which: NDArray[np.int64], within_s: Floats) -> Floats:
        for at, tail in enumerate(self._tails):
            if tail is not None and tail.version != self._versions[at]:
                self._versions[at] = tail.version
                self._steps_per_s[at], self._drawn[at] = tail.grid()
        steps = within_s * self._steps_per_s[which]
        np.clip(steps, 0.0, GRID, out=steps)
        drawn: Floats = self._drawn[which, steps.astype(np.int64)]
        return drawn
