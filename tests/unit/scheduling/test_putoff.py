"""Who cannot be in time as it looks now: who of them waits, and who is told at once."""

from __future__ import annotations

import random

from gateway.scheduling.best_set.deferred import PutOff
from tests.unit.scheduling.calls import restricted
from tests.unit.scheduling.overload import overloaded


def end(put_off: PutOff, served: bool, times: int = 1) -> None:
    for _ in range(times):
        call = restricted()
        put_off.add(call, 1.0)
        put_off.take(call.id)
        if served:
            put_off.served(call.id)
        else:
            put_off.late(call.id)


def test_at_first_whoever_is_put_off_waits() -> None:
    assert PutOff(0.2).hopeful(restricted())


def test_where_nobody_came_back_only_a_few_wait_to_see_whether_that_is_still_so() -> None:
    put_off = PutOff(0.2)
    end(put_off, served=False, times=200)
    assert sum(put_off.hopeful(restricted()) for _ in range(160)) == 10


def test_where_enough_come_back_everybody_waits_again() -> None:
    put_off = PutOff(0.2)
    end(put_off, served=False, times=200)
    end(put_off, served=True, times=20)
    assert all(put_off.hopeful(restricted()) for _ in range(50))


def test_a_call_that_waits_already_is_not_sent_off_by_what_others_met() -> None:
    put_off, call = PutOff(0.2), restricted()
    put_off.add(call, 1.0)
    put_off.take(call.id)
    end(put_off, served=False, times=200)
    assert put_off.hopeful(call)


def test_whose_caller_left_says_nothing_of_the_prospects() -> None:
    put_off = PutOff(0.2)
    for _ in range(200):
        call = restricted()
        put_off.add(call, 1.0)
        put_off.take(call.id)
        put_off.forget(call.id)
        put_off.late(call.id)
    assert all(put_off.hopeful(restricted()) for _ in range(50))


def test_the_first_who_will_be_too_late_is_asked_about_and_kept_if_it_is_not() -> None:
    put_off = PutOff(0.2)
    early, late = restricted(), restricted()
    put_off.add(late, 2.0)
    put_off.add(early, 1.0)
    assert put_off.next_s == 1.0
    assert put_off.refuse_before(1.5, lambda call: 4.0) == []
    assert 1.5 < put_off.next_s < 1.6
    assert put_off.refuse_before(3.0, lambda call: 2.9 if call is early else 4.0) == [early]
    assert list(put_off.calls.values()) == [late]


def test_those_who_are_kept_are_asked_about_together_and_not_without_a_pause() -> None:
    """A batch could begin now, whenever that is: no server is up."""
    put_off = PutOff(0.2)
    for number in range(50):
        put_off.add(restricted(), 1.0 + number / 1e4)
    now_s, times, gone = 1.006, 0, 0
    while put_off.calls:
        gone += len(put_off.refuse_before(now_s, lambda call: 2.0005))
        times += 1
        assert now_s <= 2.0005 or gone == 50
        now_s = put_off.next_s + 1e-6
    assert times <= 130
    assert gone == 50


def test_three_times_too_much_that_cannot_leave_is_mostly_refused_at_once() -> None:
    draw = random.Random(7)
    budgets_s = (0.1, 0.3, 0.8)
    seen = overloaded(
        3.0, lambda at_s: restricted(draw.choice(budgets_s), at_s, work=draw.uniform(0.5, 1.5))
    )
    late = seen.waited_s[len(seen.waited_s) // 2 :]
    assert sum(waited_s < 0.001 for waited_s in late) > 0.5 * len(late)


def test_what_is_asked_for_beyond_the_servers_waits_while_enough_of_it_comes_back() -> None:
    draw = random.Random(7)
    seen = overloaded(
        1.05, lambda at_s: restricted(draw.choice((0.3, 0.8)), at_s, work=draw.uniform(0.5, 1.5))
    )
    assert not [waited_s for waited_s in seen.waited_s if waited_s < 0.001]
