"""What takes a model on an endpoint out, and what alone brings it back (A6, S1, S8)."""

from __future__ import annotations

import pytest

from gateway.config import HealthSettings
from gateway.endpoints.health.doubts import CanaryCause
from gateway.endpoints.health.model_health import CanaryResult, HealthChange, ModelHealth
from tests.unit.health.hands import COLD, WARM, Bed, Known
from tests.unit.spill.clock import HandClock


def canary(bed: Bed, answer: CanaryResult, took_s: float = 0.02) -> HealthChange:
    """Sent now, answered at once."""
    bed.health.asking()
    return bed.health.observe(answer, took_s, WARM)


def failing(health: ModelHealth, times: int) -> list[bool]:
    return [health.breaker.failed(health.breaker.starts()) for _ in range(times)]


# What raises doubt


def test_silence_raises_doubt_once_it_is_longer_than_answers_take() -> None:
    bed = Bed()
    bed.asks()
    bed.clock.now_s += 0.59
    assert bed.health.doubt(WARM) is CanaryCause.NONE
    bed.clock.now_s += 0.02
    assert bed.health.doubt(WARM) is CanaryCause.SILENT


def test_a_model_whose_answers_take_long_may_be_silent_for_long() -> None:
    bed = Bed()
    bed.asks()
    bed.clock.now_s += 3.9
    slow = Known(0.9, 1.0, 50)
    assert bed.health.doubt(slow) is CanaryCause.NONE
    bed.clock.now_s += 0.2
    assert bed.health.doubt(slow) is CanaryCause.SILENT


def test_nothing_is_concluded_soon_while_service_times_are_unknown() -> None:
    bed = Bed()
    bed.asks()
    bed.clock.now_s += 3.5
    assert bed.health.doubt(COLD) is CanaryCause.NONE
    bed.clock.now_s += 0.2
    assert bed.health.doubt(COLD) is CanaryCause.SILENT


def test_any_answer_ends_the_silence_also_for_those_who_go_on_waiting() -> None:
    bed = Bed()
    first, _ = bed.asks(), bed.asks()
    bed.clock.now_s += 0.3
    bed.health.answers.heard(first)
    bed.clock.now_s += 0.4
    assert bed.health.answers.unanswered_since_s == pytest.approx(1000.3)
    assert bed.health.doubt(WARM) is not CanaryCause.SILENT
    bed.clock.now_s += 0.2
    assert bed.health.doubt(WARM) is CanaryCause.SILENT


def test_callers_with_small_budgets_do_not_hide_the_silence_by_leaving() -> None:
    bed = Bed()
    for _ in range(5):
        ticket = bed.asks()
        bed.clock.now_s += 0.2
        bed.health.answers.gave_up(ticket)
    assert bed.health.doubt(WARM) is CanaryCause.SILENT


def test_an_idle_model_is_not_silent() -> None:
    bed = Bed()
    bed.health.answers.heard(bed.asks())
    bed.clock.now_s += 60
    assert bed.health.doubt(WARM) is CanaryCause.NONE


def test_three_failures_of_the_model_in_a_row_raise_doubt_and_two_do_not() -> None:
    bed = Bed()
    bed.health.doubts.model_failed()
    bed.health.doubts.model_failed()
    bed.health.doubts.served(0.02, WARM)
    bed.health.doubts.model_failed()
    bed.health.doubts.model_failed()
    assert bed.health.doubt(WARM) is CanaryCause.NONE
    bed.health.doubts.model_failed()
    assert bed.health.doubt(WARM) is CanaryCause.FAILS


@pytest.mark.parametrize(
    ("took_s", "figures", "doubt"),
    [(0.3, WARM, CanaryCause.SLOW), (0.2, WARM, CanaryCause.NONE), (0.9, COLD, CanaryCause.NONE)],
    ids=["many-times-usual", "not-slow-to-anybody", "no-sample"],
)
def test_slow_is_many_times_the_usual_of_a_sufficient_sample(
    took_s: float, figures: Known, doubt: CanaryCause
) -> None:
    bed = Bed()
    bed.clock.now_s += 9
    for _ in range(3):
        bed.health.doubts.served(took_s, figures)
    assert bed.health.doubt(WARM) is doubt


def test_a_call_that_waits_for_long_raises_doubt_although_others_are_answered() -> None:
    bed = Bed()
    bed.clock.now_s += 9
    bed.asks()
    for _ in range(5):
        ticket = bed.asks()
        bed.clock.now_s += 0.2
        bed.health.answers.heard(ticket)
    assert bed.health.doubt(WARM) is CanaryCause.SLOW
    assert canary(bed, CanaryResult.GOOD) is HealthChange.NOTHING
    bed.clock.now_s += 0.6
    bed.health.answers.heard()
    assert bed.health.doubt(WARM) is CanaryCause.NONE, "some calls simply take long"


def test_without_a_canary_that_ever_passed_nothing_is_doubted() -> None:
    bed = Bed(proven=False)
    bed.asks()
    bed.health.doubts.model_failed()
    bed.clock.now_s += 99
    assert bed.health.doubt(WARM) is CanaryCause.NONE


