"""A call that meets nobody goes to an idle server without being decided on: to the same one, and
with everything left as the decision would have left it."""

from __future__ import annotations

import math
import random
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.scheduling.best_set.waiting import QueuePosition
from gateway.scheduling.calls import Action, CloudPermission, QueuedCall, Release
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import Tail
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.servers.sharing import SharedGpu
from gateway.scheduling.tuning import Tuning

TAILS = (None, Tail(0.02), Tail(0.2), Tail(2.0))
BUDGETS_S = (-0.1, 0.005, 0.02, 0.1, 0.5, 3.0)


class Short(Scheduler):
    """Counts who went the short way."""

    went = 0

    def _at_once(self, call: QueuedCall, place: QueuePosition, now_s: float) -> list[Action] | None:
        actions = super()._at_once(call, place, now_s)
        Short.went += actions is not None
        return actions


class Long(Scheduler):
    """Decides on everybody."""

    def _at_once(self, call: QueuedCall, place: QueuePosition, now_s: float) -> list[Action] | None:
        return None


class Pair:
    """Models that may share their servers' GPUs, each with a queue of either kind."""

    def __init__(self, draw: random.Random) -> None:
        self.servers = ["a", "b", "c"][: draw.randint(1, 3)]
        self.batch, self.now_s = draw.choice((1, 1, 4)), 0.0
        lead_s, scale_s = draw.choice((0.0, None, 0.005)), draw.choice((0.002, 0.01, 0.05))
        tuning = Tuning(
            reserve=draw.choice((0.0, 0.9)), smallest_batch=draw.choice((1, 3)),
            max_waiting=draw.choice((5, 1000)),
        )  # fmt: skip
        speed = {name: scale_s * draw.choice((1, 1, 2)) for name in self.servers}
        models, share = draw.choice((1, 1, 2, 3)), draw.random() < 0.6
        self.sides: list[list[Scheduler]] = []
        self.gpus: list[Mapping[str, SharedGpu]] = []
        for kind in (Short, Long):
            gpus = {name: SharedGpu() for name in self.servers} if share else {}
            self.gpus.append(gpus)
            self.sides.append([
                kind({n: BatchModel(s, s / 2) for n, s in speed.items()}, self.batch, tuning,
                     lead_s, 0.001, gpus)
                for _ in range(models)
            ])  # fmt: skip
        self.waiting: list[set[int | str]] = [set() for _ in range(models)]
        self.running: list[list[tuple[int | str, ...]]] = [[] for _ in range(models)]
        self.calls: dict[int | str, QueuedCall] = {}
        instances = draw.choice((1, 1, 3, 9))
        for at in range(models):
            for name in self.servers:
                self.happens(at, partial(_grown, name=name, instances=instances))
        self.gap_s = scale_s / draw.choice((0.3, 1, 3))

    def happens(self, at: int, event: Callable[[Scheduler], list[Action]]) -> None:
        """To the queue of one model; then whoever has the next turn on a GPU is told."""
        short, long = (event(side[at]) for side in self.sides)
        assert short == long
        assert self.sides[0][at].wake_s == self.sides[1][at].wake_s
        for action in short:
            if isinstance(action, Release):
                ids = tuple(call.id for call in action.calls)
                self.waiting[at].difference_update(ids)
                self.running[at].append(ids)
            else:
                self.waiting[at].discard(action.call.id)
        for name in self.gpus[0]:
            turns = [gpus[name].whose_turn() for gpus in self.gpus]
            assert turns[0] == turns[1]
            if turns[0] is not None:
                self.happens(turns[0], lambda its: its.tick(self.now_s))

    def step(self, draw: random.Random) -> None:
        self.now_s = now_s = self.now_s + draw.expovariate(1 / self.gap_s)
        at = draw.randrange(len(self.waiting))
        if self.sides[0][at].wake_s <= now_s:
            self.happens(at, lambda its: its.tick(now_s))
        what = draw.choices(
            (self.arrive, self.answer, self.cancel, self.change, self.stand, self.outside),
            weights=(50, 45, 3, 3, 3, 4),
        )[0]  # fmt: skip
        what(draw, at)

    def arrive(self, draw: random.Random, at: int) -> None:
        leave, now_s = draw.choice(tuple(CloudPermission)), self.now_s
        call = QueuedCall(
            len(self.calls), now_s, now_s + draw.choice(BUDGETS_S), draw.choice((0.0, 1.0, 20.0)),
            price=draw.uniform(0.0, 2.0), work=draw.uniform(0.2, 4.0),
            rows=draw.choice((1, 1, 1, 2, 5)), leave=leave,
            restricted=leave is CloudPermission.NEVER,
            cloud=draw.choice(TAILS), later_s=draw.choice((0.0, 10.0)),
            avoid=frozenset(self.servers[:1]) if draw.random() < 0.05 else frozenset(),
        )  # fmt: skip
        self.calls[call.id] = call
        self.waiting[at].add(call.id)
        expected = {side[at].completion_s(call, call.deadline_s, now_s) for side in self.sides}
        assert len(expected) == 1
        self.happens(at, lambda its: its.arrive(call, now_s))

    def answer(self, draw: random.Random, at: int) -> None:
        if self.running[at]:
            answered = draw.random() < 0.9
            for call_id in self.running[at].pop(draw.choice((0, 0, -1))):
                self.happens(
                    at, partial(_ended, call_id=call_id, answered=answered, at_s=self.now_s)
                )

    def cancel(self, draw: random.Random, at: int) -> None:
        if self.waiting[at]:
            gone = draw.choice(sorted(self.waiting[at], key=str))
            self.waiting[at].discard(gone)
            self.happens(at, lambda its: its.cancelled(gone, self.now_s))

    def change(self, draw: random.Random, at: int) -> None:
        if self.waiting[at]:
            found = self.calls[draw.choice(sorted(self.waiting[at], key=str))]
            stays = replace(found, leave=CloudPermission.NEVER, restricted=True)
            self.happens(at, lambda its: its.changed(stays, self.now_s))

    def stand(self, draw: random.Random, at: int) -> None:
        name, up = draw.choice(self.servers), draw.random() < 0.7
        self.happens(at, lambda its: its.mark_up(name, up, self.now_s))

    def outside(self, draw: random.Random, at: int) -> None:
        room, name = draw.choice((0, 1, 5, math.inf)), draw.choice(self.servers)
        for side in self.sides:
            side[at].limits.cloud_room = room
        if draw.random() < 0.3:
            most = draw.choice((0, 1, 3, math.inf))
            self.happens(at, lambda its: its.limit(name, most, self.now_s))


