"""Which waiting calls stay, which leave, and when a batch goes to its server."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gateway.scheduling.calls import CloudPermission
from gateway.scheduling.tuning import Tuning
from tests.unit.scheduling.calls import (
    BATCH,
    CLOUD,
    FULL_S,
    Seen,
    clear,
    cloud,
    finish,
    restricted,
    scheduler,
)


def test_a_call_goes_to_an_idle_server_at_once() -> None:
    seen, waits, call = Seen(), scheduler(), clear()
    seen(waits.arrive(call, 0.0))
    assert seen.sent == [call]
    assert waits.waiting == 0


def test_what_arrives_while_a_batch_runs_makes_the_next_batch() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(), 0.0))
    calls = [clear(at_s=0.001) for _ in range(BATCH)]
    for call in calls:
        seen(waits.arrive(call, 0.001))
    assert len(seen.releases) == 1
    seen(finish(waits, seen.releases[0], 0.01))
    assert list(seen.releases[1].calls) == calls


def test_the_tightest_deadline_goes_first_whoever_came_first() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(), 0.0))
    late, soon = clear(budget_s=0.9), clear(budget_s=0.5)
    for call in (late, soon):
        seen(waits.arrive(call, 0.0))
    seen(finish(waits, seen.releases[0], 0.01))
    assert seen.sent[1:] == [soon, late]


def test_a_batch_never_exceeds_the_servers_maximum() -> None:
    seen, waits = Seen(), scheduler()
    for _ in range(3 * BATCH):
        seen(waits.arrive(clear(), 0.0))
    now_s = 0.0
    while waits.waiting or len(seen.sent) < 3 * BATCH:
        now_s += FULL_S
        seen(finish(waits, seen.releases[-1], now_s))
    assert max(len(release.calls) for release in seen.releases) == BATCH


# Who gives way


def test_when_one_would_be_late_the_one_worth_least_leaves_at_once() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    dear = [clear(budget_s=0.085, price=2.0) for _ in range(BATCH - 1)]
    cheap = clear(budget_s=0.085, price=0.5)
    for call in [*dear[:5], cheap, *dear[5:]]:
        seen(waits.arrive(call, 0.0))
    assert seen.spilled == []
    seen(waits.arrive(clear(budget_s=0.085, price=2.0), 0.0))
    assert seen.spilled == [cheap]


def test_worth_is_reckoned_per_second_of_gpu() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    large = clear(budget_s=0.081, price=2.0, work=8.0)
    small = [clear(budget_s=0.081, price=1.0, work=1.0) for _ in range(8)]
    for call in [large, *small]:
        seen(waits.arrive(call, 0.0))
    assert seen.spilled == []
    seen(waits.arrive(clear(budget_s=0.081, price=1.0), 0.0))
    assert seen.spilled == [large]


def test_a_call_that_the_cloud_could_not_make_any_more_is_worth_its_whole_penalty() -> None:
    """Both are cheap in the cloud, but for one of them the cloud is too slow."""
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    too_slow = clear(budget_s=0.085, price=0.1, tail=cloud(0.5), penalty=9.0)
    calls = [clear(budget_s=0.085, tail=CLOUD) for _ in range(BATCH - 1)]
    for call in [too_slow, *calls, clear(budget_s=0.085, tail=CLOUD)]:
        seen(waits.arrive(call, 0.0))
    assert len(seen.spilled) == 1
    assert too_slow not in seen.spilled


def test_a_call_that_the_cloud_could_not_make_any_more_does_not_leave() -> None:
    """Paid for and late all the same would be the worst of both."""
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    seen(waits.arrive(clear(budget_s=0.03, tail=cloud(0.5)), 0.0))
    assert seen.spilled == []
    seen(waits.arrive(clear(budget_s=0.03, tail=CLOUD), 0.0))
    assert len(seen.spilled) == 1


def test_a_restricted_call_is_put_off_and_never_leaves() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    for _ in range(2 * BATCH):
        seen(waits.arrive(restricted(budget_s=0.085), 0.0))
    assert seen.spilled == []
    assert waits.waiting == 2 * BATCH


def test_a_call_that_was_put_off_comes_back_when_there_is_room() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    stays = [restricted(budget_s=0.085) for _ in range(BATCH)]
    put_off = restricted(budget_s=0.085, penalty=1.0)
    for call in [*stays, put_off]:
        seen(waits.arrive(call, 0.0))
    seen(waits.cancelled(stays[0].id, 0.001))
    seen(finish(waits, seen.releases[0], 0.04))
    assert put_off in seen.sent


def test_a_batch_that_ends_early_lets_those_back_into_the_line_who_were_put_off() -> None:
    """Not only into places that nobody else would take."""
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    stays = [restricted(budget_s=0.075) for _ in range(13)]
    put_off = restricted(budget_s=0.075, penalty=1.0)
    patient = [clear(budget_s=5.0) for _ in range(2 * BATCH)]
    for call in [*stays, put_off, *patient]:
        seen(waits.arrive(call, 0.0))
    seen(finish(waits, seen.releases[0], 0.03))
    assert put_off in seen.releases[1].calls
    assert len(seen.releases[1].calls) == BATCH


def test_a_call_is_refused_when_it_is_provably_late_and_not_before() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    hopeless, tight = restricted(budget_s=0.045), restricted(budget_s=0.051)
    for call in (tight, hopeless):
        seen(waits.arrive(call, 0.0))
    seen(waits.tick(0.0))
    assert [refused.call for refused in seen.refused] == [hopeless]
    assert seen.refused[0].why == "deadline_unmeetable"
    assert seen.refused[0].retry_after_s > 0


def test_a_hopeless_call_displaces_nobody() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    modest = clear(budget_s=0.0505, price=0.1)
    seen(waits.arrive(modest, 0.0))
    seen(waits.arrive(restricted(budget_s=0.055, penalty=99.0, work=4.0), 0.0))
    assert seen.spilled == []
    assert len(seen.refused) == 1


@pytest.mark.parametrize(("reserve", "leaves"), [(0.0, False), (0.7, True)])
def test_room_is_kept_for_dearer_arrivals(reserve: float, leaves: bool) -> None:
    """Restricted calls lately asked for twice the server, so more of them will come: a clear call
    that would fit in front of nobody leaves."""
    seen = Seen()
    waits = scheduler(tuning=Tuning(margin=1.0, reserve=reserve, restricted_budget=1.0))
    for at in range(800):
        seen(waits.arrive(passing := restricted(at_s=at / 800), at / 800))
        seen(waits.cancelled(passing.id, at / 800))
    assert waits.waiting == 0
    seen(waits.arrive(clear(at_s=1.0, work=16.0), 1.0))
    probe = clear(budget_s=0.1, at_s=1.0)
    seen(waits.arrive(probe, 1.0))
    assert (probe in seen.spilled) is leaves


# What may not leave


@pytest.mark.parametrize("leave", [CloudPermission.NEVER, CloudPermission.NOT_YET])
def test_only_a_call_that_may_leave_leaves(leave: CloudPermission) -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    for _ in range(2 * BATCH):
        seen(waits.arrive(replace(clear(budget_s=0.085), leave=leave), 0.0))
    assert seen.spilled == []


def test_a_call_that_is_cleared_while_it_waits_may_leave_from_then_on() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    unread = [
        replace(clear(budget_s=0.085), leave=CloudPermission.NOT_YET) for _ in range(BATCH + 1)
    ]
    for call in unread:
        seen(waits.arrive(call, 0.0))
    for call in unread:
        seen(waits.changed(replace(call, leave=CloudPermission.FREELY), 0.0))
    assert len(seen.spilled) == 1


def test_a_call_that_turns_out_to_be_restricted_stays() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    call = clear(budget_s=0.085, price=0.01)
    seen(waits.arrive(call, 0.0))
    seen(
        waits.changed(replace(call, leave=CloudPermission.NEVER, restricted=True, penalty=6.0), 0.0)
    )
    for _ in range(2 * BATCH):
        seen(waits.arrive(clear(budget_s=0.085), 0.0))
    assert call.id not in {c.id for c in seen.spilled}


def test_a_call_that_could_not_leave_after_all_comes_back_with_its_old_deadline() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    calls = [clear(budget_s=0.085) for _ in range(BATCH + 1)]
    for call in calls:
        seen(waits.arrive(call, 0.0))
    back = replace(seen.spilled[0], leave=CloudPermission.NEVER, restricted=True, penalty=6.0)
    seen(waits.arrive(back, 0.01))
    seen(finish(waits, seen.releases[0], 0.04))
    assert back in seen.sent
    assert back.deadline_s == calls[0].deadline_s


def test_a_restricted_call_that_may_leave_cannot_be_said() -> None:
    with pytest.raises(ValueError, match="may not leave"):
        replace(restricted(), leave=CloudPermission.FREELY)


@pytest.mark.parametrize("room", [0, 3])
def test_no_more_calls_leave_than_the_cloud_has_room_for(room: int) -> None:
    seen, waits = Seen(), scheduler()
    waits.limits.cloud_room = room
    seen(waits.arrive(clear(work=16.0), 0.0))
    for _ in range(2 * BATCH):
        seen(waits.arrive(clear(budget_s=0.085), 0.0))
    assert len(seen.spilled) == room
    assert waits.limits.cloud_room == 0


def test_who_waited_for_the_cloud_leaves_when_it_opens() -> None:
    seen, waits = Seen(), scheduler()
    waits.limits.cloud_room = 0
    seen(waits.arrive(clear(work=16.0), 0.0))
    for _ in range(BATCH + 4):
        seen(waits.arrive(clear(budget_s=0.085, tail=CLOUD), 0.0))
    waits.limits.cloud_room = math.inf
    seen(waits.tick(0.001))
    assert len(seen.spilled) == 4


# Batches


def test_a_batch_is_cut_before_it_makes_its_tightest_call_late() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    tight = restricted(budget_s=0.065)
    for call in [tight, *(clear(budget_s=0.9) for _ in range(BATCH - 1))]:
        seen(waits.arrive(call, 0.0))
    seen(finish(waits, seen.releases[0], 0.04))
    batch = seen.releases[1].calls
    assert batch[0] == tight
    assert len(batch) == 8  # 8 ms and 8 times 2 ms fit into 25 ms


def test_no_batch_is_cut_below_the_smallest() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    for call in [restricted(budget_s=0.0505), *(clear(budget_s=0.9) for _ in range(9))]:
        seen(waits.arrive(call, 0.0))
    seen(finish(waits, seen.releases[0], 0.04))
    assert len(seen.releases[1].calls) == 3


def test_the_next_batch_is_sent_the_lead_before_the_running_one_ends() -> None:
    seen, waits = Seen(), scheduler(lead_s=0.005)
    seen(waits.arrive(clear(work=16.0), 0.0))
    seen(waits.arrive(clear(), 0.0))
    assert waits.wake_s == pytest.approx(0.035, abs=1e-4)
    seen(waits.tick(0.030))
    assert len(seen.releases) == 1
    seen(waits.tick(waits.wake_s))
    assert len(seen.releases) == 2


def test_without_a_lead_the_next_batch_is_sent_on_completion() -> None:
    seen, waits = Seen(), scheduler(lead_s=0.0)
    seen(waits.arrive(clear(work=16.0), 0.0))
    seen(waits.arrive(clear(), 0.0))
    seen(waits.tick(0.0399))
    assert len(seen.releases) == 1
    seen(finish(waits, seen.releases[0], 0.04))
    assert len(seen.releases) == 2


def test_at_most_the_running_batch_and_the_next_are_with_a_server() -> None:
    seen, waits = Seen(), scheduler(lead_s=0.01)
    for _ in range(5 * BATCH):
        seen(waits.arrive(clear(budget_s=5.0), 0.0))
    for step in range(39):
        seen(waits.tick(step / 1000))
    assert len(seen.releases) == 2


def test_the_lead_follows_the_network_and_the_spread_of_the_batches() -> None:
    waits = scheduler(lead_s=None, round_trip_s=0.002)
    seen = Seen()
    seen(waits.arrive(clear(work=16.0), 0.0))
    seen(waits.arrive(clear(), 0.0))
    # Twice the network's time, and a quarter of half a batch before its end.
    assert waits.wake_s == pytest.approx(0.002 + 0.04 - 0.004 - 0.005, abs=1e-3)


def test_a_server_that_answers_sooner_than_the_network_was_thought_to_take_is_learnt_from() -> None:
    """Else nothing would ever be known of a model that takes 0.4 ms."""
    waits, seen = scheduler(lead_s=None, round_trip_s=0.001), Seen()
    declared_s, now_s = waits.servers.model("gpu-0").predict_s(1.0), 0.0
    for _ in range(400):
        seen(waits.arrive(clear(), now_s))
        now_s += 0.0004
        seen(finish(waits, seen.releases[-1], now_s))
        now_s += 0.01
    assert waits.servers.model("gpu-0").predict_s(1.0) < declared_s / 4


def test_two_batches_whose_answers_come_together_say_nothing_of_the_network() -> None:
    waits, seen = scheduler(lead_s=0.01, round_trip_s=0.002), Seen()
    seen(waits.arrive(clear(work=16.0), 0.0))
    seen(waits.arrive(clear(work=16.0), 0.0))
    seen(waits.tick(0.035))
    assert len(seen.releases) == 2
    for release in seen.releases:
        seen(finish(waits, release, 0.05))
    seen(waits.arrive(clear(work=16.0), 0.1))
    seen(waits.arrive(clear(), 0.1))
    assert waits.wake_s == pytest.approx(0.1 + 0.002 + 0.04 - 0.01, abs=5e-3)


def test_the_earliest_free_server_gets_the_batch() -> None:
    seen, waits = Seen(), scheduler(servers=2)
    for call in (clear(work=16.0), clear(work=4.0), clear()):
        seen(waits.arrive(call, 0.0))
    assert [release.server for release in seen.releases] == ["gpu-0", "gpu-1"]
    seen(finish(waits, seen.releases[1], 0.016))
    assert seen.releases[2].server == "gpu-1"


def test_two_servers_hold_twice_as_much() -> None:
    seen, waits = Seen(), scheduler(servers=2)
    for _ in range(2):
        seen(waits.arrive(clear(work=16.0), 0.0))
    for _ in range(2 * BATCH):
        seen(waits.arrive(clear(budget_s=0.085), 0.0))
    assert seen.spilled == []
    seen(waits.arrive(clear(budget_s=0.085), 0.0))
    assert len(seen.spilled) == 1


# Servers that fail, callers that leave


def test_when_no_server_is_up_clear_calls_leave_and_restricted_ones_wait() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    stays, leaves = restricted(), clear()
    for call in (stays, leaves):
        seen(waits.arrive(call, 0.0))
    seen(waits.mark_up("gpu-0", False, 0.01))
    assert seen.spilled == [leaves]
    assert waits.waiting == 1
    for call in seen.releases[0].calls:
        seen(waits.ended(call.id, False, 0.02))
    assert len(seen.releases) == 1
    seen(waits.mark_up("gpu-0", True, 0.1))
    assert stays in seen.sent


def test_without_a_server_a_restricted_call_is_refused_when_its_time_is_over() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.mark_up("gpu-0", False, 0.0))
    seen(waits.arrive(restricted(budget_s=0.5), 0.0))
    assert seen.refused == []
    assert waits.wake_s < 0.5
    seen(waits.tick(waits.wake_s))
    assert len(seen.refused) == 1
    assert waits.waiting == 0


def test_a_batch_that_failed_teaches_nothing_and_frees_its_server() -> None:
    seen, waits = Seen(), scheduler()
    model = waits.servers.model("gpu-0")
    before = model.error.batches
    seen(waits.arrive(clear(), 0.0))
    seen(waits.arrive(clear(), 0.0))
    seen(waits.ended(seen.sent[0].id, False, 0.5))
    assert model.error.batches == before
    assert len(seen.releases) == 2


def test_a_batch_teaches_its_time_from_when_it_began() -> None:
    seen, waits = Seen(), scheduler(lead_s=0.01)
    seen(waits.arrive(clear(work=16.0), 0.0))
    seen(waits.arrive(clear(work=8.0), 0.0))
    seen(waits.tick(0.031))
    seen(finish(waits, seen.releases[0], 0.04))
    seen(finish(waits, seen.releases[1], 0.04 + 0.024))
    model = waits.servers.model("gpu-0")
    assert model.predict_s(8.0) == pytest.approx(0.024, rel=0.01)


def test_a_caller_that_leaves_takes_its_place_out_of_the_line() -> None:
    seen, waits = Seen(), scheduler()
    seen(waits.arrive(clear(work=16.0), 0.0))
    call = clear()
    seen(waits.arrive(call, 0.0))
    seen(waits.cancelled(call.id, 0.01))
    seen(finish(waits, seen.releases[0], 0.04))
    assert call not in seen.sent
    assert waits.waiting == 0


def test_a_full_queue_turns_the_next_call_away() -> None:
    seen = Seen()
    waits = scheduler(tuning=Tuning(max_waiting=2))
    for _ in range(3):
        seen(waits.arrive(restricted(), 0.0))
    seen(waits.arrive(restricted(), 0.0))
    seen(waits.arrive(clear(), 0.0))
    assert [refused.why for refused in seen.refused] == ["queue_full"]
    assert len(seen.spilled) == 1


# Nothing starves (S4)


def served_of_the_least(tuning: Tuning) -> int:
    """Twice the capacity in dear restricted calls for ten seconds, beside a few modest ones."""
    seen, waits = Seen(), scheduler(tuning=tuning)
    modest, now_s, end_s = set(), 0.0, math.inf
    for step in range(8000):
        now_s = step / 800
        call = restricted(budget_s=0.3, at_s=now_s, penalty=1.0 if step % 20 == 0 else 20.0)
        if step % 20 == 0:
            modest.add(call.id)
        before = len(seen.releases)
        if end_s <= now_s:
            seen(finish(waits, seen.releases[-1], end_s))
        seen(waits.arrive(call, now_s))
        if len(seen.releases) > before:
            end_s = now_s + 0.008 + 0.002 * len(seen.releases[-1].calls)
    return sum(call.id in modest for call in seen.sent)


def test_the_least_worthy_progress_under_permanent_overload() -> None:
    assert served_of_the_least(Tuning()) > 20


def test_without_places_kept_for_them_they_would_starve() -> None:
    assert served_of_the_least(Tuning(starved_share=0.0)) < 10


def test_who_has_much_time_is_not_overtaken_for_ever() -> None:
    seen, waits = Seen(), scheduler()
    patient = clear(budget_s=3600.0)
    seen(waits.arrive(clear(), 0.0))
    seen(waits.arrive(patient, 0.0))
    for step in range(1, 2000):
        now_s = step * FULL_S
        for _ in range(BATCH):
            seen(waits.arrive(clear(budget_s=0.5, at_s=now_s), now_s))
        seen(finish(waits, seen.releases[-1], now_s))
        if patient in seen.releases[-1].calls:
            break
    assert now_s < 61.0


def test_the_same_call_cannot_wait_twice() -> None:
    waits = scheduler()
    waits.mark_up("gpu-0", False, 0.0)
    call = restricted()
    waits.arrive(call, 0.0)
    with pytest.raises(ValueError, match="waiting already"):
        waits.arrive(call, 0.0)
