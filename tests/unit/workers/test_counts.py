"""Limits over several workers (O5): no part of one is had twice, whoever dies or stops."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.cluster.workers.memory import Unshared
from gateway.core.errors import OverLimit, Saturated
from gateway.core.types import Quota
from gateway.pipeline.rate_limits import QuotaReservation
from tests.unit.workers.rig import WORKERS, Machine, request

REQUESTS = Quota("key a", "key", "acme", requests_per_minute=6)
TOKENS = Quota("key t", "key", "acme", tokens_per_minute=1000)
CALLS = Quota("tenant acme", "tenant", "acme", concurrent=2)


@pytest.fixture
def machine() -> Iterator[Machine]:
    with contextlib.closing(Machine()) as found:
        yield found


def test_what_a_dead_worker_had_inside_is_free_and_what_it_used_is_not(machine: Machine) -> None:
    one, two = machine.limits(1), machine.limits(2)
    one.enter(request("acme", CALLS, REQUESTS))
    two.enter(request("acme", CALLS, REQUESTS))
    with machine.memory:
        machine.slots().forget(1)
    two.enter(request("acme", CALLS, REQUESTS))
    with pytest.raises(OverLimit):
        two.enter(request("acme", CALLS, REQUESTS))
    for _ in range(3):
        two.enter(request("acme", REQUESTS))
    with pytest.raises(OverLimit):
        two.enter(request("acme", REQUESTS))


def test_while_nobody_can_say_what_others_let_in_nobody_with_a_limit_enters(
    machine: Machine,
) -> None:
    limits, admission = machine.limits(1), machine.admission(1)
    share, leave = limits.enter(request("acme", CALLS)), admission.enter(request("acme"))
    holder = machine.held_elsewhere()
    try:
        works: list[Callable[[], object]] = [
            lambda: limits.enter(request("acme", CALLS)),
            lambda: limits.check(request("acme", CALLS)),
            lambda: admission.enter(request("acme")),
            lambda: admission.check(request("acme")),
        ]
        for work in works:
            with pytest.raises(Saturated) as caught:
                work()
            assert caught.value.reason == "workers_unknown"
        limits.enter(request("acme")).settle(None, True)  # who has no limit is not asked
        share.settle(None, True)
        leave()
    finally:
        holder.kill()
        holder.wait()
    for _ in range(2):
        limits.enter(request("acme", CALLS))  # what was left meanwhile is given back
    admission.enter(request("acme"))
    with machine.memory:
        slots = machine.slots()
        assert slots.inside(slots.find("tenant acme", machine.times())) == 2
        assert slots.inside(slots.find("\0", machine.times())) == 1


def test_more_names_than_there_is_room_for_are_refused_and_none_is_forgotten() -> None:
    machine = Machine(slots=8)
    limits = machine.limits(1)
    refused = 0
    for n in range(9):
        try:
            limits.enter(request("acme", Quota(f"key {n}", "key", "acme", concurrent=1)))
        except Saturated:
            refused += 1
    assert refused == 1
    for n in range(8):
        with pytest.raises(OverLimit):
            limits.enter(request("acme", Quota(f"key {n}", "key", "acme", concurrent=1)))
    machine.close()


def test_whoever_used_nothing_for_a_minute_makes_room() -> None:
    machine = Machine(slots=8)
    limits = machine.limits(1)
    for n in range(40):
        quota = Quota(f"key {n}", "key", "acme", requests_per_minute=6)
        limits.enter(request("acme", quota)).settle(None, True)
        machine.times.now_s += 20.0
    machine.close()


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "enter", "settle", "die", "wait"]), st.integers(1, WORKERS)
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(STEPS)
def test_whatever_workers_do_and_die_of_no_limit_is_had_twice(steps: list[Step]) -> None:
    """A model that counts: calls that live, and requests since each moment."""
    machine = Machine()
    workers = {n: machine.limits(n) for n in range(1, WORKERS + 1)}
    held: dict[int, deque[QuotaReservation]] = {n: deque() for n in workers}
    at: list[float] = []
    for what, n in steps:
        if what == "enter":
            inside = sum(map(len, held.values()))
            try:
                held[n].append(workers[n].enter(request("acme", CALLS, REQUESTS)))
            except OverLimit:
                assert inside >= 2 or len(at) >= 6
                continue
            assert inside < 2
            at.append(machine.times.now_s)
            for since_s in at:
                made = sum(1 for s in at if s >= since_s)
                assert made <= math.floor(6 + (machine.times.now_s - since_s) / 10 + 1e-6)
        elif what == "settle" and held[n]:
            held[n].popleft().settle(None, True)
        elif what == "die":
            with machine.memory:
                machine.slots().forget(n)
            held[n].clear()
            workers[n] = machine.limits(n)
        elif what == "wait":
            machine.times.now_s += 4.0
    machine.close()


def test_a_lock_is_let_go_of_when_its_worker_dies(machine: Machine) -> None:
    holder = machine.held_elsewhere()
    with pytest.raises(Unshared), machine.memory:
        pass
    holder.kill()
    holder.wait()
    with machine.memory:
        pass
