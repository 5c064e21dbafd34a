"""Clear calls for which only the cloud is left, and which find it full, wait for a place there."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from gateway.core.errors import CloudFull
from gateway.core.types import EVERYWHERE, Decision, Outcome, Zone
from gateway.pipeline.call_account import CallAccount
from tests.unit.harness import (
    BUSY,
    FAILS,
    MODEL,
    Ended,
    Known,
    Plan,
    Rig,
    ScriptedConnector,
    Site,
    cloud,
    now_s,
    onprem,
    request,
    verdict,
)

pytestmark = pytest.mark.leaping

SERVED_S = 0.1


def full(states: int, *plans: Plan, others: tuple[Site, ...] = ()) -> Rig:
    """A gateway with no server of its own that is up, and a cloud of so many places."""
    away = replace(cloud(*(plans or (Plan(open_s=SERVED_S),))), max_in_flight=states)
    return Rig(replace(away, expected_ms=SERVED_S * 1000), *others)


async def all_of(rig: Rig, budgets_s: list[float]) -> list[Ended]:
    calls = [request("clear", budget_s) for budget_s in budgets_s]
    return await asyncio.gather(*(rig.call(call) for call in calls))


async def test_what_finds_the_cloud_full_is_served_when_a_place_is_free() -> None:
    rig = full(2)
    ended = await all_of(rig, [5.0] * 6)
    assert [e.error for e in ended] == [None] * 6
    began_s = min(e.at_s for e in ended) - SERVED_S
    took_s = sorted(e.at_s - began_s for e in ended)
    assert took_s == pytest.approx([0.1, 0.1, 0.2, 0.2, 0.3, 0.3], abs=0.01)
    assert rig.leftovers() == {}


async def test_places_go_to_whoever_must_start_first() -> None:
    rig = full(1)
    ended = await all_of(rig, [5.0, 5.0, 1.0, 3.0])
    assert [e.error for e in ended] == [None] * 4
    first, last, soonest, sooner = (e.at_s for e in ended)
    assert first < soonest < sooner < last


async def test_a_call_for_which_there_is_no_time_behind_the_others_is_told_at_once() -> None:
    """A1, D4: ten places' worth of calls wait, and it has time for three."""

    rig = full(1)
    others = [asyncio.create_task(rig.call(request("clear", 5.0))) for _ in range(3)]
    await asyncio.sleep(0.01)
    began_s = now_s()
    urgent = await rig.call(request("clear", 0.35))  # before them: it has a place in 0.1 s
    assert urgent.error is None
    hasty = await rig.call(request("clear", 0.15))
    assert isinstance(hasty.error, CloudFull)
    assert (hasty.error.reason, hasty.error.http_status) == ("cloud_full", 429)
    assert hasty.at_s == urgent.at_s
    assert urgent.at_s - began_s <= 0.2
    assert [e.error for e in await asyncio.gather(*others)] == [None] * 3
    assert rig.leftovers() == {}


async def test_a_place_that_does_not_come_in_time_is_a_refusal_before_the_deadline() -> None:
    rig = full(1, Plan(open_s=3.0))
    held = asyncio.create_task(rig.call(request("clear", 5.0)))
    await asyncio.sleep(0.01)
    began_s = now_s()
    late = await rig.call(request("clear", 1.0))
    assert isinstance(late.error, CloudFull)
    assert late.at_s - began_s == pytest.approx(1.0 - SERVED_S, abs=0.01)
    assert (await held).error is None
    assert rig.leftovers() == {}


async def test_calls_wait_until_a_cloud_that_said_when_to_come_back_is_open_again() -> None:
    rig = full(8, BUSY, Plan(open_s=SERVED_S))
    refused = await rig.call(request("clear", 0.2))  # no time for another try
    assert refused.reason == "upstream_busy"  # closed for a quarter of a second now
    began_s = now_s()
    ended = await rig.call(request("clear", 2.0))
    assert ended.error is None
    assert ended.at_s - began_s == pytest.approx(0.25 + SERVED_S, abs=0.02)


