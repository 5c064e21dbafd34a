"""D6: predictions are conservative without data, and follow what is seen."""

from __future__ import annotations

import math
import random

from gateway.scheduling.routing.estimate import ServiceTimes


def test_before_the_first_observation_the_expectation_counts() -> None:
    times = ServiceTimes(0.25, lambda: 0.0)
    assert times.cold
    assert {times.quantile_s(q) for q in (0.0, 0.5, 0.95, 1.0)} == {0.25}
    assert {times.usual_s, times.slow_s, times.high_s} == {0.25}


def test_quantiles_are_of_what_was_seen() -> None:
    times = ServiceTimes(9.0, lambda: 0.0)
    for ms in (50, 10, 40, 20, 30):
        times.observe(ms / 1000)
    assert not times.cold
    assert [times.quantile_s(q) for q in (0.0, 0.5, 0.75, 0.95, 1.0)] == [
        0.01, 0.03, 0.04, 0.05, 0.05,
    ]  # fmt: skip


def test_the_oldest_observations_are_forgotten() -> None:
    times = ServiceTimes(9.0, lambda: 0.0, size=4)
    for s in (8.0, 8.0, 8.0, 1.0, 2.0, 3.0, 4.0):
        times.observe(s)
    assert times.quantile_s(1.0) == 4.0
    assert times.quantile_s(0.0) == 1.0


def test_what_was_not_seen_again_for_half_a_minute_proves_nothing_but_still_ranks() -> None:
    now = [100.0]
    times = ServiceTimes(9.0, lambda: now[0])
    times.observe(2.0)
    now[0] += 29
    after_29_s = times.cold
    now[0] += 2
    after_31_s = times.cold
    assert (after_29_s, after_31_s) == (False, True)
    assert times.quantile_s(0.5) == 2.0


def test_the_quantiles_that_every_call_asks_for_are_kept_as_they_would_be_drawn() -> None:
    times, chance = ServiceTimes(0.25, lambda: 0.0, size=16), random.Random(4)
    for step in range(200):
        if step % 60 == 59:
            times.forget_over(0.5)
        elif step:
            times.observe(chance.random())
        kept = (times.usual_s, times.slow_s, times.high_s)
        assert kept == tuple(times.quantile_s(q) for q in (0.5, 0.95, 0.99))
    assert times.sample == 16


def test_who_was_not_awaited_counts_once_another_answer_shows_that_there_are_any() -> None:
    times = ServiceTimes(0.1, lambda: 0.0)
    for _ in range(3):
        times.observe(0.2)
    times.outlasted(0.5)
    assert (times.sample, times.high_s) == (3, 0.2)
    times.observe(0.2)
    assert (times.sample, times.high_s) == (5, 0.5)


def test_who_was_not_awaited_for_as_long_as_answers_take_says_nothing() -> None:
    times = ServiceTimes(0.1, lambda: 0.0)
    times.observe(0.2)
    times.outlasted(0.19)
    times.observe(0.2)
    assert times.sample == 2


def test_a_quantile_is_known_where_enough_was_awaited_for_so_long() -> None:
    times = ServiceTimes(0.1, lambda: 0.0)
    for took in range(1, 20):
        times.observe(took / 10)
    assert times.known_s(0.5, 10) == 1.0
    assert times.known_s(0.5, 30) == math.inf, "of too few answers"
    for _ in range(20):
        times.outlasted(1.9)
    times.observe(0.1)
    assert times.known_s(0.21, 10) == 0.8  # half of the calls took longer than anybody knows
    assert times.known_s(0.9, 10) == math.inf


def test_what_was_not_awaited_is_forgotten_in_its_turn() -> None:
    times = ServiceTimes(0.1, lambda: 0.0, size=4)
    times.observe(0.2)
    times.outlasted(3.0)
    for _ in range(4):
        times.observe(0.3)
    assert (times.sample, times.high_s) == (4, 0.3)
    assert times.known_s(0.99, 4) == 0.3
