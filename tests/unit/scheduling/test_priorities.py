"""The rule with priorities: the safe mode of a queue."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from dataclasses import replace

import pytest

from gateway.config import QueueSettings, RoutingSettings
from gateway.scheduling.calls import Action, CloudPermission, QueuedCall, Refuse, Release, SpillNow
from gateway.scheduling.factory import new_scheduler
from gateway.scheduling.rules.baselines import RULES
from gateway.scheduling.rules.failsafe import Guarded
from gateway.scheduling.rules.priorities import PRIORITIES, ByPriority
from gateway.simulate.study import NAMES, simulate
from gateway.simulate.workload import MODES, build
from tests.unit.scheduling.calls import (
    BATCH,
    FULL_S,
    Seen,
    clear,
    cloud,
    finish,
    restricted,
    steady_model,
)
from tests.unit.simulate.traces import bursty

SLOW_CLOUD = cloud(5.0)


def rule(servers: int = 1, max_waiting: int = 4096) -> ByPriority:
    models = {f"gpu-{number}": steady_model() for number in range(servers)}
    return ByPriority(models, BATCH, max_waiting)


def test_what_only_the_premises_can_serve_goes_first() -> None:
    """Restricted calls, and those that the cloud would answer too late, before tighter others."""
    waits, seen = rule(), Seen()
    first = restricted()
    seen(waits.arrive(first, 0.0))
    waits.limits.cloud_room = 0.0
    others = [clear(0.9) for _ in range(BATCH)]
    kept = [restricted(3.0) for _ in range(4)]
    critical = [clear(2.0, tail=SLOW_CLOUD) for _ in range(4)]
    for call in (*others, *kept, *critical):
        seen(waits.arrive(call, 0.0))
    seen(finish(waits, seen.releases[0], 0.01))
    batch = [call.id for call in seen.releases[1].calls]
    assert batch[:8] == [c.id for c in (*critical, *kept)]
    assert set(batch[8:]) <= {c.id for c in others}


def test_a_call_that_would_be_late_here_leaves_and_a_restricted_one_stays() -> None:
    waits, seen = rule(), Seen()
    for _ in range(8 * BATCH):
        seen(waits.arrive(restricted(10.0), 0.0))
    late, tight = clear(2 * FULL_S), restricted(9.0)
    assert seen(waits.arrive(late, 0.0)) == [SpillNow(late, "spill_deadline")]
    assert seen(waits.arrive(tight, 0.0)) == []
    waits.limits.cloud_room = 0.0
    assert not [a for a in waits.arrive(clear(2 * FULL_S), 0.0) if isinstance(a, SpillNow)]
    assert all(not call.restricted for call in seen.spilled)


def test_calls_that_wait_leave_when_those_before_them_become_many() -> None:
    waits, seen = rule(), Seen()
    seen(waits.arrive(restricted(10.0), 0.0))
    waiting = clear(4 * FULL_S, price=2.9)
    seen(waits.arrive(waiting, 0.0))
    assert seen.spilled == []
    for _ in range(8 * BATCH):
        seen(waits.arrive(restricted(10.0), 0.001))
    assert seen.spilled == [waiting]


def test_what_cannot_be_served_in_time_holds_up_nobody() -> None:
    waits, seen = rule(), Seen()
    waits.limits.cloud_room = 0.0
    for _ in range(BATCH):
        seen(waits.arrive(restricted(10.0), 0.0))
    seen(waits.arrive(restricted(0.001, 0.0), 0.0))
    assert [r.why for r in seen.refused] == ["deadline_unmeetable"]
    # A batch takes nobody who would make the others late.
    waits, seen = rule(), Seen()
    seen(waits.arrive(restricted(1.0), 0.0))
    for _ in range(BATCH):
        seen(waits.arrive(restricted(0.03), 0.0))
    seen(finish(waits, seen.releases[0], 0.01))
    second = seen.releases[1].calls
    assert 0 < len(second) < BATCH
    assert 0.01 + steady_model().predict_s(float(len(second))) <= 0.03


def test_without_a_server_restricted_calls_wait_for_one_until_their_deadline() -> None:
    waits, seen = rule(), Seen()
    seen(waits.mark_up("gpu-0", False, 0.0))
    call = restricted(1.0)
    seen(waits.arrive(call, 0.0))
    seen(waits.arrive(clear(1.0), 0.0))
    assert len(seen.spilled) == 1
    assert (seen.refused, waits.waiting, waits.wake_s) == ([], 1, 1.0)
    seen(waits.tick(0.5))
    assert waits.waiting == 1
    seen(waits.mark_up("gpu-0", True, 0.6))
    assert [c.id for c in seen.sent] == [call.id]
    assert waits.wake_s == math.inf
    waits, seen = rule(), Seen()
    seen(waits.mark_up("gpu-0", False, 0.0))
    seen(waits.arrive(call, 0.0))
    seen(waits.tick(waits.wake_s))
    assert [r.why for r in seen.refused] == ["deadline_exceeded_in_queue"]


def test_a_full_queue_lets_clear_calls_leave_and_refuses_restricted_ones() -> None:
    waits = rule(max_waiting=2)
    for _ in range(3):
        waits.arrive(restricted(10.0), 0.0)
    asked = clear(10.0)
    assert waits.would(asked, 0.0) == SpillNow(asked, "spill_queue")
    assert waits.arrive(asked, 0.0) == [SpillNow(asked, "spill_queue")]
    (refused,) = waits.arrive(restricted(10.0), 0.0)
    assert isinstance(refused, Refuse)
    assert refused.why == "queue_full"


def test_a_forecast_takes_no_place_in_the_cloud() -> None:
    waits, call = rule(max_waiting=1), clear(9.0)
    waits.mark_up("gpu-0", False, 0.0)
    waits.arrive(restricted(9.0), 0.0)
    waits.limits.cloud_room = 1.0
    assert waits.would(call, 0.0) == SpillNow(call, "spill_queue")
    assert waits.arrive(call, 0.0) == [SpillNow(call, "spill_queue")]
    assert waits.limits.cloud_room == 0.0


def test_one_that_may_not_leave_after_all_does_not() -> None:
    waits, seen = rule(), Seen()
    for _ in range(2):
        seen(waits.arrive(restricted(10.0), 0.0))
    call = clear(10.0)
    seen(waits.arrive(call, 0.0))
    seen(
        waits.changed(replace(call, leave=CloudPermission.NEVER, restricted=True, cloud=None), 0.0)
    )
    for _ in range(8 * BATCH):
        seen(waits.arrive(restricted(10.0), 0.001))
    assert seen.spilled == []
    assert waits.cancelled(call.id, 0.1) == []
    assert call.id not in {entry[3].id for entry in waits._line.entries}


@pytest.mark.parametrize("seed", range(8))
def test_every_call_ends_once_and_what_it_would_do_is_what_it_does(seed: int) -> None:
    chance = random.Random(seed)
    waits, now_s = rule(servers=2), 0.0
    ended: dict[int | str, int] = {}
    answers: list[tuple[float, QueuedCall]] = []
    asked: list[QueuedCall] = []

    def do(actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Release):
                answers.extend((now_s + 0.03, call) for call in action.calls)
            else:
                ended[action.call.id] = ended.get(action.call.id, 0) + 1
                assert not (isinstance(action, SpillNow) and action.call.restricted)

    while len(asked) < 300 or answers or waits.waiting:
        now_s += 0.002
        if len(asked) < 300:
            waits.limits.cloud_room = float(chance.choice((0, 1, 5)))
            make = chance.choice((clear, restricted))
            call = make(chance.choice((0.02, 0.1, 0.5)), now_s)
            asked.append(call)
            would = waits.would(call, now_s)
            actions = waits.arrive(call, now_s)
            own = [a for a in actions if not isinstance(a, Release) and a.call is call]
            assert own == ([] if would is None else [would])
            do(actions)
        for _, call in [a for a in answers if a[0] <= now_s]:
            ended[call.id] = ended.get(call.id, 0) + 1
            do(waits.ended(call.id, True, now_s))
        answers = [a for a in answers if a[0] > now_s]
        do(waits.tick(now_s))
        assert now_s < 60.0
    assert set(ended.values()) == {1}
    assert len(ended) == 300


# As the safe mode


def test_it_follows_a_scheduler_that_failed_and_is_a_policy_of_its_own() -> None:
    models = {"gpu": steady_model()}
    made = new_scheduler(QueueSettings(), RoutingSettings())(models, BATCH, True, {})
    assert isinstance(made, Guarded)
    assert isinstance(made._rule(), ByPriority)
    own = new_scheduler(QueueSettings(), RoutingSettings(policy="priorities"))
    assert isinstance(own(models, BATCH, True, {}), ByPriority)
    assert PRIORITIES in NAMES


def test_it_is_the_best_of_the_simple_rules() -> None:
    """Together over modes and loads; `predicted_completion`, which was the safe mode once, is the
    worst of those that let calls leave."""
    spent: defaultdict[str, float] = defaultdict(float)
    for mode, load in (("ms", 1.0), ("ms", 1.5), ("ms", 2.0), ("s", 1.0), ("s", 1.5), ("s", 2.0)):
        calls = build(bursty(), MODES[mode], load, 1)
        for name in (PRIORITIES, *RULES):
            figures = simulate(calls, name)
            spent[name] += (figures.cloud_cost + figures.missed_cost) / len(calls)
            if name == PRIORITIES:
                assert figures.restricted_in_cloud == 0
                assert (figures.attainment.restricted or 0.0) >= 0.995
    assert min(spent, key=lambda name: spent[name]) == PRIORITIES
    assert spent[PRIORITIES] < 0.3 * spent["predicted_completion"]
