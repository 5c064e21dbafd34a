"""What the cloud may cost in 24 hours (S5), with hysteresis where it opens again (S1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import SpillClosed
from gateway.spill import SpillBudgets, SpillControl, SpillStop
from tests.unit.spill.clock import HandClock

_HOUR_S = 3600.0


def spent(budgets: SpillBudgets, tenant: str, usd: float) -> None:
    reserved = budgets.reserve(tenant, usd)
    assert reserved is not None
    reserved.settle(usd)


def test_without_a_budget_everything_may_be_spent() -> None:
    budgets = SpillBudgets(None, {}, HandClock())
    spent(budgets, "ward", 1e9)
    assert budgets.closed("ward") == ""


def test_calls_under_way_count_with_what_they_are_expected_to_cost() -> None:
    budgets = SpillBudgets(20.0, {}, HandClock())
    admitted = [r for _ in range(200) if (r := budgets.reserve("ward", 1.0)) is not None]
    assert len(admitted) == 20
    assert budgets.closed("ward") == "spill_budget"


def test_what_was_not_spent_in_the_end_is_there_again() -> None:
    budgets = SpillBudgets(1.0, {}, HandClock())
    reserved = budgets.reserve("ward", 1.0)
    assert reserved is not None
    reserved.settle(0.0)
    assert budgets.reserve("ward", 1.0) is not None


def test_settling_twice_counts_once() -> None:
    budgets = SpillBudgets(10.0, {}, HandClock())
    reserved = budgets.reserve("ward", 1.0)
    assert reserved is not None
    reserved.settle(2.0)
    reserved.settle(2.0)
    assert budgets.spent_usd() == 2.0


def test_a_tenant_that_has_spent_its_own_closes_the_cloud_for_itself_alone() -> None:
    budgets = SpillBudgets(100.0, {"ward": 1.0}, HandClock())
    spent(budgets, "ward", 1.0)
    assert budgets.closed("ward") == "tenant_spill_budget"
    assert budgets.closed("lab") == ""


def test_everybodys_budget_closes_it_for_tenants_with_money_left() -> None:
    budgets = SpillBudgets(1.0, {"ward": 50.0}, HandClock())
    spent(budgets, "lab", 1.0)
    assert budgets.closed("ward") == "spill_budget"


def test_a_budget_of_nothing_lets_nothing_out() -> None:
    budgets = SpillBudgets(0.0, {}, HandClock())
    assert budgets.closed("ward") == "spill_budget"
    assert budgets.reserve("ward", 0.0) is None


def test_after_a_day_the_money_is_there_again() -> None:
    clock = HandClock()
    budgets = SpillBudgets(1.0, {}, clock)
    spent(budgets, "ward", 1.0)
    clock.pass_s(23 * _HOUR_S)
    assert budgets.closed("ward") == "spill_budget"
    clock.pass_s(1.5 * _HOUR_S)
    assert budgets.closed("ward") == ""


def test_a_budget_that_ran_out_opens_only_when_a_tenth_is_free() -> None:
    clock = HandClock()
    budgets = SpillBudgets(100.0, {}, clock)
    spent(budgets, "ward", 5.0)
    clock.pass_s(12 * _HOUR_S)
    spent(budgets, "ward", 95.0)
    assert budgets.closed("ward") == "spill_budget"
    clock.pass_s(12.5 * _HOUR_S)
    assert budgets.spent_usd() == 95.0
    assert budgets.closed("ward") == "spill_budget", "five free are no tenth"
    clock.pass_s(12 * _HOUR_S)
    assert budgets.closed("ward") == ""


@given(
    st.lists(st.tuples(st.floats(0, 3), st.floats(0, 1), st.floats(0, 7 * _HOUR_S)), max_size=60)
)
def test_no_24_hours_cost_more_than_the_budget(calls: list[tuple[float, float, float]]) -> None:
    """Each call costs at most what was expected of it."""
    clock = HandClock()
    budgets = SpillBudgets(5.0, {}, clock)
    log: list[tuple[float, float]] = []
    for expected_usd, share, pause_s in calls:
        clock.pass_s(pause_s)
        reserved = budgets.reserve("ward", expected_usd)
        if reserved is not None:
            reserved.settle(expected_usd * share)
            log.append((clock(), expected_usd * share))
        last_day = sum(usd for at_s, usd in log if at_s > clock() - 23.7 * _HOUR_S)
        assert last_day <= 5.0 + 1e-9


def test_the_door_says_why_it_is_closed(tmp_path: Path) -> None:
    clock, stop_file = HandClock(), tmp_path / "stop"
    stop_file.touch()
    closed = SpillControl(SpillStop(stop_file, clock), SpillBudgets(None, {}, clock))
    with pytest.raises(SpillClosed) as told:
        closed.reserve("ward", 0.0)
    assert told.value.reason == "spill_stopped"
    spent_up = SpillControl(SpillStop(None, clock), SpillBudgets(1.0, {}, clock))
    with pytest.raises(SpillClosed) as told:
        spent_up.reserve("ward", 2.0)
    assert told.value.reason == "spill_budget"
