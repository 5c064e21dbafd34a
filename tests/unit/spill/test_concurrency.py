"""An endpoint in the cloud is given as many calls as it can take."""

from __future__ import annotations

from gateway.accounting.spill import AdaptiveLimit
from tests.unit.spill.clock import HandClock


def test_a_refusal_takes_a_third_of_what_was_there_away() -> None:
    limit = AdaptiveLimit(100, HandClock())
    limit.refused(started_s=1.0, in_flight=40, retry_after_s=0.0)
    assert limit.limit == 28


def test_a_burst_that_is_refused_together_counts_once() -> None:
    clock = HandClock()
    limit = AdaptiveLimit(100, clock)
    started_s = clock()
    clock.pass_s(0.1)
    for _ in range(40):
        limit.refused(started_s, in_flight=40, retry_after_s=0.0)
    assert limit.limit == 28


def test_answers_near_the_limit_raise_it_again_and_never_over_the_most() -> None:
    limit = AdaptiveLimit(10, HandClock())
    limit.refused(1.0, in_flight=10, retry_after_s=0.0)
    assert limit.limit == 7
    for _ in range(200):
        limit.answered(in_flight=limit.limit)
    assert limit.limit == 10


def test_answers_far_below_the_limit_prove_nothing() -> None:
    limit = AdaptiveLimit(10, HandClock())
    limit.refused(1.0, in_flight=10, retry_after_s=0.0)
    for _ in range(200):
        limit.answered(in_flight=1)
    assert limit.limit == 7


def test_one_call_at_a_time_always_goes() -> None:
    clock = HandClock()
    limit = AdaptiveLimit(4, clock)
    for _ in range(50):
        clock.pass_s(1.0)
        limit.refused(clock(), in_flight=1, retry_after_s=0.0)
    assert limit.limit == 1
    assert limit.room(0)
    assert not limit.room(1)


def test_calls_that_run_out_of_time_beside_nobody_say_nothing_of_room() -> None:
    clock = HandClock()
    limit = AdaptiveLimit(256, clock)
    for _ in range(50):
        clock.pass_s(1.0)
        limit.late(clock(), in_flight=1)
    assert limit.limit == 256


def test_a_few_late_calls_among_many_are_by_chance() -> None:
    clock = HandClock()
    limit = AdaptiveLimit(256, clock)
    for call in range(1000):
        clock.pass_s(0.01)
        if call % 10:
            limit.in_time += 1.0
        else:
            limit.late(clock(), in_flight=60)
    assert limit.limit == 256


def test_where_many_calls_are_late_there_are_too_many() -> None:
    clock = HandClock()
    limit = AdaptiveLimit(256, clock)
    limit.in_time = 1000.0
    for call in range(60):
        clock.pass_s(0.01)
        if call % 2:
            limit.in_time += 1.0
        else:
            limit.late(clock(), in_flight=60)
        if limit.limit < 256:
            break
    assert limit.limit == 42


def test_nothing_goes_before_the_endpoint_said_and_everything_after() -> None:
    clock = HandClock()
    limit = AdaptiveLimit(4, clock)
    limit.refused(clock(), in_flight=1, retry_after_s=3.0)
    assert not limit.room(0)
    clock.pass_s(2.9)
    assert not limit.room(0)
    clock.pass_s(0.2)
    assert limit.room(0)


def test_an_endpoint_cannot_close_itself_for_ever() -> None:
    clock = HandClock()
    limit = AdaptiveLimit(4, clock)
    limit.refused(clock(), in_flight=1, retry_after_s=1e9)
    assert limit.closed_s <= 3600.0


def test_a_shorter_wait_does_not_end_a_longer_one() -> None:
    clock = HandClock()
    limit = AdaptiveLimit(4, clock)
    limit.refused(clock(), in_flight=1, retry_after_s=5.0)
    limit.refused(clock(), in_flight=1, retry_after_s=1.0)
    assert limit.closed_s == 5.0


def refused_at(in_flight: int) -> AdaptiveLimit:
    limit = AdaptiveLimit(1000, HandClock())
    limit.refused(1.0, in_flight=in_flight, retry_after_s=0.0)
    return limit


def answers_until(limit: AdaptiveLimit, reached: int) -> int:
    answers = 0
    while limit.limit < reached:
        limit.answered(in_flight=limit.limit)
        answers += 1
    return answers


def test_the_limit_rises_slowly_where_it_was_refused_and_fast_below_and_above() -> None:
    """A quota is where it was; to meet it again costs what its Retry-After says."""
    limit = refused_at(40)
    below = answers_until(limit, 37)
    near = answers_until(limit, 40)
    above = answers_until(limit, 50)
    assert below / 9 < 45
    assert near / 3 > 200
    assert above / 10 < 60


def test_an_endpoint_that_was_out_starts_with_all_it_may_have() -> None:
    limit = refused_at(40)
    limit.restart()
    assert limit.limit == 1000
    for _ in range(8):
        limit.late(2000.0, in_flight=40)
    assert limit.limit == 28
    answers_until(limit, 37)
    assert answers_until(limit, 41) < 4 * 60, "the old refusal is forgotten"
