"""Several models on one GPU: whether they take turns, and whose turn it is.

A GPU executes batches of different models side by side. Where it has room for both, that is a gain;
where it has not, each takes longer, and who has calls that cannot wait is held up by whoever sends
most. Then the gateway lets one batch go at a time, of the model whose first call is due first, and
every model's queue counts the arrivals of all when it keeps capacity for dearer ones.

Which of both a server is, is learnt: a batch that had the GPU to itself tells what it needs, one
that met others what it lost. The contention is the time that both sides lose, per second in which
two were there: 0 if they do not disturb each other, 1 if they get as much done as in turns. Now and
then a few batches go the other way, so that the figure stays true.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Final

from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.demand import Demand, WaitStretch

ALONE: Final = 0.1  # of a batch's time beside others, at most: it tells what it needs by itself
_LEAST_OVERLAP: Final = 0.25  # at least: it tells what it lost
_FADE: Final = 0.98  # per batch that told what it lost: the last 50 count, as hosts are noisy
_ENOUGH: Final = 16.0  # of them, before anything is concluded
_LATELY: Final = 0.15  # of the newest of those that were alone in the mean
_TURNS_FROM, _TURNS_UNTIL = 0.8, 0.7  # contention at which turns begin, and end
_MOST: Final = 2.0  # contention
_TRIAL: Final = 2  # batches that go the other way
_PERIOD, _LONGEST_PERIOD = 32, 512  # batches from one trial to the next: twice as many every time
_CLEAR_TURNS, _CLEAR_APART = 0.9, 0.6  # contention beyond which nothing is in doubt; else the first
_UNSURE: Final = 8  # batches, of which half go either way, until enough is known
_SHORT_S: Final = 0.01  # batches of such models take no turns: each costs a network time or two
_OVERDUE: Final = 0.1  # of its time: how much longer a batch is taken to last that should be done
_STALE: Final = 4  # lengths of memory that are kept for each model, of which one holds
_GIVEN_UP: Final = 1.0  # of its time: one that is overdue by so much holds up its own model alone


@dataclass(slots=True)
class _Needs:
    """What one model's batches take by themselves."""

    model: BatchModel
    lately: float = 1.0  # times that, at the last few: a host that is slow now is so for all

    def observe(self, work: float, took_s: float) -> None:
        if not self.model.cold:
            self.lately += _LATELY * (took_s / self.model.predict_s(work) - self.lately)
        self.model.observe(work, took_s)

    def predict_s(self, work: float) -> float:
        return self.model.predict_s(work) * self.lately


class Contention:
    """How much time batches of different models cost each other, on one GPU."""

    __slots__ = ("_lost_s", "_n", "_needs", "_overlap_s")

    def __init__(self) -> None:
        self._needs: dict[int, _Needs] = {}  # by model
        self._n = self._lost_s = self._overlap_s = 0.0

    @property
    def value(self) -> float | None:
        """None: nothing is known."""
        if self._n < _ENOUGH:
            return None
        return min(max(2.0 * self._lost_s / self._overlap_s, 0.0), _MOST)

    def needs(self, model: int) -> BatchModel | None:
        """What its batches take by themselves; None: too few were alone."""
        needs = self._needs.get(model)
        return None if needs is None or needs.model.cold else needs.model

    def forget(self, model: int) -> None:
        self._needs.pop(model, None)

    def observe(
        self, model: int, expected: BatchModel, work: float, took_s: float, contended_s: float
    ) -> None:
        """`expected`: what is thought of the model's batches, whoever else was there. One that was
        answered sooner than the network alone should take tells nothing."""
        if took_s <= 0.0:
            return
        needs = self._needs.get(model)
        if needs is None:
            prior = BatchModel(expected.fixed_s, expected.per_work_s)
            needs = self._needs[model] = _Needs(prior)
        if contended_s <= ALONE * took_s:
            needs.observe(work, took_s)
        elif contended_s >= _LEAST_OVERLAP * took_s and not needs.model.cold:
            lost_s = took_s - needs.predict_s(work)
            self._n = self._n * _FADE + 1.0
            self._lost_s = self._lost_s * _FADE + min(max(lost_s, -contended_s), contended_s)
            self._overlap_s = self._overlap_s * _FADE + contended_s