def _grown(its: Scheduler, name: str, instances: int) -> list[Action]:
    return its.grow(name, instances, 0.0)


def _ended(its: Scheduler, call_id: int | str, answered: bool, at_s: float) -> list[Action]:
    return its.ended(call_id, answered, at_s)


def state(of: Any, known: dict[int, int]) -> Any:
    """All that there is of it, to compare. What the line knows of clouds is of those who stood in
    it, and the drawing of a demand is good for whoever asks next."""
    if of is None or isinstance(of, str | int | float | CloudPermission | Tail):
        return of
    if id(of) in known:
        return known[id(of)]
    known[id(of)] = len(known)
    if isinstance(of, np.ndarray):
        return of.tolist()
    if isinstance(of, dict):
        return [(state(k, known), state(v, known)) for k, v in of.items()]
    if isinstance(of, set | frozenset):
        return sorted(map(str, of))
    if isinstance(of, list | tuple | deque | array):
        return [state(each, known) for each in of]
    return {name: state(getattr(of, name), known) for name in _names(of)}


def _names(of: Any) -> Iterable[str]:
    slots = [n for kind in type(of).__mro__ for n in getattr(kind, "__slots__", ())]
    own = [*slots, *getattr(of, "__dict__", ())]
    return sorted(n for n in own if n not in _APART and not n.startswith("__"))


_APART = {"_tails", "_tail", "_columns", "_sigma_s"}


@given(seed=st.integers(0, 2**32))
@settings(max_examples=400)
def test_the_short_way_does_what_the_decision_does(seed: int) -> None:
    draw = random.Random(seed)
    pair = Pair(draw)
    for _ in range(draw.choice((8, 8, 8, 60))):
        pair.step(draw)
    short, long = (state(side, {}) for side in zip(pair.sides, pair.gpus, strict=True))
    assert short == long


def test_most_calls_that_meet_nobody_go_the_short_way() -> None:
    """Or there would be nothing to compare."""
    Short.went, arrived = 0, 0
    for seed in range(40):
        draw = random.Random(seed)
        pair = Pair(draw)
        for _ in range(60):
            pair.step(draw)
        arrived += len(pair.calls)
    assert Short.went > arrived / 8
