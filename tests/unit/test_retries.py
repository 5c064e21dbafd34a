"""Second tries are bounded by what the calls earn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.pipeline.retries import RetryBudget
from tests.unit.spill.clock import HandClock


def test_a_server_that_dies_with_its_calls_lets_all_of_them_try_again() -> None:
    budget = RetryBudget(HandClock())
    assert all(budget.take() for _ in range(32))
    assert not budget.take()


def test_then_ten_calls_earn_one_more() -> None:
    clock = HandClock()
    budget = RetryBudget(clock, reserve=2)
    while budget.take():
        pass
    clock.pass_s(1.0)
    for _ in range(9):
        budget.calls += 1
    assert not budget.take()
    for _ in range(2):
        budget.calls += 1
    assert budget.take()


def test_a_calm_spell_fills_the_reserve() -> None:
    clock = HandClock()
    budget = RetryBudget(clock, reserve=3)
    while budget.take():
        pass
    clock.pass_s(10.0)
    assert [budget.take() for _ in range(4)] == [True, True, True, False]


@given(st.integers(1, 5000))
def test_when_everything_fails_the_tries_are_at_most_a_tenth_over_the_reserve(calls: int) -> None:
    budget = RetryBudget(HandClock(), reserve=32)
    tries = 0
    for _ in range(calls):
        budget.calls += 1
        tries += 1 + budget.take()
    assert tries <= 1.1 * calls + 32 + 1e-6
