"""The time of a server that calls share: every nanosecond is somebody's, and nobody's twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.accounting.pricing.gputime import GpuTime
from tests.unit.spill.clock import HandClock


def test_a_call_alone_has_all_of_its_time() -> None:
    clock = HandClock()
    gpu = GpuTime(clock)
    mark = gpu.enters()
    clock.pass_s(2.0)
    assert gpu.leaves_ns(mark) == 2_000_000_000


def test_a_batch_shares_its_time() -> None:
    clock = HandClock()
    gpu = GpuTime(clock)
    marks = [gpu.enters() for _ in range(8)]
    clock.pass_s(4.0)
    assert [gpu.leaves_ns(mark) for mark in marks] == [500_000_000] * 8


def test_who_overlaps_shares_only_while_it_does() -> None:
    clock = HandClock()
    gpu = GpuTime(clock)
    first = gpu.enters()
    clock.pass_s(1.0)
    second = gpu.enters()
    clock.pass_s(1.0)
    assert gpu.leaves_ns(first) == 1_500_000_000
    clock.pass_s(1.0)
    assert gpu.leaves_ns(second) == 1_500_000_000


def test_time_without_calls_is_nobodys() -> None:
    clock = HandClock()
    gpu = GpuTime(clock)
    clock.pass_s(100.0)
    mark = gpu.enters()
    clock.pass_s(1.0)
    assert gpu.leaves_ns(mark) == 1_000_000_000
    clock.pass_s(100.0)
    assert gpu.leaves_ns(gpu.enters()) == 0


@given(st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 10**6)), max_size=80))
def test_the_shares_add_up_to_the_time_in_which_there_were_calls(
    moves: list[tuple[str, int]],
) -> None:
    clock = HandClock()
    gpu = GpuTime(clock)
    marks: list[float] = []
    shares, busy_us = 0, 0
    for move, pause_us in moves:
        if move == "+":
            marks.append(gpu.enters())
        elif marks:
            shares += gpu.leaves_ns(marks.pop(len(marks) // 2))
        clock.pass_s(pause_us / 1e6)
        busy_us += pause_us if marks else 0
    shares += sum(gpu.leaves_ns(mark) for mark in marks)
    assert abs(shares - busy_us * 1000) <= 1000, "rounding and the clock's floats"
