"""How much time batches of different models cost each other on a GPU, and whether they take turns.

Which of both a GPU is, is learnt: a batch that had it to itself tells what it needs, one that met
others what it lost. The contention is the time that both sides lose, per second in which two were
there: 0 if they do not disturb each other, 1 if they get as much done as in turns. Now and then a
few batches go the other way, so that the figure stays true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.scheduling.estimates.batches import BatchModel

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
class TurnMode:
    """Whether batches of different models go one at a time, by the contention; None: unknown."""

    turns: bool = False
    _sent: int = 0  # batches
    _period: int = _PERIOD
    _trial: int = _PERIOD  # after so many batches

    def one_at_a_time(self, contention: float | None) -> bool:
        """Whether the next batch does, which may be one that goes the other way."""
        if contention is None:
            return self._sent % _UNSURE < _UNSURE / 2
        return self.turns != (self._sent >= self._trial)

    def sent(self, contention: float | None) -> None:
        self._sent += 1
        if self._sent >= self._trial + _TRIAL:
            in_doubt = contention is None or _CLEAR_APART < contention < _CLEAR_TURNS
            longer = min(2 * self._period, _LONGEST_PERIOD)
            self._period = _PERIOD if in_doubt else longer
            self._trial = self._sent + self._period

    def conclude(self, contention: float | None) -> None:
        if contention is None:
            return
        turns = contention >= (_TURNS_UNTIL if self.turns else _TURNS_FROM)
        if turns != self.turns:
            self.turns, self._period = turns, _PERIOD
            self._trial = self._sent + _PERIOD