# What a canary decides


def test_a_canary_that_passes_clears_callers_who_send_nonsense() -> None:
    bed = Bed()
    for _ in range(3):
        bed.health.doubts.model_failed()
    assert canary(bed, CanaryResult.GOOD) is HealthChange.NOTHING
    bed.clock.now_s += 9
    assert bed.health.doubt(WARM) is CanaryCause.NONE


def test_a_canary_that_fails_ejects_at_once() -> None:
    bed = Bed()
    assert canary(bed, CanaryResult.BAD) is HealthChange.EJECTED
    assert not bed.health.breaker.admits()


def test_a_canary_that_stays_out_leaves_the_model_to_calls_with_no_other_place() -> None:
    bed = Bed()
    bed.asks()
    bed.clock.now_s += 0.8
    assert canary(bed, CanaryResult.LATE) is HealthChange.SLOWED
    assert bed.health.breaker.admits()
    assert bed.health.state == "slow"


def test_a_canary_that_is_late_on_a_server_that_answers_others_says_nothing() -> None:
    """Under an overload a canary waits like anybody."""
    bed = Bed()
    bed.health.asking()
    bed.clock.now_s += 0.5
    bed.health.answers.heard()
    assert bed.health.observe(CanaryResult.LATE, 0.8, WARM) is HealthChange.NOTHING


def test_a_second_canary_that_nothing_comes_of_ejects() -> None:
    bed = Bed()
    canary(bed, CanaryResult.LATE)
    bed.clock.now_s += 1
    assert canary(bed, CanaryResult.LATE) is HealthChange.EJECTED


def test_a_stall_that_a_canary_does_not_break_ejects() -> None:
    bed = Bed()
    bed.health.doubts.stalled = True
    assert bed.health.doubt(WARM) is CanaryCause.STALLED
    assert canary(bed, CanaryResult.LATE) is HealthChange.EJECTED


def test_a_stall_that_a_canary_breaks_is_over() -> None:
    bed = Bed()
    bed.health.doubts.stalled = True
    assert canary(bed, CanaryResult.GOOD) is HealthChange.NOTHING
    bed.clock.now_s += 1
    assert bed.health.doubt(WARM) is CanaryCause.NONE


# What brings it back


def test_only_canaries_bring_back_what_they_can_reach() -> None:
    bed = Bed()
    failing(bed.health, 3)
    bed.clock.now_s += 3600
    assert not bed.health.breaker.admits(), "no call is let through to find out"
    assert canary(bed, CanaryResult.GOOD) is HealthChange.NOTHING
    assert canary(bed, CanaryResult.BAD) is HealthChange.NOTHING
    assert canary(bed, CanaryResult.GOOD) is HealthChange.NOTHING, "in a row"
    assert canary(bed, CanaryResult.GOOD) is HealthChange.BACK
    assert bed.health.breaker.admits()


def test_no_canary_is_due_before_the_dwell_nor_more_often_than_said() -> None:
    bed = Bed()
    failing(bed.health, 3)
    bed.clock.now_s += 0.9
    assert not bed.health.due()
    bed.clock.now_s += 0.2
    assert bed.health.due()
    bed.health.asking()
    bed.clock.now_s += 0.4
    assert not bed.health.due()
    bed.clock.now_s += 0.2
    assert bed.health.due()


def test_a_server_that_started_anew_has_no_dwell() -> None:
    bed = Bed()
    failing(bed.health, 3)
    bed.health.server_up()
    assert bed.health.due()


def test_what_went_down_comes_back_by_one_canary_and_not_by_being_up() -> None:
    bed = Bed()
    bed.health.put_out()
    bed.health.server_up()
    assert not bed.health.breaker.admits()
    assert canary(bed, CanaryResult.GOOD) is HealthChange.BACK
    assert bed.health.breaker.admits()


def test_without_canaries_a_call_is_the_probe_of_what_went_down() -> None:
    bed = Bed(proven=False)
    bed.health.put_out()
    bed.health.server_up()
    assert bed.health.breaker.admits()
    epoch = bed.health.breaker.starts()
    assert not bed.health.breaker.admits(), "one at a time"
    bed.health.breaker.succeeded(epoch)
    assert bed.health.breaker.closed


def test_what_was_slow_is_back_when_canaries_are_as_fast_as_it_used_to_be() -> None:
    bed = Bed()
    canary(bed, CanaryResult.LATE)
    slow_by_now = Known(1.5, 1.6, 128)
    for _ in range(4):
        bed.health.asking()
        assert bed.health.observe(CanaryResult.GOOD, 1.5, slow_by_now) is HealthChange.NOTHING
    assert canary(bed, CanaryResult.GOOD, 0.03) is HealthChange.NOTHING
    assert canary(bed, CanaryResult.GOOD, 0.03) is HealthChange.BACK


def test_what_is_slow_for_a_minute_is_how_fast_it_now_is() -> None:
    bed = Bed()
    canary(bed, CanaryResult.LATE)
    bed.clock.now_s += 61
    assert canary(bed, CanaryResult.GOOD, 1.5) is HealthChange.NOTHING
    assert canary(bed, CanaryResult.GOOD, 1.5) is HealthChange.BACK


