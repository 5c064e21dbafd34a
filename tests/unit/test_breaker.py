"""A6: an endpoint that fails is left alone, tried again by one call, and never bypassed."""

from __future__ import annotations

from gateway.endpoints.health.breaker import Breaker
from tests.unit.spill.clock import HandClock


def broken(clock: HandClock) -> Breaker:
    breaker = Breaker(clock)
    for _ in range(3):
        breaker.failed(breaker.starts())
    assert not breaker.closed
    return breaker


def test_three_failures_in_a_row_open_it_and_two_do_not() -> None:
    breaker = Breaker(HandClock())
    assert [breaker.failed(breaker.starts()) for _ in range(3)] == [False, False, True]
    assert not breaker.admits()


def test_a_success_between_failures_starts_the_row_again() -> None:
    breaker = Breaker(HandClock())
    for _ in range(4):
        for _ in range(2):
            assert not breaker.failed(breaker.starts())
        for _ in range(5):
            breaker.succeeded(breaker.starts())
    assert breaker.closed


def test_half_of_the_calls_failing_opens_it_once_there_are_ten() -> None:
    """Every other call fails, so never three in a row."""
    breaker = Breaker(HandClock())
    opened_after = None
    for i in range(20):
        epoch = breaker.starts()
        if i % 2 == 0:
            breaker.succeeded(epoch)
        elif breaker.failed(epoch):
            opened_after = i + 1
            break
    assert opened_after == 10


def test_a_few_failures_among_many_calls_do_not_open_it() -> None:
    breaker = Breaker(HandClock())
    for i in range(100):
        epoch = breaker.starts()
        if i % 4 == 0:
            assert not breaker.failed(epoch)
        else:
            breaker.succeeded(epoch)
    assert breaker.closed


def test_old_successes_are_forgotten() -> None:
    breaker = Breaker(HandClock())
    for _ in range(500):
        breaker.succeeded(breaker.starts())
    opened = False
    for i in range(20):
        epoch = breaker.starts()
        if i % 3 == 0:
            breaker.succeeded(epoch)
        else:
            opened = opened or breaker.failed(epoch)
    assert opened


def test_a_failure_that_says_all_opens_it_at_once() -> None:
    breaker = Breaker(HandClock())
    assert breaker.failed(breaker.starts(), at_once=True)
    assert not breaker.admits()


def test_after_the_cool_down_one_call_alone_is_let_through() -> None:
    clock = HandClock()
    breaker = broken(clock)
    clock.now_s += 1.9
    assert not breaker.admits()
    clock.now_s += 0.2
    assert breaker.admits()
    breaker.starts()
    assert not breaker.admits(), "the probe is on its way"


def test_the_probe_that_succeeds_closes_it() -> None:
    clock = HandClock()
    breaker = broken(clock)
    clock.now_s += 3
    breaker.succeeded(breaker.starts())
    assert breaker.closed
    assert breaker.admits()
    assert not breaker.failed(breaker.starts()), "the row starts again"


def test_the_probe_that_fails_doubles_the_cool_down_up_to_half_a_minute() -> None:
    clock = HandClock()
    breaker = broken(clock)
    waits = []
    for _ in range(6):
        since_s = clock.now_s
        while not breaker.admits():
            clock.now_s += 0.5
        waits.append(clock.now_s - since_s)
        breaker.failed(breaker.starts())
    assert waits == [2, 4, 8, 16, 30, 30]


def test_a_success_makes_the_next_cool_down_short_again() -> None:
    clock = HandClock()
    breaker = broken(clock)
    clock.now_s += 3
    breaker.failed(breaker.starts())
    clock.now_s += 5
    breaker.succeeded(breaker.starts())
    for _ in range(3):
        breaker.failed(breaker.starts())
    clock.now_s += 2.1
    assert breaker.admits()


def test_a_probe_that_tells_nothing_makes_room_for_another() -> None:
    clock = HandClock()
    breaker = broken(clock)
    clock.now_s += 3
    breaker.abandoned(breaker.starts())
    assert not breaker.closed
    assert breaker.admits()


def test_a_burst_that_fails_together_opens_it_once_and_for_the_first_cool_down() -> None:
    clock = HandClock()
    breaker = Breaker(clock)
    epochs = [breaker.starts() for _ in range(50)]
    assert [breaker.failed(e) for e in epochs].count(True) == 1
    clock.now_s += 2.1
    assert breaker.admits()


def test_calls_from_before_the_opening_neither_close_it_nor_pass_for_the_probe() -> None:
    clock = HandClock()
    breaker = Breaker(clock)
    old = [breaker.starts() for _ in range(6)]
    for epoch in old[:3]:
        breaker.failed(epoch)
    breaker.succeeded(old[3])
    assert not breaker.closed
    clock.now_s += 3
    breaker.starts()
    breaker.abandoned(old[4])
    assert not breaker.admits(), "the probe is still on its way"
    assert not breaker.failed(old[5])
    assert not breaker.admits()