@dataclass(slots=True)
class _Model:
    """One of those on the GPU."""

    until_s: float = -math.inf  # when what it has there should be done
    needs_s: float = 0.0  # of the batch that is running
    memory_s: float = 0.0  # over which its arrivals are counted
    batch_s: float = 0.0  # what its batches take of late


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
    _memories: list[tuple[float, int]] = field(default_factory=list)  # heap: the longest first
    _slow: set[int] = field(default_factory=set)  # whose batches are worth a turn
    _turns: bool = False
    _long: bool = False  # batches of one of them are worth a turn
    _sent: int = 0  # batches
    _period: int = _PERIOD
    _trial: int = _PERIOD  # after so many batches
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
        self.contention.forget(model)
        self._vacant.append(model)
        self._count()

    def _count(self) -> None:
        self.shared = len(self._models) - len(self._vacant) > 1
        self._long = self.shared and bool(self._slow)

    @property
    def turns(self) -> bool:
        """Whether batches of different models go one at a time."""
        return self._turns and self._long

    @property
    def one_at_a_time(self) -> bool:
        """The same of the next batch, which may be one that goes the other way."""
        if not self._long:
            return False
        if self.contention.value is None:
            return self._sent % _UNSURE < _UNSURE / 2
        return self._turns != (self._sent >= self._trial)

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
        if memory_s != self._models[model].memory_s:
            self._models[model].memory_s = memory_s
            self._remembers(model, memory_s)
        self.demand.arrived(self.demand.density_class(density), gpu_s, now_s, self._memory_s)

    def _remembers(self, model: int, memory_s: float) -> None:
        if len(self._memories) > _STALE * len(self._models):
            self._memories = [(-m.memory_s, n) for n, m in enumerate(self._models)]
            heapq.heapify(self._memories)
        heapq.heappush(self._memories, (-memory_s, model))

    def sent(self) -> None:
        self._sent += 1
        if self._sent >= self._trial + _TRIAL:
            longer = min(2 * self._period, _LONGEST_PERIOD)
            self._period = _PERIOD if self._in_doubt else longer
            self._trial = self._sent + self._period

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
        value = self.contention.value
        if value is not None:
            turns = value >= (_TURNS_UNTIL if self._turns else _TURNS_FROM)
            if turns != self._turns:
                self._turns, self._period = turns, _PERIOD
                self._trial = self._sent + _PERIOD

    @property
    def _in_doubt(self) -> bool:
        value = self.contention.value
        return value is None or _CLEAR_APART < value < _CLEAR_TURNS

    # What they ask

    def overlap_s(self, now_s: float) -> float:
        """A clock that runs while there are two, twice as fast with three: of who is busy all the
        while, the difference of two readings is how long others were there."""
        self._advance(now_s)
        return self._overlap_s

    def stretch(self, reserve: float, margin: float, now_s: float) -> WaitStretch:
        return self.demand.stretch(1, reserve, margin, now_s, self._memory_s)

    @property
    def _memory_s(self) -> float:
        """The longest; 0 until a call came."""
        memories, models = self._memories, self._models
        while memories and models[memories[0][1]].memory_s != -memories[0][0]:
            heapq.heappop(memories)
        return -memories[0][0] if memories else 0.0

    def taken_until_s(self, model: int, now_s: float) -> float:
        """When the others that are there should be done."""
        others = (m for number, m in self._busy.items() if number != model)
        return max((self._until_s(m, now_s) for m in others), default=-math.inf)

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

    @staticmethod
    def _until_s(model: _Model, now_s: float) -> float:
        late_s = now_s - model.until_s
        if late_s <= 0.0:
            return model.until_s
        return -math.inf if late_s > _GIVEN_UP * model.needs_s else now_s + _OVERDUE * model.needs_s

    def _advance(self, now_s: float) -> None:
        if now_s > self._updated_s:
            self._overlap_s += (now_s - self._updated_s) * max(0, len(self._busy) - 1)
            self._updated_s = now_s
