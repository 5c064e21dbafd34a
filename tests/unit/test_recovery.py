"""Restricted calls wait for a server that restarts, where that is likely to be in time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from gateway.config import HealthSettings
from gateway.core.errors import OnpremUnavailable
from gateway.core.types import Zone
from tests.unit.harness import (
    FAILS,
    MODEL,
    Ended,
    Rig,
    ScriptedConnector,
    cloud,
    now_s,
    onprem,
    request,
)

pytestmark = pytest.mark.leaping


def restarting(back_in_s: float | None, *, health: HealthSettings | None = None) -> Rig:
    """A gateway whose only GPU is down, with a cloud that must see nothing."""
    rig = Rig(onprem(), cloud())
    if health is not None:
        rig.registry.health = health
    state = rig.registry.states["gpu"]
    state.went_down()
    at_s = None if back_in_s is None else now_s() + back_in_s
    state.back_in_s = lambda: None if at_s is None else max(0.1, at_s - now_s())
    return rig


async def comes_back(rig: Rig, after_s: float) -> None:
    await asyncio.sleep(after_s)
    state = rig.registry.states["gpu"]
    state.server_up()
    state.model_states[MODEL].health.prove()
    state.back_in_s = lambda: None
    rig.outcomes.returned("gpu", MODEL)


async def both(rig: Rig, kind: str, budget_s: float, after_s: float) -> tuple[Ended, float]:
    """What became of a call and how long that took, while the server comes back."""
    rig.registry.model_state("gpu", MODEL)
    started_s = now_s()
    back = asyncio.create_task(comes_back(rig, after_s))
    ended = await rig.call(request(kind, budget_s))
    back.cancel()
    await asyncio.gather(back, return_exceptions=True)
    assert rig.leftovers() == {}
    return ended, ended.at_s - started_s


async def test_a_restricted_call_waits_for_a_restart_that_will_be_in_time() -> None:
    rig = restarting(1.0)
    ended, took_s = await both(rig, "restricted", 5.0, 1.2)
    assert ended.placement is not None
    assert ended.placement.zone is Zone.ONPREM
    assert took_s == pytest.approx(1.2, abs=0.1)
    assert rig.cloud_seen == []


@pytest.mark.parametrize(
    ("back_in_s", "budget_s", "retry_after_s"),
    [(None, 30.0, 2.0), (2.0, 2.5, 3.0), (20.0, 60.0, 30.0)],
    ids=["nobody-knows-when", "too-late-for-its-budget", "longer-than-calls-may-wait"],
)
async def test_else_it_is_refused_at_once_and_told_when_to_come_back(
    back_in_s: float | None, budget_s: float, retry_after_s: float
) -> None:
    rig = restarting(back_in_s)
    ended, took_s = await both(rig, "restricted", budget_s, 90.0)
    assert isinstance(ended.error, OnpremUnavailable)
    assert ended.error.retry_after_s == pytest.approx(retry_after_s)
    assert took_s < 0.01
    assert rig.cloud_seen == []


async def test_a_wait_in_vain_ends_while_the_caller_can_still_be_told() -> None:
    rig = restarting(1.0)
    ended, took_s = await both(rig, "restricted", 4.0, 90.0)
    assert isinstance(ended.error, OnpremUnavailable)
    assert took_s <= 4.0
    assert rig.cloud_seen == []


async def test_a_clear_call_does_not_wait_where_it_may_leave() -> None:
    ended, took_s = await both(restarting(1.0), "clear", 5.0, 1.2)
    assert ended.placement is not None
    assert ended.placement.zone is Zone.CLOUD
    assert took_s < 0.1


async def test_no_more_calls_wait_than_the_settings_say() -> None:
    rig = restarting(1.0, health=HealthSettings(restart_waiting=2))
    rig.registry.model_state("gpu", MODEL)
    calls = [asyncio.create_task(rig.call(request("restricted", 9.0))) for _ in range(5)]
    await asyncio.sleep(0.5)
    assert sorted(call.done() for call in calls) == [False] * 2 + [True] * 3
    await comes_back(rig, 0.5)
    ended = await asyncio.gather(*calls)
    assert sum(e.placement is not None for e in ended) == 2


async def test_what_may_have_been_executed_is_not_sent_again_by_waiting() -> None:
    rig = Rig(replace(onprem(), connector=ScriptedConnector(FAILS)), cloud())
    rig.registry.states["gpu"].back_in_s = lambda: 0.5
    back = partial(rig.recovery.notify, MODEL, back=True)
    asyncio.get_running_loop().call_later(0.2, back)
    ended = await rig.call(request("restricted", 5.0))
    assert isinstance(ended.error, OnpremUnavailable)
    assert len(rig.sites["gpu"].connector.seen) == 1


async def test_a_caller_who_leaves_while_waiting_leaves_nothing_behind() -> None:
    rig = restarting(5.0)
    call = asyncio.create_task(rig.call(request("restricted", 60.0)))
    await asyncio.sleep(0.5)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert rig.leftovers() == {}
    assert not rig.recovery.waiting


async def test_a_model_that_was_ejected_is_refused_for_as_long_as_it_stays_out_at_least() -> None:
    rig = Rig(onprem(), cloud())
    model_state = rig.registry.model_state("gpu", MODEL)
    model_state.health.prove()
    model_state.breaker.dwell_s = 20.0
    rig.eject("gpu")
    ended = await rig.call(request("restricted", 60.0))
    assert isinstance(ended.error, OnpremUnavailable)
    assert ended.error.retry_after_s == pytest.approx(1.5 * 21.0)
