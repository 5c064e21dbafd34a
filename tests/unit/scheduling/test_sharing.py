"""Several models on one GPU: whose turn it is, and what is kept for whose calls."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from gateway.scheduling.calls import Action, QueuedCall, Release, SpillNow
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.servers.sharing import SharedGpu
from gateway.scheduling.tuning import Tuning
from tests.unit.scheduling.calls import (
    BATCH,
    FIXED_S,
    FULL_S,
    PER_WORK_S,
    Seen,
    clear,
    finish,
    restricted,
)
from tests.unit.scheduling.shared import ALONE_S, PLAIN, in_turns, teach, two

# Whose turn it is


def test_a_batch_waits_for_that_of_another_model_and_is_told_when_it_ends() -> None:
    one, other = two(gpu := in_turns())
    seen, others = Seen(), Seen()
    seen(one.arrive(restricted(), 0.0))
    others(other.arrive(restricted(), 0.001))
    assert (len(seen.releases), len(others.releases)) == (1, 0)
    seen(finish(one, seen.releases[0], 0.01))
    assert gpu.whose_turn() == 3, "numbers 0 and 1 are the teacher's"
    others(other.tick(0.01))
    assert len(others.releases) == 1


def test_batches_that_do_not_disturb_each_other_do_not_wait() -> None:
    gpu = SharedGpu()
    gpu.join()
    gpu.join()
    teach(gpu, lost=0.3)
    one, other = two(gpu)
    seen = Seen()
    seen(one.arrive(restricted(), 0.0))
    seen(other.arrive(restricted(), 0.0))
    assert len(seen.releases) == 2


def test_the_turn_is_that_of_the_call_that_is_due_first_whoever_was_there_before() -> None:
    one, other = two(gpu := in_turns())
    seen, others = Seen(), Seen()
    seen(one.arrive(restricted(), 0.0))
    for _ in range(BATCH):
        seen(one.arrive(restricted(1.0), 0.0))
    others(other.arrive(restricted(0.5), 0.0))
    seen(finish(one, seen.releases[0], 0.01))
    assert len(seen.releases) == 1
    assert gpu.whose_turn() == 3
    others(other.tick(0.01))
    assert len(others.releases) == 1
    others(finish(other, others.releases[0], 0.02))
    seen(one.tick(0.02))
    assert len(seen.releases) == 2


def test_a_model_that_lets_another_go_first_looks_again_soon_if_that_does_not_go() -> None:
    one, other = two(in_turns())
    seen = Seen()
    seen(one.arrive(restricted(), 0.0))
    seen(one.arrive(restricted(), 0.0))
    other.arrive(restricted(0.5), 0.0)
    seen(finish(one, seen.releases[0], 0.01))
    assert len(seen.releases) == 1
    assert one.wake_s <= 0.01 + FULL_S / 4


def test_calls_that_were_put_off_take_no_turn_from_calls_that_were_not() -> None:
    one, other = two(gpu := in_turns(), replace(PLAIN, restricted_budget=0.9))
    seen, others = Seen(), Seen()
    seen(one.arrive(restricted(9.0, work=30.0), 0.0))
    others(other.arrive(restricted(0.08), 0.0))  # the running batch and its own take 78 ms
    seen(one.arrive(restricted(5.0), 0.0))
    assert other.waiting == 1
    assert others.refused == []
    seen(finish(one, seen.releases[0], 0.05))
    assert len(seen.releases) == 2
    assert others.releases == []
    seen(finish(one, seen.releases[1], 0.06))
    assert gpu.whose_turn() == 3
    others(other.tick(0.06))
    assert len(others.releases) == 1


def test_a_model_whose_calls_avoid_the_server_holds_nobody_up() -> None:
    one, other = two(gpu := in_turns())
    seen, others = Seen(), Seen()
    others(other.arrive(replace(restricted(0.1), avoid=frozenset({"gpu"})), 0.0))
    seen(one.arrive(restricted(), 0.0))
    assert len(seen.releases) == 1
    others(other.tick(0.005))
    seen(one.arrive(restricted(), 0.005))
    seen(finish(one, seen.releases[0], 0.01))
    if gpu.whose_turn() is not None:
        others(other.tick(0.01))
    seen(one.tick(max(one.wake_s, 0.01)))
    assert len(seen.releases) == 2


def test_a_model_that_may_send_nothing_now_has_no_turn() -> None:
    """It starts slowly, or its server is down."""
    one, other = two(in_turns())
    seen, others = Seen(), Seen()
    seen(one.arrive(restricted(), 0.0))
    seen(one.arrive(restricted(), 0.0))
    others(other.arrive(restricted(0.5), 0.0))
    others(other.limit("gpu", 0.0, 0.001))
    seen(finish(one, seen.releases[0], 0.01))
    assert len(seen.releases) == 2


def test_a_batch_that_does_not_end_holds_up_the_others_for_twice_its_time() -> None:
    one, other = two(in_turns())
    seen, others = Seen(), Seen()
    seen(one.arrive(restricted(9.0), 0.0))
    others(other.arrive(restricted(9.0), 0.0))
    now_s = 0.0
    while not others.releases and now_s < 1.0:
        now_s = max(now_s + 1e-4, other.wake_s)
        others(other.tick(now_s))
    assert ALONE_S * 1.9 < now_s < ALONE_S * 2.5


def test_only_a_batch_of_the_same_model_is_sent_ahead_of_the_running_ones_end() -> None:
    """Where they are not in turns after all it would begin at once, and seem to be shorter."""
    one, other = two(in_turns(), lead_s=0.004)
    seen, others = Seen(), Seen()
    seen(one.arrive(restricted(), 0.0))
    seen(one.arrive(restricted(), 0.0))
    others(other.arrive(restricted(2.0), 0.0))
    assert one.wake_s == pytest.approx(ALONE_S - 0.004)
    seen(one.tick(one.wake_s))
    others(other.tick(0.007))
    assert (len(seen.releases), len(others.releases)) == (2, 0)


def test_a_call_that_is_due_before_lets_no_batch_be_sent_ahead() -> None:
    one, other = two(gpu := in_turns(), lead_s=0.004)
    seen, others = Seen(), Seen()
    seen(one.arrive(restricted(), 0.0))
    seen(one.arrive(restricted(2.0), 0.0))
    others(other.arrive(restricted(), 0.0))
    seen(one.tick(one.wake_s))
    assert len(seen.releases) == 1
    seen(finish(one, seen.releases[0], ALONE_S))
    assert gpu.whose_turn() == 3
    others(other.tick(ALONE_S))
    assert len(others.releases) == 1


# What is reserved


def arrivals(seconds: float, per_s: float, seed: int) -> Iterator[float]:
    draw, now_s = random.Random(seed), 0.0
    while now_s < seconds:
        now_s += draw.expovariate(per_s)
        yield now_s


def spilled(gpu: SharedGpu) -> float:
    """The share of cheap calls of one model that leave, while dear calls of the other ask for nine
    tenths of the server."""
    cheap_one, dear_one = two(gpu, Tuning())
    per_call_s = FIXED_S / BATCH + PER_WORK_S
    come = heapq.merge(
        ((at_s, 0) for at_s in arrivals(1.0, 0.6 / per_call_s, 1)),
        ((at_s, 1) for at_s in arrivals(1.0, 0.9 / per_call_s, 2)),
    )
    left = total = 0
    running: list[tuple[float, int, int, Release]] = []
    order = count()
    for at_s, dear in come:
        while running and running[0][0] <= at_s:
            end_s, _, which, release = heapq.heappop(running)
            model = (cheap_one, dear_one)[which]
            todo = [(which, action) for action in finish(model, release, end_s)]
            while (turn := gpu.whose_turn()) is not None:
                at = turn - 2
                todo += [(at, action) for action in (cheap_one, dear_one)[at].tick(end_s)]
            left += start(todo, running, end_s, order)
        call = restricted(0.3, at_s, penalty=40.0) if dear else clear(0.1, at_s, penalty=3.0)
        total += not dear
        model = dear_one if dear else cheap_one
        left += start([(dear, a) for a in model.arrive(call, at_s)], running, at_s, order)
    return left / total


def start(
    todo: list[tuple[int, Action]],
    running: list[tuple[float, int, int, Release]],
    now_s: float,
    order: Iterator[int],
) -> int:
    """Returns how many left."""
    left = 0
    for which, action in todo:
        left += isinstance(action, SpillNow)
        if isinstance(action, Release):
            took_s = FIXED_S + PER_WORK_S * sum(call.work for call in action.calls)
            heapq.heappush(running, (now_s + took_s, next(order), which, action))
    return left


def test_cheap_calls_leave_for_dearer_ones_of_another_model_that_takes_turns_with_theirs() -> None:
    apart = SharedGpu()
    apart.join()
    apart.join()
    teach(apart, lost=0.0)
    assert spilled(apart) == 0.0
    assert spilled(in_turns()) > 0.3


# Alone


def drive(waits: Scheduler, seed: int) -> list[tuple[float, str]]:
    """What it did with calls of every kind on a server that sometimes is slow."""
    draw = random.Random(seed)
    done: list[tuple[float, str]] = []
    now_s = 0.0
    running: list[tuple[float, int, Release]] = []
    numbers = count()
    for _ in range(400):
        now_s += draw.expovariate(600.0)
        while running and running[0][0] <= now_s:
            end_s, _, release = heapq.heappop(running)
            actions = finish(waits, release, end_s)
            begin(actions, running, end_s, draw, done)
        make = clear if draw.random() < 0.6 else restricted
        call: QueuedCall = make(draw.choice((0.1, 0.3, 0.8)), now_s, work=draw.uniform(0.5, 2))
        begin(waits.arrive(replace(call, id=next(numbers)), now_s), running, now_s, draw, done)
    return done


def begin(
    actions: list[Action],
    running: list[tuple[float, int, Release]],
    now_s: float,
    draw: random.Random,
    done: list[tuple[float, str]],
) -> None:
    for action in actions:
        if isinstance(action, Release):
            done.append((now_s, f"sent {[call.id for call in action.calls]}"))
            took_s = FIXED_S + PER_WORK_S * sum(c.work for c in action.calls)
            heapq.heappush(running, (now_s + took_s * draw.uniform(1, 1.2), len(done), action))
        else:
            done.append((now_s, f"{type(action).__name__} {action.call.id}"))


def test_a_model_that_has_the_gpu_for_itself_decides_as_if_nobody_could_share_it() -> None:
    alone = Scheduler({"gpu": BatchModel(FIXED_S, PER_WORK_S)}, BATCH)
    joined = Scheduler({"gpu": BatchModel(FIXED_S, PER_WORK_S)}, BATCH, gpus={"gpu": SharedGpu()})
    assert drive(alone, 1) == drive(joined, 1)


def test_to_ask_what_would_happen_changes_nothing_for_the_other_models() -> None:
    one, other = two(gpu := in_turns())
    seen = Seen()
    assert one.would(restricted(), 0.0) is None
    assert gpu.whose_turn() is None
    seen(other.arrive(restricted(), 0.0))
    assert len(seen.releases) == 1
