"""How much models on one GPU disturb each other is found out from their batches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from gateway.scheduling.calls import Action, Release
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.servers.contention import Contention
from gateway.scheduling.servers.sharing import SharedGpu
from tests.unit.scheduling.calls import (
    BATCH,
    FIXED_S,
    FULL_S,
    PER_WORK_S,
    Seen,
    finish,
    restricted,
    steady_model,
)
from tests.unit.scheduling.shared import in_turns, teach, two


def told(contention: Contention, beside: float, took_s: float, times: int = 20) -> None:
    for _ in range(times):
        contention.observe(0, steady_model(), 16.0, took_s, beside * took_s)


@pytest.mark.parametrize(
    ("took_s", "beside", "found"),
    [
        (FULL_S, 1.0, 0.0),  # not disturbed
        (2 * FULL_S, 1.0, 1.0),  # half of the speed, all the while
        (1.5 * FULL_S, 2 / 3, 1.0),  # the same, of a batch that met another for a part
        (1.5 * FULL_S, 1.0, 2 / 3),
        (9 * FULL_S, 1.0, 16 / 9),  # worse than in turns
        (0.9 * FULL_S, 1.0, 0.0),  # never below
    ],
)
def test_contention_is_what_both_lose_of_the_time_that_they_spend_together(
    took_s: float, beside: float, found: float
) -> None:
    contention = Contention()
    told(contention, 0.0, FULL_S)
    told(contention, beside, took_s)
    assert contention.value == pytest.approx(found, abs=0.01)


def test_nothing_is_concluded_before_batches_were_alone_and_beside_others() -> None:
    contention = Contention()
    told(contention, 1.0, 2 * FULL_S, times=50)
    assert contention.value is None, "nobody knows what they need by themselves"
    told(contention, 0.0, FULL_S)
    told(contention, 1.0, 2 * FULL_S, times=5)
    assert contention.value is None
    told(contention, 1.0, 2 * FULL_S, times=20)
    assert contention.value == pytest.approx(1.0, abs=0.01)


def test_a_host_that_is_slow_for_everybody_is_not_contention() -> None:
    contention = Contention()
    told(contention, 0.0, FULL_S)
    for _ in range(20):
        told(contention, 0.0, 1.5 * FULL_S, times=1)
        told(contention, 1.0, 1.5 * FULL_S, times=1)
    assert contention.value == pytest.approx(0.0, abs=0.15)


def test_a_batch_loses_no_more_to_others_than_the_time_that_they_were_there() -> None:
    contention = Contention()
    told(contention, 0.0, FULL_S)
    told(contention, 1.0, FULL_S, times=40)
    told(contention, 0.3, 10 * FULL_S, times=1)
    assert contention.value is not None
    assert contention.value < 0.4


@pytest.mark.parametrize("took_s", [0.0, -0.0005])
def test_batches_that_seem_to_take_no_time_tell_nothing(took_s: float) -> None:
    contention = Contention()
    told(contention, 0.0, FULL_S)
    for _ in range(20):
        contention.observe(0, steady_model(), 16.0, took_s, 0.0)
    assert contention.value is None
    told(contention, 1.0, 1.5 * FULL_S)
    assert contention.value == pytest.approx(2 / 3, abs=0.01)


def test_answers_that_are_quicker_than_the_network_seemed_to_be_end_their_batches() -> None:
    gpu = SharedGpu()
    gpu.join()
    model = Scheduler({"gpu": steady_model()}, BATCH, round_trip_s=0.001, gpus={"gpu": gpu})
    for at, took_s in enumerate([FULL_S] * 20 + [0.0005] * 20):
        seen = Seen()
        seen(model.arrive(restricted(60.0, float(at)), float(at)))
        seen(finish(model, seen.releases[0], at + took_s))
    assert model.servers.in_flight("gpu") == 0


def test_turns_begin_late_and_end_late() -> None:
    gpu = SharedGpu()
    gpu.join()
    gpu.join()
    found = []
    for lost in (0.75, 0.85, 0.75, 0.65, 0.75):
        teach(gpu, lost)
        found.append(gpu.turns)
    assert found == [False, True, True, False, False]


@dataclass(slots=True)
class Running:
    model: int
    release: Release
    left_s: float


@dataclass
class Site:
    """Two models, each with calls that never end, on a server that executes their batches at once,
    at 1 / (1 + `slower`) of their speed, or one after the other."""

    slower: float
    at_once: bool = True
    gpu: SharedGpu = field(default_factory=SharedGpu)
    now_s: float = 0.0
    most_together: int = 0

    def __post_init__(self) -> None:
        self.models = two(self.gpu)
        self.at_work: list[Running] = []
        self.random = random.Random(3)

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            for number, model in enumerate(self.models):
                while model.waiting < BATCH:
                    call = restricted(60.0, self.now_s, work=self.random.uniform(0.5, 1.5))
                    self._do(number, model.arrive(call, self.now_s))
            self._step()

    def _do(self, number: int, actions: list[Action]) -> None:
        for action in actions:
            assert isinstance(action, Release)
            needs_s = FIXED_S + PER_WORK_S * sum(call.work for call in action.calls)
            self.at_work.append(Running(number, action, needs_s))
            self.most_together = max(self.most_together, len(self.at_work))
        for _ in self.models:
            turn = self.gpu.whose_turn()
            if turn is not None:
                self._do(turn, self.models[turn].tick(self.now_s))

    def _step(self) -> None:
        working = self.at_work if self.at_once else self.at_work[:1]
        slowness = 1 + self.slower * (len(working) - 1)
        wake_s = min(model.wake_s for model in self.models)
        step_s = min([run.left_s * slowness for run in working] + [wake_s - self.now_s])
        self.now_s += max(step_s, 0.0)
        for run in working:
            run.left_s -= step_s / slowness
        done = [run for run in working if run.left_s < 1e-9]
        self.at_work = [run for run in self.at_work if run not in done]
        for run in done:
            self._do(run.model, finish(self.models[run.model], run.release, self.now_s))
        for number, model in enumerate(self.models):
            if not done and model.wake_s <= self.now_s:
                self._do(number, model.tick(self.now_s))


@pytest.mark.parametrize(
    ("site", "contention"),
    [
        (Site(0.0), 0.0),
        (Site(0.5), 2 / 3),
        (Site(1.0), 1.0),
        (Site(0.0, at_once=False), 1.0),
    ],
    ids=["room for both", "half", "shared", "one at a time"],
)
def test_a_server_is_found_out_under_load_and_taken_as_it_is(site: Site, contention: float) -> None:
    site.run(10.0)
    assert site.gpu.contention.value == pytest.approx(contention, abs=0.1)
    assert site.gpu.turns == (contention > 0.8)
    for model in site.models:
        assert model.servers.model("gpu").error.mean == pytest.approx(0.0, abs=0.06)


def test_who_was_found_out_is_tried_again_ever_more_rarely() -> None:
    gpu = in_turns()
    other_way = []
    for sent in range(1500):
        if not gpu.one_at_a_time:
            other_way.append(sent)
        gpu.sent()
    gaps = [b - a for a, b in pairwise(other_way) if b - a > 1]
    assert len(gaps) >= 3
    assert gaps == sorted(gaps)
    assert gaps[-1] > 4 * gaps[0]


def test_a_server_that_changes_is_found_out() -> None:
    site = Site(1.0)
    site.run(4.0)
    assert site.gpu.turns
    site.slower = 0.0
    site.run(20.0)
    assert not site.gpu.turns


def test_a_batch_that_met_another_on_trial_tells_nothing_of_those_that_will_not() -> None:
    one, other = two(gpu := in_turns())
    while gpu.one_at_a_time:
        gpu.sent()
    seen, others = Seen(), Seen()
    seen(one.arrive(restricted(), 0.0))
    others(other.arrive(restricted(), 0.0))
    for _ in range(40):
        seen(finish(one, seen.releases[-1], 9.0))
    assert len(seen.releases) == len(others.releases) == 1
    assert one.servers.model("gpu").error.batches == 64


def test_batches_that_are_as_short_as_a_handover_take_no_turns() -> None:
    gpu = SharedGpu()
    gpu.join()
    gpu.join()
    quick = BatchModel(0.001, 0.0)
    for beside in (0.0, 1.0):
        for _ in range(100):
            gpu.observe(0, quick, 1.0, 0.001 * (1 + beside), 0.002 * beside)
    assert gpu.contention.value == pytest.approx(1.0, abs=0.01)
    assert not gpu.turns
    assert not any(in_each_period(gpu))
    for _ in range(20):
        gpu.observe(1, steady_model(), 16.0, FULL_S, 0.0)
    assert gpu.turns


def in_each_period(gpu: SharedGpu) -> Iterator[bool]:
    for _ in range(100):
        yield gpu.one_at_a_time
        gpu.sent()
