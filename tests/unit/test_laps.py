"""What decides over promises in milliseconds must itself be able to fail."""

from __future__ import annotations

import time

import pytest

from tests.laps import within


def late(tries: list[float], bound_s: float = 0.05) -> int:
    """How many laps it took, each as long as the next of `tries`."""
    laps = 0
    for lap in within(bound_s, tries=3):
        time.sleep(tries[laps])
        lap.ends()
        laps += 1
    return laps


def test_one_pause_is_forgiven_and_a_lap_in_time_is_the_last() -> None:
    assert late([0.06, 0.0, 0.0]) in (2, 3)
    assert late([0.0], 10.0) == 1


def test_what_is_late_every_time_is_late() -> None:
    with pytest.raises(AssertionError, match="each of 3 tries"):
        late([0.05, 0.05, 0.05])


def test_a_lap_that_nobody_ends_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="never ended"):
        for _ in within(1.0):
            pass


def test_preparing_a_lap_is_not_part_of_it() -> None:
    for lap in within(0.05):
        time.sleep(0.06)
        lap.begins()
        lap.ends()
