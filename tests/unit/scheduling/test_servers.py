"""Instances, rows and limits: how many calls a server has, and when it is sent more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.scheduling.calls import QueuedCall, Release, Scheduling
from gateway.scheduling.rules.baselines import OnArrival, never
from gateway.scheduling.scheduler import Scheduler
from gateway.scheduling.tuning import Tuning
from tests.unit.scheduling.calls import (
    BATCH,
    FULL_S,
    Seen,
    clear,
    finish,
    restricted,
    scheduler,
    steady_model,
)


def replace_without(release: Release, lost: QueuedCall) -> Release:
    return Release(release.server, tuple(call for call in release.calls if call is not lost))


PLAIN = Tuning(margin=1.0, batch_safety=1.0, reserve=0.0, restricted_budget=1.0)


def best_set(*servers: str, batch: int = BATCH) -> Scheduling:
    return Scheduler({name: steady_model() for name in servers or ("gpu",)}, batch, PLAIN)


def by_rule(*servers: str, batch: int = BATCH) -> Scheduling:
    return OnArrival({name: steady_model() for name in servers or ("gpu",)}, batch, never)


both = pytest.mark.parametrize("made", [best_set, by_rule])
Made = Callable[..., Scheduling]


def come(waits: Scheduling, *calls: QueuedCall, now_s: float = 0.0) -> Seen:
    seen = Seen()
    for call in calls:
        seen(waits.arrive(call, now_s))
    return seen


@both
def test_each_instance_of_a_server_has_a_batch_of_its_own(made: Made) -> None:
    waits = made(batch=1)
    waits.grow("gpu", 3, 0.0)
    seen = come(waits, *(restricted() for _ in range(5)))
    assert [release.server for release in seen.releases] == ["gpu"] * 3
    assert (waits.servers.in_flight("gpu"), waits.waiting) == (3, 2)
    seen(finish(waits, seen.releases[1], 0.01))  # one long call holds one place
    assert (waits.servers.in_flight("gpu"), waits.waiting) == (3, 1)


@both
def test_instances_that_are_learnt_of_late_are_used_at_once(made: Made) -> None:
    waits = made(batch=1)
    seen = come(waits, *(restricted() for _ in range(4)))
    seen(waits.grow("gpu", 2, 0.0))
    assert len(seen.releases) == 2
    waits.grow("gpu", 1, 0.0)
    seen(finish(waits, seen.releases[0], 0.01))
    assert waits.servers.in_flight("gpu") == 2, "they never become fewer"


@both
def test_a_limit_holds_for_all_instances_together(made: Made) -> None:
    waits = made(batch=2)
    waits.grow("gpu", 3, 0.0)
    waits.limit("gpu", 3.0, 0.0)
    seen = come(waits, *(restricted() for _ in range(9)))
    assert waits.servers.in_flight("gpu") == 3
    waits.limit("gpu", 4.0, 0.0)
    seen(finish(waits, seen.releases[0], 0.01))
    assert waits.servers.in_flight("gpu") == 4


@both
def test_what_goes_down_takes_all_its_instances_with_it(made: Made) -> None:
    waits = made("a", "b", batch=1)
    for name in ("a", "b"):
        waits.grow(name, 2, 0.0)
    waits.mark_up("a", False, 0.0)
    seen = come(waits, *(restricted() for _ in range(6)))
    assert {release.server for release in seen.releases} == {"b"}
    seen(waits.mark_up("a", True, 0.0))
    assert waits.servers.in_flight("a") == 2


@both
def test_a_call_goes_to_no_server_that_it_avoids(made: Made) -> None:
    waits = made("a", "b")
    first = replace(restricted(), avoid=frozenset({"a"}))
    seen = come(waits, first, restricted(), replace(restricted(), avoid=frozenset({"b"})))
    went = {call.id: release.server for release in seen.releases for call in release.calls}
    assert went[first.id] == "b"
    seen(finish(waits, seen.releases[0], 0.01))
    seen(finish(waits, seen.releases[1], 0.01))
    went = {call.id: release.server for release in seen.releases for call in release.calls}
    assert len(went) == 3
    assert waits.waiting == 0


# Rows


@both
def test_a_batch_holds_as_many_rows_as_the_server_takes(made: Made) -> None:
    waits = made(batch=8)
    seen = come(waits, restricted(), *(replace(restricted(work=3.0), rows=3) for _ in range(4)))
    seen(finish(waits, seen.releases[0], 0.01))
    assert [call.rows for call in seen.releases[1].calls] == [3, 3]
    seen(finish(waits, seen.releases[1], 0.05))
    assert [call.rows for call in seen.releases[2].calls] == [3, 3]


@both
def test_a_call_larger_than_a_batch_is_sent_alone_and_not_for_ever_kept(made: Made) -> None:
    waits = made(batch=4)
    seen = come(waits, restricted(), replace(restricted(0.9, work=9.0), rows=9), restricted())
    seen(finish(waits, seen.releases[0], 0.01))
    assert [call.rows for call in seen.releases[1].calls] == [9]
    seen(finish(waits, seen.releases[1], 0.05))
    assert [call.rows for call in seen.releases[2].calls] == [1]


def test_calls_of_many_rows_are_not_planned_as_if_a_batch_held_as_many_calls() -> None:
    """Two of eight rows make a batch here: 9 ms, so that 222 of them are served in a second."""
    waits, seen = scheduler(), Seen()
    seen(waits.arrive(clear(work=16.0), 0.0))
    for _ in range(500):
        seen(waits.arrive(replace(clear(1.0, work=0.5), rows=8), 0.0))
    assert 180 < waits.waiting < 230
    assert len(seen.spilled) == 500 - waits.waiting


def test_those_who_were_put_off_fill_a_batch_to_its_last_row_and_no_further() -> None:
    waits, seen = scheduler(), Seen()
    seen(waits.arrive(clear(work=16.0), 0.0))
    waits.limits.cloud_room = 0.0
    off = [replace(restricted(0.2, work=6.0), rows=6) for _ in range(12)]
    for call in off:
        seen(waits.arrive(call, 0.0))
    now_s = FULL_S
    while waits.waiting and now_s < 2.0:
        seen(finish(waits, seen.releases[-1], now_s))
        now_s += FULL_S
    assert max(sum(call.rows for call in release.calls) for release in seen.releases) <= BATCH


# Calls that are not answered


def test_a_call_that_is_never_answered_does_not_keep_the_server_from_the_others() -> None:
    waits, seen = scheduler(lead_s=0.01), Seen()
    lost = clear(9.0)
    seen(waits.arrive(lost, 0.0))
    for _ in range(40):
        seen(waits.arrive(clear(9.0), 0.0))
    now_s = 0.0
    for _ in range(6):
        now_s = max(now_s + 0.001, waits.wake_s)
        seen(waits.tick(now_s))
        seen(finish(waits, replace_without(seen.releases[-1], lost), now_s + 0.001))
    assert waits.waiting == 0
    assert waits.servers.in_flight("gpu-0") >= 1
    seen(waits.ended(lost.id, False, 9.0))
    assert lost.id not in {call.id for call in seen.releases[-1].calls}


def test_what_was_overtaken_counts_until_it_ends() -> None:
    waits, seen = scheduler(lead_s=0.01), Seen()
    lost = clear(9.0)
    seen(waits.arrive(lost, 0.0))
    seen(waits.arrive(clear(9.0), 0.0))
    seen(waits.tick(waits.wake_s))
    assert len(seen.releases) == 2
    seen(finish(waits, seen.releases[1], 0.02))
    assert waits.servers.in_flight("gpu-0") == 1
    seen(waits.ended(lost.id, True, 0.03))
    assert waits.servers.in_flight("gpu-0") == 0
