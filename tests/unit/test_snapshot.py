"""What the snapshot tells the policy of every endpoint."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.types import ServedModel
from tests.unit.harness import (
    MODEL,
    Plan,
    Rig,
    ScriptedConnector,
    Setup,
    Site,
    cloud,
    onprem,
    request,
    state_of,
)

pytestmark = pytest.mark.leaping

HOLDS = Plan(open_s=1.0)


async def test_an_unknown_endpoint_costs_what_the_settings_expect() -> None:
    state = state_of(Rig(replace(onprem(), expected_ms=300)), "gpu")
    assert (state.cold, state.p50_s) == (True, 0.3)
    assert state.predicted_s == pytest.approx(0.39)


async def test_what_has_been_seen_of_an_endpoint_counts_more_than_what_was_expected() -> None:
    rig = Rig(replace(onprem(Plan(open_s=0.04)), expected_ms=300))
    for _ in range(5):
        await rig.call(request())
    state = state_of(rig, "gpu")
    assert not state.cold
    assert state.p50_s == pytest.approx(0.04)


async def test_calls_count_as_soon_as_they_are_sent() -> None:
    """S2: a burst between two looks at the server cannot overshoot its room."""

    rig = Rig(onprem(HOLDS), cloud(HOLDS), setup=Setup(max_batch=2))
    calls = [asyncio.create_task(rig.call(request("restricted", 9.0))) for _ in range(7)]
    for _ in range(50):  # turns of the loop, in which those that arrive together are gathered
        if state_of(rig, "gpu").in_flight == 2:
            break
        await asyncio.sleep(0)
    state = state_of(rig, "gpu")
    assert (state.in_flight, state.waiting, state.batch) == (2, 5, 2)
    assert state.predicted_s > state.p50_s
    await asyncio.gather(*calls)
    after = state_of(rig, "gpu")
    assert (after.in_flight, after.waiting) == (0, 0)


async def test_a_cloud_endpoint_takes_as_many_as_its_settings_say() -> None:
    rig = Rig(replace(cloud(HOLDS), max_in_flight=2))
    calls = [asyncio.create_task(rig.call(request(budget_s=9.0))) for _ in range(2)]
    await asyncio.sleep(0)
    assert not state_of(rig, "cloud").room
    await asyncio.gather(*calls)
    assert state_of(rig, "cloud").room


@pytest.mark.parametrize(("why", "up", "eject"), [("down", False, False), ("ejected", True, True)])
async def test_an_endpoint_that_is_out_says_why(why: str, up: bool, eject: bool) -> None:
    rig = Rig(onprem())
    rig.registry.states["gpu"].up = up
    if eject:
        rig.eject("gpu")
    state = state_of(rig, "gpu")
    assert (state.available, state.unavailable_why) == (False, why)
    assert not rig.registry.model_ready(MODEL)


async def test_a_slow_spell_does_not_have_restricted_calls_refused_for_ever() -> None:
    slow, fast = Plan(open_s=5.0), Plan(open_s=0.05)
    rig = Rig(replace(onprem(), connector=ScriptedConnector(*[slow] * 9, *[fast] * 90)))
    for _ in range(9):
        await rig.call(request("restricted", 9.0))
    told = [(await rig.call(request("restricted", 1.0))).reason]
    await asyncio.sleep(31)
    told += [(await rig.call(request("restricted", 1.0))).reason]
    assert told == ["deadline_unmeetable", ""]


async def test_tokens_that_are_not_known_yet_are_never_free() -> None:
    rig = Rig(Site("cloud", cloud().zone, price_usd=0.0))
    endpoint = rig.catalog.endpoints["cloud"]
    dear = {MODEL: ServedModel(MODEL, price_usd_per_1k_tokens=1.0)}
    rig.catalog.endpoints["cloud"] = replace(endpoint, models=dear)
    assert state_of(rig, "cloud").price_usd > 0
