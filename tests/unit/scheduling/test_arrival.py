"""The simple policies: one decision for each call, when it arrives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.scheduling.calls import CloudPermission, QueuedCall
from gateway.scheduling.rules.baselines import RULES, Backlog, OnArrival, Rule
from tests.unit.scheduling.calls import (
    BATCH,
    CLOUD,
    FULL_S,
    Seen,
    clear,
    cloud,
    finish,
    restricted,
    steady_model,
)


def policy(rule: Rule, servers: int = 1) -> OnArrival:
    return OnArrival({f"gpu-{i}": steady_model() for i in range(servers)}, BATCH, rule)


def always(call: QueuedCall, backlog: Backlog) -> bool:
    return True


IDLE = Backlog(
    now_s=0.0, onprem_s=0.01, queued_s=0.0, backlog_s=0.0, full_batch_s=FULL_S, filled=0.0,
    gpu_s=0.0025,
)  # fmt: skip
BUSY = replace(IDLE, onprem_s=0.9, queued_s=0.8, backlog_s=0.8, filled=5.0)


@pytest.mark.parametrize("leave", [CloudPermission.NEVER, CloudPermission.NOT_YET])
def test_no_rule_sends_away_what_may_not_leave(leave: CloudPermission) -> None:
    seen, waits = Seen(), policy(always)
    for _ in range(50):
        seen(waits.arrive(replace(clear(), leave=leave), 0.0))
        seen(waits.arrive(restricted(), 0.0))
    assert seen.spilled == []


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"onprem_only", "static_split"}))
def test_a_rule_leaves_when_it_is_full_here_and_stays_when_it_is_not(rule: str) -> None:
    assert not RULES[rule](clear(), IDLE)
    assert RULES[rule](clear(), BUSY)


def test_on_prem_only_never_leaves() -> None:
    assert not RULES["onprem_only"](clear(), BUSY)


def test_a_static_split_keeps_what_the_cloud_cannot_make() -> None:
    assert RULES["static_split"](clear(), IDLE)
    assert not RULES["static_split"](clear(budget_s=0.1, tail=cloud(0.5)), IDLE)


def test_a_tighter_budget_joins_a_shorter_queue_only() -> None:
    some = replace(IDLE, queued_s=0.1)
    assert RULES["queue_cap"](clear(budget_s=0.1), some)
    assert not RULES["queue_cap"](clear(budget_s=1.0), some)


def test_a_place_is_never_decided_twice() -> None:
    seen, waits = Seen(), policy(RULES["predicted_completion"])
    seen(waits.arrive(clear(work=16.0), 0.0))
    call = clear(budget_s=0.065)
    seen(waits.arrive(call, 0.0))
    for _ in range(BATCH):
        seen(waits.arrive(restricted(budget_s=0.055), 0.0))
    assert seen.spilled == []
    seen(finish(waits, seen.releases[0], 0.07))
    assert [refused.call for refused in seen.refused][-1] == call


def test_no_more_leave_than_the_cloud_has_room_for() -> None:
    seen, waits = Seen(), policy(always)
    waits.limits.cloud_room = 3
    for _ in range(9):
        seen(waits.arrive(clear(tail=CLOUD), 0.0))
    assert len(seen.spilled) == 3


def test_the_tightest_deadline_goes_first() -> None:
    seen, waits = Seen(), policy(RULES["onprem_only"])
    calls = [clear(budget_s=s) for s in (9.0, 3.0, 6.0)]
    for call in [clear(), *calls]:
        seen(waits.arrive(call, 0.0))
    seen(finish(waits, seen.releases[0], 0.01))
    assert seen.sent[1:] == [calls[1], calls[2], calls[0]]


def test_a_caller_that_leaves_is_not_served() -> None:
    seen, waits = Seen(), policy(RULES["onprem_only"])
    gone = clear()
    for call in (clear(), gone):
        seen(waits.arrive(call, 0.0))
    seen(waits.cancelled(gone.id, 0.001))
    seen(finish(waits, seen.releases[0], 0.01))
    assert gone not in seen.sent
    assert waits.waiting == 0


def test_a_server_that_is_down_gets_nothing_until_it_is_back() -> None:
    seen, waits = Seen(), policy(RULES["onprem_only"])
    seen(waits.mark_up("gpu-0", False, 0.0))
    seen(waits.arrive(restricted(), 0.0))
    assert seen.releases == []
    assert waits.wake_s == 1.0
    seen(waits.mark_up("gpu-0", True, 0.1))
    assert len(seen.releases) == 1