def test_what_was_ejected_and_is_slow_now_comes_back_for_calls_with_no_other_place() -> None:
    bed = Bed()
    canary(bed, CanaryResult.BAD)
    canary(bed, CanaryResult.GOOD, 1.5)
    assert canary(bed, CanaryResult.GOOD, 1.5) is HealthChange.SLOWED
    assert bed.health.breaker.admits()


def test_a_model_that_is_out_says_when_it_could_be_back_at_the_soonest() -> None:
    bed = Bed()
    assert bed.health.out_for_s() is None
    failing(bed.health, 3)
    assert bed.health.out_for_s() == pytest.approx(1.0 + 2 * 0.5)
    bed.clock.now_s += 9
    assert bed.health.out_for_s() == pytest.approx(2 * 0.5)


# Hysteresis and slow start


def back(bed: Bed) -> None:
    while not bed.health.due():
        bed.clock.now_s += 0.05
    while canary(bed, CanaryResult.GOOD) is not HealthChange.BACK:
        bed.clock.now_s += 0.5


@pytest.mark.parametrize("period_s", [2.0, 6.0, 14.0, 40.0])
def test_a_square_wave_of_failures_makes_at_most_two_transitions_a_period(period_s: float) -> None:
    """S1: calls fail in the first half of each period and succeed in the second; so do canaries."""
    bed, changes, periods = Bed(), 0, 12
    start_s, was_in = bed.clock.now_s, True
    while bed.clock.now_s - start_s < periods * period_s:
        fails = (bed.clock.now_s - start_s) % period_s < period_s / 2
        if bed.health.breaker.admits():
            epoch = bed.health.breaker.starts()
            told = bed.health.breaker
            told.failed(epoch) if fails else told.succeeded(epoch)
        elif bed.health.due():
            canary(bed, CanaryResult.BAD if fails else CanaryResult.GOOD)
        changes += bed.health.breaker.closed is not was_in
        was_in = bed.health.breaker.closed
        bed.clock.now_s += 0.05
    assert 2 <= changes <= 2 * periods


@pytest.mark.parametrize("period_s", [2.0, 6.0, 14.0, 40.0])
def test_a_square_wave_of_slowness_makes_at_most_two_transitions_a_period(period_s: float) -> None:
    bed, changes, periods, was = Bed(), 0, 12, "trusted"
    start_s = bed.clock.now_s
    while bed.clock.now_s - start_s < periods * period_s:
        slow = (bed.clock.now_s - start_s) % period_s < period_s / 2
        bed.health.doubts.served(0.6 if slow else 0.02, WARM)
        if bed.health.doubt(WARM) is not CanaryCause.NONE or bed.health.due():
            canary(bed, CanaryResult.GOOD, 0.6 if slow else 0.02)
        changes += bed.health.state != was
        was = bed.health.state
        bed.clock.now_s += 0.1
    assert 2 <= changes <= 2 * periods


def test_what_fails_whenever_it_is_back_stays_out_for_longer_each_time() -> None:
    bed = Bed(settings=HealthSettings(dwell_s=1.0, dwell_max_s=30.0))
    out_s = []
    for _ in range(6):
        failing(bed.health, 3)
        since_s = bed.clock.now_s
        while not bed.health.due():
            bed.clock.now_s += 0.05
        out_s.append(round(bed.clock.now_s - since_s))
        back(bed)
    assert out_s == [1, 2, 4, 8, 16, 30]


def test_a_failure_long_after_the_last_one_has_the_short_dwell_again() -> None:
    bed = Bed()
    for _ in range(3):
        failing(bed.health, 3)
        back(bed)
    bed.clock.now_s += 60
    failing(bed.health, 3)
    bed.clock.now_s += 1.05
    assert bed.health.due()


def test_the_window_opens_by_degrees_once_it_is_back() -> None:
    bed = Bed()
    start = bed.health.slow_start
    bed.clock.now_s += 99
    assert start.limit(40) == 40
    failing(bed.health, 3)
    back(bed)
    opened = []
    for _ in range(7):
        opened.append(start.limit(40))
        bed.clock.now_s += 0.5
    assert opened[0] == 4
    assert opened == sorted(opened)
    assert opened[3] == 20
    assert opened[-1] == 40


def test_a_window_never_closes_to_nothing() -> None:
    bed = Bed()
    bed.health.slow_start.begin()
    assert bed.health.slow_start.limit(1) == 1


@pytest.mark.parametrize("pattern", ["fff", "ffsffsffs", "fsfsfsfsfs", "sssssfffff"])
def test_five_errors_at_most_take_it_out(pattern: str) -> None:
    bed, errors = Bed(clock=HandClock()), 0
    breaker = bed.health.breaker
    for what in pattern:
        if what == "s":
            breaker.succeeded(breaker.starts())
        else:
            errors += 1
            breaker.failed(breaker.starts())
        if not breaker.closed:
            break
    assert not breaker.closed
    assert errors <= 5