async def test_a_server_that_is_back_takes_the_calls_that_wait_for_the_cloud() -> None:
    gpu = onprem(Plan(open_s=0.01))
    rig = full(1, Plan(open_s=4.0), others=(gpu,))
    rig.registry.model_state("gpu", MODEL)
    rig.registry.states["gpu"].went_down()
    held = asyncio.create_task(rig.call(request("clear", 9.0)))
    await asyncio.sleep(0.01)
    waits = asyncio.create_task(rig.call(request("clear", 3.0)))
    await asyncio.sleep(0.5)
    state = rig.registry.states["gpu"]
    state.server_up()
    state.model_states[MODEL].health.prove()
    rig.outcomes.returned("gpu", MODEL)
    ended = await waits
    assert ended.placement is not None
    assert ended.placement.zone is Zone.ONPREM
    assert (await held).error is None
    assert rig.leftovers() == {}


async def test_calls_that_wait_are_told_when_their_cloud_goes_out() -> None:
    rig = full(1, Plan(open_s=4.0))
    held = asyncio.create_task(rig.call(request("clear", 9.0)))
    await asyncio.sleep(0.01)
    waits = asyncio.create_task(rig.call(request("clear", 9.0)))
    await asyncio.sleep(0.2)
    began_s = now_s()
    rig.eject("cloud")
    ended = await waits
    assert ended.reason == "no_eligible_endpoint"
    assert ended.at_s - began_s <= 0.5
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)


@pytest.mark.parametrize(("budget_s", "served"), [(5.0, 3), (0.18, 1)])
async def test_what_failed_on_the_premises_waits_too(budget_s: float, served: int) -> None:
    """Servers fail with many calls on them, and all of those come to the cloud at once."""

    rig = full(1, others=(onprem(FAILS),))
    ended = await all_of(rig, [budget_s] * 3)
    assert sum(e.error is None for e in ended) == served
    assert all(isinstance(e.error, CloudFull | None) for e in ended)
    assert all(e.placement.zone is Zone.CLOUD for e in ended if e.placement is not None)
    assert rig.leftovers() == {}


async def test_what_found_the_cloud_full_before_it_failed_on_the_premises_waits_too() -> None:
    async def sent(rig: Rig) -> Zone:
        call = request("clear", 5.0)
        decision = Decision(
            (rig.registry.catalog.endpoints["cloud"], rig.registry.catalog.endpoints["gpu"]),
            "spill_cost",
            EVERYWHERE,
        )
        account = CallAccount(rig.accounts, call)
        opened = await rig.dispatcher.send(call, Known(verdict(call)), decision, account)
        await opened.aclose()
        account.settle(Outcome.SERVED, "test")
        return opened.endpoint.zone

    rig = full(1, others=(onprem(FAILS),))
    first, second = await asyncio.gather(sent(rig), sent(rig))
    assert first is second is Zone.CLOUD
    assert len(rig.sites["gpu"].connector.seen) == 1
    assert rig.leftovers() == {}


async def test_who_leaves_while_waiting_takes_no_place() -> None:
    rig = full(1)
    calls = [asyncio.create_task(rig.call(request("clear", 5.0))) for _ in range(3)]
    await asyncio.sleep(0.01)
    calls[1].cancel()
    ended = await asyncio.gather(*calls)
    assert [type(e.error) for e in ended] == [
        type(None), asyncio.CancelledError, type(None)
    ]  # fmt: skip
    assert len(rig.cloud_seen) == 2
    assert rig.leftovers() == {}


async def test_restricted_calls_never_wait_for_a_place_in_the_cloud() -> None:
    gpu = Site("gpu", Zone.ONPREM, ScriptedConnector())
    rig = full(1, Plan(open_s=4.0), others=(gpu,))
    rig.registry.states["gpu"].went_down()
    held = asyncio.create_task(rig.call(request("clear", 9.0)))
    await asyncio.sleep(0.01)
    began_s = now_s()
    ended = await rig.call(request("restricted", 9.0))
    assert ended.reason == "onprem_unavailable_restricted"
    assert ended.at_s == began_s
    assert (await held).error is None
    assert all(not seen.id.startswith("restricted") for seen in rig.cloud_seen)


async def test_calls_that_come_by_chance_are_served_although_the_cloud_is_often_full() -> None:
    """At seven eighths of what it takes, a cloud of eight places without a queue in front of it
    refuses every sixth of them (Erlang's loss formula, 1917)."""

    rig, chance = full(8), random.Random(1)
    calls = []
    for _ in range(1000):
        calls.append(asyncio.create_task(rig.call(request("clear", 1.0))))
        await asyncio.sleep(chance.expovariate(70.0))
    ended = await asyncio.gather(*calls)
    assert sum(e.error is None for e in ended) >= 995
    assert rig.leftovers() == {}
