"""How long the cloud takes, by what it took."""

from __future__ import annotations

import pytest

from gateway.scheduling.estimates.latency import GRID, CloudLatency, Tail


def test_until_something_was_seen_the_expectation_stands() -> None:
    tail = Tail(0.2)
    assert tail.late(0.02) == 1.0
    assert tail.late(0.2) == pytest.approx(0.5, abs=0.1)
    assert tail.late(2.0) == 0.0


def test_what_was_seen_takes_its_place() -> None:
    tail = Tail(0.2)
    for _ in range(1000):
        tail.observe(1.0)
    assert tail.late(0.9) == 1.0
    assert tail.late(1.1) == 0.0
    assert tail.quantile_s(0.5) == 1.0


def test_old_answers_are_forgotten() -> None:
    tail = Tail(0.2)
    for took_s in [5.0] * 600 + [0.1] * 600:
        tail.observe(took_s)
    assert tail.late(0.2) == 0.0


def test_the_drawing_says_what_the_distribution_says() -> None:
    tail = Tail(0.2)
    for at in range(400):
        tail.observe(0.05 + at / 1000)
    steps_per_s, late = tail.grid()
    for within_s in (0.0, 0.1, 0.2, 0.3, 0.4, 9.0):
        step = min(GRID, int(within_s * steps_per_s))
        assert late[step] == pytest.approx(tail.late(within_s), abs=0.03)


def test_sizes_have_distributions_of_their_own() -> None:
    cloud = CloudLatency(0.1, 1.0)
    for _ in range(200):
        cloud.observe(4.0, 9.0)
    assert cloud.tail(4.0).late(8.0) > 0.9
    assert cloud.tail(1.0).late(8.0) == 0.0


@pytest.mark.parametrize("expected_s", [0.0, -1.0, float("nan"), float("inf")])
def test_an_expectation_is_a_time(expected_s: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Tail(expected_s)


def test_what_another_gateway_has_measured_takes_the_place_of_all_before() -> None:
    tail = Tail(9.0)
    before = tail.version
    tail.learn([0.3, 0.1, 0.2, 0.4])
    assert [tail.late(s) for s in (0.05, 0.25, 0.4)] == [1.0, 0.5, 0.0]
    assert tail.version > before
    drawn = tail.version
    tail.learn([0.4, 0.3, 0.2, 0.1])
    assert tail.version == drawn  # nothing is new


@pytest.mark.parametrize("answers_s", [[], [0.1, 0.0], [float("nan")], [float("inf")]])
def test_what_is_learnt_are_times(answers_s: list[float]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Tail(1.0).learn(answers_s)
