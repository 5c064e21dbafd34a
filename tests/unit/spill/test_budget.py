"""What the cloud may cost in 24 hours (S5), with hysteresis where it opens again (S1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.accounting.ledger.limits import EVERYBODY, BudgetLimits
from gateway.accounting.pricing import nano
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.core.errors import SpillClosed
from tests.unit.spill.clock import HandClock

_HOUR_S = 3600.0


def spent(budgets: SpillBudgets, tenant: str, usd: float) -> None:
    reserved = budgets.reserve(tenant, nano(usd))
    assert reserved is not None
    reserved.settle(nano(usd))


def test_without_a_budget_everything_may_be_spent() -> None:
    budgets = SpillBudgets(BudgetLimits(), {}, HandClock())
    spent(budgets, "ward", 1e9)
    assert budgets.closed("ward") == ""


def test_calls_under_way_count_with_what_they_are_expected_to_cost() -> None:
    budgets = SpillBudgets(BudgetLimits.usd(20.0), {}, HandClock())
    admitted = [r for _ in range(200) if (r := budgets.reserve("ward", nano(1.0))) is not None]
    assert len(admitted) == 20
    assert budgets.closed("ward") == "spill_budget"


def test_what_was_not_spent_in_the_end_is_there_again() -> None:
    budgets = SpillBudgets(BudgetLimits.usd(1.0), {}, HandClock())
    reserved = budgets.reserve("ward", nano(1.0))
    assert reserved is not None
    reserved.settle(nano(0.0))
    assert budgets.reserve("ward", nano(1.0)) is not None


def test_settling_twice_counts_once() -> None:
    budgets = SpillBudgets(BudgetLimits.usd(10.0), {}, HandClock())
    reserved = budgets.reserve("ward", nano(1.0))
    assert reserved is not None
    reserved.settle(nano(2.0))
    reserved.settle(nano(2.0))
    assert budgets.spent() == nano(2.0)


def test_a_tenant_that_has_spent_its_own_closes_the_cloud_for_itself_alone() -> None:
    budgets = SpillBudgets(BudgetLimits.usd(100.0), {"ward": BudgetLimits.usd(1.0)}, HandClock())
    spent(budgets, "ward", 1.0)
    assert budgets.closed("ward") == "tenant_spill_budget"
    assert budgets.closed("lab") == ""


def test_everybodys_budget_closes_it_for_tenants_with_money_left() -> None:
    budgets = SpillBudgets(BudgetLimits.usd(1.0), {"ward": BudgetLimits.usd(50.0)}, HandClock())
    spent(budgets, "lab", 1.0)
    assert budgets.closed("ward") == "spill_budget"


def test_a_budget_of_nothing_lets_nothing_out() -> None:
    budgets = SpillBudgets(BudgetLimits.usd(0.0), {}, HandClock())
    assert budgets.closed("ward") == "spill_budget"
    assert budgets.reserve("ward", nano(0.0)) is None


def test_after_a_day_the_money_is_there_again() -> None:
    clock = HandClock()
    budgets = SpillBudgets(BudgetLimits.usd(1.0), {}, clock)
    spent(budgets, "ward", 1.0)
    clock.pass_s(23 * _HOUR_S)
    assert budgets.closed("ward") == "spill_budget"
    clock.pass_s(1.5 * _HOUR_S)
    assert budgets.closed("ward") == ""


def test_a_budget_that_ran_out_opens_only_when_a_tenth_is_free() -> None:
    clock = HandClock()
    budgets = SpillBudgets(BudgetLimits.usd(100.0), {}, clock)
    spent(budgets, "ward", 5.0)
    clock.pass_s(12 * _HOUR_S)
    spent(budgets, "ward", 95.0)
    assert budgets.closed("ward") == "spill_budget"
    clock.pass_s(12.5 * _HOUR_S)
    assert budgets.spent() == nano(95.0)
    assert budgets.closed("ward") == "spill_budget", "five free are no tenth"
    clock.pass_s(12 * _HOUR_S)
    assert budgets.closed("ward") == ""


@given(
    st.lists(st.tuples(st.floats(0, 3), st.floats(0, 1), st.floats(0, 7 * _HOUR_S)), max_size=60)
)
def test_no_24_hours_cost_more_than_the_budget(calls: list[tuple[float, float, float]]) -> None:
    """Each call costs at most what was expected of it."""
    clock = HandClock()
    budgets = SpillBudgets(BudgetLimits.usd(5.0), {}, clock)
    log: list[tuple[float, int]] = []
    for expected_usd, share, pause_s in calls:
        clock.pass_s(pause_s)
        reserved = budgets.reserve("ward", nano(expected_usd))
        if reserved is not None:
            reserved.settle(int(nano(expected_usd) * share))
            log.append((clock(), int(nano(expected_usd) * share)))
        last_day = sum(some for at_s, some in log if at_s > clock() - 23.7 * _HOUR_S)
        assert last_day <= nano(5.0)


_DECEMBER_S = 1_764_547_200.0  # 2025-12-01 00:00 UTC


@pytest.mark.parametrize(
    ("limits", "closed_for_days"),
    [
        (BudgetLimits.usd(day=5), 1),
        (BudgetLimits.usd(month=5), 11),
        (BudgetLimits.usd(total=5), None),
    ],
    ids=["day", "month", "total"],
)
def test_a_budget_is_for_its_stretch_of_time(
    limits: BudgetLimits, closed_for_days: int | None
) -> None:
    """Begun on the 21st of November."""
    clock = HandClock()
    begun_s = _DECEMBER_S - 10.5 * 24 * _HOUR_S - clock()
    budgets = SpillBudgets(limits, {}, clock, lambda: begun_s + clock())
    spent(budgets, "ward", 5.0)
    for day in range(40):
        still = closed_for_days is None or day < closed_for_days
        assert budgets.closed("ward") == ("spill_budget" if still else ""), day
        clock.pass_s(24 * _HOUR_S + 900)


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.floats(0, 3), st.floats(0, 1), st.floats(0, 9 * _HOUR_S)),
        max_size=40,
    )
)
def test_what_is_kept_is_what_would_be_reckoned(
    steps: list[tuple[int, float, float, float]],
) -> None:
    """Whatever came before, other amounts have what is left reckoned from what was spent."""
    clock, limits = HandClock(), BudgetLimits.usd(day=9, month=50, total=70)
    budgets, held = SpillBudgets(limits, {}, clock), []
    for does, expected_usd, share, pause_s in steps:
        clock.pass_s(pause_s)
        if does < 5 and (reserved := budgets.reserve("ward", nano(expected_usd))) is not None:
            held.append((reserved, nano(expected_usd * share)))
        elif does < 8 and held:
            reserved, cost = held.pop()
            reserved.settle(cost)
        elif does >= 8:
            budgets.others_spent("ward", nano(share))
        kept = budgets.left()
        budgets.allow({EVERYBODY: limits})
        assert budgets.left() == kept


def test_other_amounts_count_at_once() -> None:
    budgets = SpillBudgets(BudgetLimits.usd(1.0), {"ward": BudgetLimits.usd(1.0)}, HandClock())
    spent(budgets, "ward", 1.0)
    budgets.allow({EVERYBODY: BudgetLimits.usd(5.0), "ward": BudgetLimits.usd(5.0)})
    assert budgets.closed("ward") == ""
    budgets.allow({"ward": BudgetLimits.usd(0.5)})
    assert budgets.closed("ward") == "tenant_spill_budget"


def test_what_is_left_is_told_until_the_first_limit() -> None:
    budgets = SpillBudgets(BudgetLimits.usd(day=5, total=8), {}, HandClock())
    assert budgets.left() == nano(5.0)
    spent(budgets, "ward", 1.0)
    reserved = budgets.reserve("ward", nano(2.0))
    assert reserved is not None
    assert budgets.left() == nano(2.0)
    assert SpillBudgets(BudgetLimits(), {}, HandClock()).left() is None


def test_the_door_says_why_it_is_closed(tmp_path: Path) -> None:
    clock, stop_file = HandClock(), tmp_path / "stop"
    stop_file.touch()
    closed = SpillControl(SpillStop(stop_file, clock), SpillBudgets(BudgetLimits(), {}, clock))
    with pytest.raises(SpillClosed) as told:
        closed.reserve("ward", 0)
    assert told.value.reason == "spill_stopped"
    spent_up = SpillControl(SpillStop(None, clock), SpillBudgets(BudgetLimits.usd(1.0), {}, clock))
    with pytest.raises(SpillClosed) as told:
        spent_up.reserve("ward", nano(2.0))
    assert told.value.reason == "spill_budget"
