"""What holds for the scheduler whatever happens: random calls, servers that fail, callers that
leave, clouds that close, calls that turn out to be restricted."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.scheduling.calls import (
    Action,
    CloudPermission,
    QueuedCall,
    Release,
    Scheduling,
    SpillNow,
)
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.estimates.latency import Tail
from gateway.scheduling.rules.baselines import RULES, OnArrival
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.tuning import Tuning

BATCH = 4
PER_CALL_S = 0.01
TAILS = (Tail(0.02), Tail(0.2), Tail(2.0))


class Story:
    """Drives one scheduler through a random life and checks every action that it asks for."""

    def __init__(self, draw: random.Random, waits: Scheduling, servers: list[str]) -> None:
        self.draw, self.waits, self.servers = draw, waits, servers
        self.now_s = 0.0
        self.known: dict[int | str, QueuedCall] = {}
        self.ends: dict[int | str, str] = {}
        self.running: dict[str, list[tuple[QueuedCall, ...]]] = {name: [] for name in servers}
        self.number = 0

    def take(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Release):
                self._released(action)
                continue
            call = self.known[action.call.id]
            if isinstance(action, SpillNow):
                assert call.leave is CloudPermission.FREELY, "a call left that may not"
                assert not call.restricted
                self._ends(call, "spilled")
            else:
                self._ends(call, "refused")
        assert self.waits.limits.cloud_room >= 0

    def _released(self, release: Release) -> None:
        assert 1 <= len(release.calls) <= BATCH, "a batch exceeds the server's maximum"
        for call in release.calls:
            self._ends(call, "released")
        self.running[release.server].append(release.calls)
        assert len(self.running[release.server]) <= 2, "more than the running batch and the next"

    def _ends(self, call: QueuedCall, how: str) -> None:
        assert call.id not in self.ends, f"{how} after it was {self.ends.get(call.id)}"
        self.ends[call.id] = how

    def pass_time(self, seconds: float) -> None:
        until_s, woken = self.now_s + seconds, 0
        while self.waits.wake_s <= until_s:
            self.now_s = max(self.now_s, self.waits.wake_s)
            self.take(self.waits.tick(self.now_s))
            assert self.waits.wake_s > self.now_s, "a timer that is due already never sleeps"
            woken += 1
        assert woken < 100 + 2000 * seconds, "timers leave no time for anything else"
        self.now_s = until_s

    def step(self) -> None:
        self.pass_time(self.draw.expovariate(1 / PER_CALL_S))
        what = self.draw.choices(
            (self.arrive, self.answer, self.cancel, self.change, self.outage, self.cloud,
             self.come_back, self.tick),
            weights=(50, 30, 3, 5, 2, 2, 5, 5),
        )[0]  # fmt: skip
        what()

    def arrive(self) -> None:
        self.number += 1
        leave = self.draw.choice(tuple(CloudPermission))
        call = QueuedCall(
            id=self.number,
            arrived_s=self.now_s,
            deadline_s=self.now_s + self.draw.choice((-0.1, 0.02, 0.1, 0.5, 3.0)),
            penalty=self.draw.choice((0.0, 1.0, 3.0, 20.0)),
            price=self.draw.uniform(0.0, 2.0),
            work=self.draw.uniform(0.2, 4.0),
            leave=leave,
            restricted=leave is CloudPermission.NEVER,
            cloud=self.draw.choice((None, *TAILS)),
        )
        self.known[call.id] = call
        self.take(self.waits.arrive(call, self.now_s))

    def answer(self) -> None:
        server = self.draw.choice(self.servers)
        if not self.running[server]:
            return
        batch = self.running[server].pop(0)
        fails = self.draw.random() < 0.1
        for call in batch:
            self.take(self.waits.ended(call.id, not fails, self.now_s))

    def cancel(self) -> None:
        waiting = [i for i in self.known if i not in self.ends]
        if waiting:
            gone = self.draw.choice(waiting)
            self.ends[gone] = "cancelled"
            self.take(self.waits.cancelled(gone, self.now_s))

    def change(self) -> None:
        waiting = [i for i in self.known if i not in self.ends]
        if waiting:
            call = self.known[self.draw.choice(waiting)]
            if call.leave is CloudPermission.NOT_YET and self.draw.random() < 0.5:
                call = replace(call, leave=CloudPermission.FREELY)
            else:
                call = replace(call, leave=CloudPermission.NEVER, restricted=True)
            self.known[call.id] = call
            self.take(self.waits.changed(call, self.now_s))

    def outage(self) -> None:
        up = self.draw.random() < 0.5
        self.take(self.waits.mark_up(self.draw.choice(self.servers), up, self.now_s))

    def cloud(self) -> None:
        self.waits.limits.cloud_room = self.draw.choice((0, 1, 5, math.inf))
        self.take(self.waits.tick(self.now_s))

    def come_back(self) -> None:
        """A call that was to leave may not."""
        spilled = [i for i, how in self.ends.items() if how == "spilled"]
        if spilled:
            call = replace(self.known[spilled[-1]], leave=CloudPermission.NEVER, restricted=True)
            self.known[call.id] = call
            del self.ends[call.id]
            self.take(self.waits.arrive(call, self.now_s))

    def tick(self) -> None:
        self.take(self.waits.tick(self.now_s))

    def finish(self) -> None:
        """Every server is up and answers; nobody may be left over."""
        for name in self.servers:
            self.take(self.waits.mark_up(name, True, self.now_s))
        for _ in range(20 * len(self.known) + 20):
            busy = [name for name in self.servers if self.running[name]]
            if not busy and not self.waits.waiting:
                break
            self.pass_time(PER_CALL_S)
            for name in busy:
                if self.running[name]:
                    for call in self.running[name].pop(0):
                        self.take(self.waits.ended(call.id, True, self.now_s))
            self.take(self.waits.tick(self.now_s))
        assert self.waits.waiting == 0
        assert self.ends.keys() == self.known.keys(), "somebody starved"


def scheduler(draw: random.Random, servers: list[str]) -> Scheduling:
    tuning = Tuning(
        margin=draw.choice((1.0, 1.2)),
        reserve=draw.choice((0.0, 0.9)),
        smallest_batch=draw.choice((1, 3)),
        max_waiting=draw.choice((5, 1000)),
    )
    lead_s = draw.choice((None, 0.0, 0.005))
    return Scheduler(models(servers), BATCH, tuning, lead_s, round_trip_s=0.001)


def models(servers: list[str]) -> dict[str, BatchModel]:
    return {name: BatchModel(0.01, 0.005) for name in servers}


@given(seed=st.integers(0, 2**32))
@example(seed=0)  # calls that were put off, and no server
@example(seed=17)  # a batch that takes far longer than the last ones
@settings(max_examples=200)
def test_the_scheduler_keeps_its_promises(seed: int) -> None:
    draw = random.Random(seed)
    servers = ["a", "b", "c"][: draw.randint(1, 3)]
    story = Story(draw, scheduler(draw, servers), servers)
    for _ in range(draw.choice((20, 200))):
        story.step()
    story.finish()


@pytest.mark.parametrize("rule", sorted(RULES))
@given(seed=st.integers(0, 2**32))
@settings(max_examples=15)
def test_so_do_the_simple_policies(rule: str, seed: int) -> None:
    draw = random.Random(seed)
    story = Story(draw, OnArrival(models(["a", "b"]), BATCH, RULES[rule]), ["a", "b"])
    for _ in range(100):
        story.step()
    story.finish()


@given(seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_few_and_many_are_decided_alike(seed: int) -> None:
    """Loops and arrays find the same first late call and the same least worthy one."""
    from gateway.scheduling.best_set import waiting
    from gateway.scheduling.estimates.demand import Demand

    draw = random.Random(seed)
    line, demand = waiting.WaitingQueue(), Demand()
    for number in range(draw.randint(1, waiting.FEW)):
        leave = draw.choice((CloudPermission.NEVER, CloudPermission.FREELY))
        call = QueuedCall(
            id=number, arrived_s=0.0, deadline_s=draw.uniform(0.01, 0.6), work=draw.uniform(0.2, 3),
            penalty=draw.uniform(1, 20), price=draw.uniform(0, 2), leave=leave,
            restricted=leave is CloudPermission.NEVER, cloud=draw.choice(TAILS),
        )  # fmt: skip
        density_class = demand.density_class(call.penalty)
        demand.arrived(density_class, 0.01, number / 100, 1.0)
        line.add(call, waiting.QueuePosition(call.deadline_s, call.deadline_s, density_class))
    slots = [waiting.Slot(draw.uniform(0, 0.05), 0.01, 0.005) for _ in range(draw.randint(1, 3))]
    stretch = demand.stretch(len(slots), 0.7, 1.1, 0.3, 1.0)
    few = line._first_small(slots, BATCH, stretch.few, 0.0)
    late = line._finish_in_s(slots, BATCH) * stretch.many[line._class] > line.dues_s()
    assert few == (int(late.argmax()) if late.any() else waiting.NOBODY)
