"""The search finds the best choice of a made-up machine, and is not led astray by luck."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from gateway.models.declaration.tensors import Precision
from gateway.models.profiling import LoadPoint
from gateway.models.profiling.search import ChoiceTrial, ServingChoice
from gateway.models.profiling.search.climb import ChoiceResult, climb
from gateway.models.profiling.search.space import SearchSpace

pytestmark = pytest.mark.anyio

FP32, FP16, INT8 = Precision.FP32, Precision.FP16, Precision.INT8
START = ServingChoice(FP32, 1, None, 32, dynamic=True)
SPACE = SearchSpace(4, (FP32, INT8), frozenset({INT8}))


def point(callers: int, calls_per_s: float, p99_s: float = 0.01) -> LoadPoint:
    return LoadPoint(callers, calls_per_s, p99_s / 2, p99_s, 1.0)


@dataclass
class Machine:
    """Measures by a formula; `luck` is what the first measurement of a choice has beside it."""

    rate: Callable[[ServingChoice], float]
    p99_s: Callable[[ServingChoice], float] = lambda choice: 0.01
    luck: dict[ServingChoice, float] = field(default_factory=dict)
    seconds: int = 1000  # a trial takes one
    measured: list[ServingChoice] = field(default_factory=list)
    known: dict[ServingChoice, ChoiceTrial] = field(default_factory=dict)

    async def tried(self, choice: ServingChoice) -> ChoiceTrial:
        if choice not in self.known:
            self.known[choice] = self._trial(choice, self.luck.get(choice, 0.0))
        return self.known[choice]

    async def again(self, choice: ServingChoice) -> ChoiceTrial:
        self.known[choice] = self.known[choice].merged(self._trial(choice, 0.0))
        return self.known[choice]

    def _trial(self, choice: ServingChoice, luck: float) -> ChoiceTrial:
        self.measured.append(choice)
        rate = self.rate(choice)
        if not rate:
            return ChoiceTrial(choice, failure="does not load")
        return ChoiceTrial(choice, (point(1, rate + luck, self.p99_s(choice)),))

    async def search(
        self, space: SearchSpace = SPACE, limit_s: float | None = None
    ) -> ChoiceResult:
        left = itertools.count()
        return await climb(
            space, START, limit_s, self.tried, self.again, lambda: next(left) < self.seconds
        )


def two_of_two(choice: ServingChoice) -> float:
    """Two instances of two threads, which wait 100 us, are the best."""
    rate = 100.0
    rate *= 2 if (choice.instances, choice.threads) == (2, 2) else 1
    rate *= 1.5 if choice.delay_us == 100 else 1
    return rate * (1.2 if choice.preferred == (8,) else 1)


async def test_axes_that_help_together_are_found() -> None:
    machine = Machine(two_of_two)
    result = await machine.search()
    assert result.complete
    best = replace(START, instances=2, threads=2, delay_us=100, preferred=(8,))
    assert result.chosen.choice == best
    assert result.gain(None) == pytest.approx(3.6)
    again = set(machine.measured)
    assert len(machine.measured) == len(again) + 2  # the best and the declared, to be sure


async def test_what_is_no_gain_changes_nothing() -> None:
    result = await Machine(lambda choice: 102.0 if choice.threads else 100.0).search()
    assert not result.changes


async def test_a_choice_that_was_lucky_gives_way_to_the_next() -> None:
    lucky, good = replace(START, delay_us=500), replace(START, delay_us=100)
    machine = Machine(lambda choice: 130.0 if choice == good else 100.0, luck={lucky: 50.0})
    result = await machine.search()
    assert result.chosen.choice == good


async def test_luck_alone_changes_nothing() -> None:
    lucky = replace(START, delay_us=500)
    result = await Machine(lambda choice: 100.0, luck={lucky: 8.0}).search()
    assert not result.changes


async def test_rows_that_influence_each_other_are_never_batched() -> None:
    machine = Machine(lambda choice: 300.0 if choice.precision is INT8 else 100.0)
    result = await machine.search()
    assert result.chosen.choice.precision is INT8
    assert not any(choice.dynamic for choice in machine.measured if choice.precision is INT8)
    assert all(not c.delay_us and not c.preferred for c in machine.measured if not c.dynamic)


async def test_the_most_throughput_within_the_limit_is_chosen() -> None:
    slow = replace(START, delay_us=2000)
    machine = Machine(
        lambda choice: 500.0 if choice == slow else 200.0 if choice.delay_us == 100 else 100.0,
        lambda choice: 0.2 if choice == slow else 0.02,
    )
    assert (await machine.search(limit_s=0.05)).chosen.choice == replace(START, delay_us=100)
    assert (await machine.search(limit_s=None)).chosen.choice == slow


async def test_where_nothing_is_within_the_limit_the_quickest_is_told() -> None:
    machine = Machine(lambda choice: 100.0, lambda c: 0.1 if c.instances == 4 else 0.3)
    result = await machine.search(limit_s=0.01)
    assert result.chosen.choice.instances == 4
    assert result.chosen.best(0.01) is None
    assert result.gain(0.01) is None


async def test_what_does_not_serve_is_left_out() -> None:
    machine = Machine(lambda choice: 0.0 if choice.instances > 1 else two_of_two(choice))
    result = await machine.search()
    assert result.chosen.choice == replace(START, delay_us=100, preferred=(8,))


async def test_time_ends_a_search_with_the_best_so_far() -> None:
    machine = Machine(two_of_two, seconds=3)
    result = await machine.search()
    assert not result.complete
    assert len({*machine.measured}) == 4  # the declared one, and three in time


def test_threads_are_a_share_of_the_cores() -> None:
    choices = SearchSpace(8).along("placement", START)
    assert {(c.instances, c.threads) for c in choices} == {
        (1, 8), (1, 1), (2, 4), (2, 1), (4, 2), (4, 1), (8, 1)
    }  # fmt: skip


def test_a_smaller_batch_is_tried_only_where_it_is_asked_for() -> None:
    assert SPACE.along("batch", START) == []
    choices = SearchSpace(4, batches=(8, 32)).along("batch", replace(START, preferred=(4, 16)))
    assert [(c.max_batch, c.preferred) for c in choices] == [(8, (4,))]


def test_a_model_without_batches_has_none_to_search_for() -> None:
    alone = replace(START, max_batch=0, dynamic=False)
    space = replace(SPACE, batches=(4,))
    for axis in ("delay", "preferred", "batch"):
        assert space.along(axis, alone) == []
    assert {c.dynamic for c in space.along("precision", alone)} == {False}
