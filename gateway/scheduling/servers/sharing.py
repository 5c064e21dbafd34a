"""Several models on one GPU: whether they take turns, and whose turn it is.

A GPU executes batches of different models side by side. Where it has room for both, that is a gain;
where it has not, each takes longer, and who has calls that cannot wait is held up by whoever sends
most. Then the gateway lets one batch go at a time, of the model whose first call is due first, and
every model's queue counts the arrivals of all when it keeps capacity for dearer ones.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Final

from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.demand import Demand, WaitStretch
from gateway.scheduling.servers.contention import Contention, TurnMode

_LATELY: Final = 0.15  # of the newest of its batches in the mean
_SHORT_S: Final = 0.01  # batches of such models take no turns: each costs a network time or two
_OVERDUE: Final = 0.1  # of its time: how much longer a batch is taken to last that should be done
_STALE: Final = 4  # lengths of memory that are kept for each model, of which one holds
_GIVEN_UP: Final = 1.0  # of its time: one that is overdue by so much holds up its own model alone


@dataclass(slots=True)
class _Model:
    """One of those on the GPU."""

    until_s: float = -math.inf  # when what it has there should be done
    needs_s: float = 0.0  # of the batch that is running
    batch_s: float = 0.0  # what its batches take of late

    def ends_s(self, now_s: float) -> float:
        """When its batch should be done; -inf: nobody waits for it any more."""
        late_s = now_s - self.until_s
        if late_s <= 0.0:
            return self.until_s
        return -math.inf if late_s > _GIVEN_UP * self.needs_s else now_s + _OVERDUE * self.needs_s


@dataclass(slots=True)
class LongestMemory:
    """Over how long each model counts its arrivals, and the longest of these times."""

    _by_model: dict[int, float] = field(default_factory=dict)
    _heap: list[tuple[float, int]] = field(default_factory=list)  # the longest first

    def remember(self, model: int, memory_s: float) -> None:
        if self._by_model.get(model) == memory_s:
            return
        self._by_model[model] = memory_s
        if len(self._heap) > _STALE * len(self._by_model):
            self._heap = [(-its_s, number) for number, its_s in self._by_model.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (-memory_s, model))

    def forget(self, model: int) -> None:
        self._by_model.pop(model, None)

    @property
    def longest_s(self) -> float:
        """0 until a call came."""
        heap = self._heap
        while heap and self._by_model.get(heap[0][1]) != -heap[0][0]:
            heapq.heappop(heap)
        return -heap[0][0] if heap else 0.0


@dataclass(slots=True)
class SharedGpu:
    """The models of one GPU, each by the number that `join` gave it."""

    contention: Contention = field(default_factory=Contention)
    demand: Demand = field(default_factory=Demand)  # of all of them
    shared: bool = False  # there is more than one
    _models: list[_Model] = field(default_factory=list)
    _vacant: list[int] = field(default_factory=list)  # numbers of those that have left
    _busy: dict[int, _Model] = field(default_factory=dict)  # that have a batch there
    _wanting: dict[int, float] = field(default_factory=dict)  # due times of what could be sent now
    _memory: LongestMemory = field(default_factory=LongestMemory)
    _mode: TurnMode = field(default_factory=TurnMode)
    _slow: set[int] = field(default_factory=set)  # whose batches are worth a turn
    _long: bool = False  # batches of one of them are worth a turn
    _overlap_s: float = 0.0
    _updated_s: float = 0.0
    _passed: bool = False  # the turn, from one model to another

    @property
    def vacant(self) -> int:
        """The number that the next one gets."""
        return self._vacant[-1] if self._vacant else len(self._models)

    def join(self) -> int:
        number = self.vacant
        if self._vacant:
            self._vacant.pop()
        else:
            self._models.append(_Model())
        self._count()
        return number

    def leave(self, model: int) -> None:
        """It has no calls any more and gets none."""
        self._busy.pop(model, None)
        self._wanting.pop(model, None)
        self._slow.discard(model)
        self._models[model] = _Model()
        self._memory.forget(model)
        self.contention.forget(model)
        self._vacant.append(model)
        self._count()

    def _count(self) -> None:
        self.shared = len(self._models) - len(self._vacant) > 1
        self._long = self.shared and bool(self._slow)

    @property
    def turns(self) -> bool:
        """Whether batches of different models go one at a time."""
        return self._mode.turns and self._long

    @property
    def one_at_a_time(self) -> bool:
        """The same of the next batch, which may be one that goes the other way."""
        return self._long and self._mode.one_at_a_time(self.contention.value)

    # What the models tell

    def wants(self, model: int, due_s: float) -> None:
        """The first call that it could send now is due then; inf: there is none."""
        if due_s < math.inf:
            self._wanting[model] = due_s
        else:
            self._wanting.pop(model, None)

    def observe_demand(
        self, model: int, density: float, gpu_s: float, now_s: float, memory_s: float
    ) -> None:
        """A call of it came, which needs so much of this GPU. The longest memory holds for all."""
        self._memory.remember(model, memory_s)
        density_class = self.demand.density_class(density)
        self.demand.arrived(density_class, gpu_s, now_s, self._memory.longest_s)

    def sent(self) -> None:
        self._mode.sent(self.contention.value)

    def runs(self, model: int, needs_s: float, until_s: float, now_s: float) -> None:
        """A batch of it has begun, or another was sent behind it."""
        shared = self._models[model]
        if model not in self._busy:
            self._advance(now_s)
            self._busy[model] = shared
        shared.needs_s, shared.until_s = needs_s, until_s

    def idle(self, model: int, now_s: float) -> None:
        if model in self._busy:
            self._advance(now_s)
            del self._busy[model]
            self._passed |= self.shared

    def observe(
        self, model: int, expected: BatchModel, work: float, took_s: float, contended_s: float
    ) -> None:
        """A batch ended that worked beside others for so long."""
        shared = self._models[model]
        shared.batch_s += _LATELY * (took_s - shared.batch_s) if shared.batch_s else took_s
        if shared.batch_s > _SHORT_S:
            self._slow.add(model)
        else:
            self._slow.discard(model)
        self._long = self.shared and bool(self._slow)
        self.contention.observe(model, expected, work, took_s, contended_s)
        self._mode.conclude(self.contention.value)

    # What they ask

    def overlap_s(self, now_s: float) -> float:
        """A clock that runs while there are two, twice as fast with three: of who is busy all the
        while, the difference of two readings is how long others were there."""
        self._advance(now_s)
        return self._overlap_s

    def stretch(self, reserve: float, margin: float, now_s: float) -> WaitStretch:
        return self.demand.stretch(1, reserve, margin, now_s, self._memory.longest_s)

    def taken_until_s(self, model: int, now_s: float) -> float:
        """When the others that are there should be done."""
        others = (m for number, m in self._busy.items() if number != model)
        return max((m.ends_s(now_s) for m in others), default=-math.inf)

    def given_up_s(self, model: int) -> float:
        """When nobody waits any more for what the others have there."""
        others = (m for number, m in self._busy.items() if number != model)
        return max((m.until_s + _GIVEN_UP * m.needs_s for m in others), default=-math.inf)

    def clear_for(self, model: int) -> bool:
        """Whether the others have nothing to send, nor their turn."""
        if len(self._wanting) > (model in self._wanting):
            return False
        return len(self._busy) == (model in self._busy) or not self.one_at_a_time

    def may(self, model: int, due_s: float) -> bool:
        """Whether no other's call is due before. If one is, that model is to be told."""
        first = all(due_s <= s for number, s in self._wanting.items() if number != model)
        self._passed |= not first
        return first

    def whose_turn(self) -> int | None:
        """Who is to be told, once, that it may send its batch."""
        if not self._passed:
            return None
        self._passed = False
        return min(((due_s, model) for model, due_s in self._wanting.items()), default=(0, None))[1]

    def _advance(self, now_s: float) -> None:
        if now_s > self._updated_s:
            self._overlap_s += (now_s - self._updated_s) * max(0, len(self._busy) - 1)
            self._updated_s = now_s
