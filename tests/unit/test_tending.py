"""Canaries at work: gray endpoints are found out soon, and are back soon after they have healed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.errors import ModelDead, ModelFailed, OnpremUnavailable
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, InferenceRequest, Payload, Zone
from gateway.endpoints.health.canary_requests import CanaryDoors
from gateway.endpoints.health.canary_runner import CanaryRunner
from gateway.endpoints.health.prober import Watch
from gateway.endpoints.state import EndpointState
from tests.unit.harness import (
    ANSWERS,
    FAILS,
    HANGS,
    MODEL,
    UNREACHABLE,
    Ended,
    Plan,
    Rig,
    ScriptedConnector,
    Site,
    cloud,
    now_s,
    onprem,
    request,
)

pytestmark = pytest.mark.leaping

MODEL_FAILS = Plan(error=lambda: ModelFailed("the device is lost"))
DEAD = Plan(error=lambda: ModelDead("its words"))
OUT_S, BACK_S = 2.0, 5.0


class Switched(ScriptedConnector):
    """Does as its one plan says, which may change."""

    def set(self, plan: Plan) -> None:
        self._plans = itertools.cycle((plan,))

    @property
    def canaries(self) -> list[InferenceRequest]:
        return [r for r in self.seen if r.id.startswith("canary-")]


async def a_payload(name: str, state: EndpointState, model: str) -> Payload:
    return DocumentCall(CHAT, {"messages": []})


class Ward:
    """A gateway between a GPU that can fall ill and a cloud, its models tended."""

    def __init__(self, *more: Site) -> None:
        self.gpu = Switched()
        self.rig = Rig(replace(onprem(), connector=self.gpu), cloud(), *more)
        self.rig.catalog.models[MODEL] = replace(self.rig.catalog.models[MODEL], canary=True)
        self.health = self.rig.registry.model_state("gpu", MODEL).health
        self.tending = CanaryRunner(
            self.rig.registry, self.rig.outcomes, self.rig.recovery, a_payload,
            CanaryDoors(self.rig.log).infer,
            self.rig.metrics, now_s,
        )  # fmt: skip

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Ward]:
        tending = asyncio.create_task(self.tending.run())
        try:
            await asyncio.sleep(0.5)
            for _ in range(20):
                await self.rig.call(request())
            yield self
        finally:
            tending.cancel()
            await asyncio.gather(tending, return_exceptions=True)

    async def until(self, state: str) -> float:
        """Seconds until the model on the GPU is in this state."""
        since_s = now_s()
        async with asyncio.timeout(60):
            while self.health.state != state:  # noqa: ASYNC110 - on a clock that leaps
                await asyncio.sleep(0.01)
        return now_s() - since_s

    def spill(self, calls: int = 3) -> list[asyncio.Task[Ended]]:
        return [asyncio.create_task(self.rig.call(request("clear", 30.0))) for _ in range(calls)]


def zone(ended: Ended) -> Zone | None:
    return None if ended.placement is None else ended.placement.zone


@pytest.mark.parametrize("budget_s", [0.3, 30.0], ids=["short-budgets", "long-budgets"])
async def test_a_model_that_hangs_is_out_for_clear_calls_within_two_seconds(
    budget_s: float,
) -> None:
    async with Ward().open() as ward:
        ward.gpu.set(HANGS)
        since_s = now_s()
        calls = [asyncio.create_task(ward.rig.call(request("clear", budget_s)))]
        for _ in range(4):
            await asyncio.sleep(0.35)
            calls.append(asyncio.create_task(ward.rig.call(request("clear", budget_s))))
        if ward.health.state == "trusted":
            await ward.until("slow")
        assert now_s() - since_s <= OUT_S
        assert zone(await ward.rig.call(request("clear", budget_s))) is Zone.CLOUD
        if budget_s > OUT_S:  # those that waited there are served elsewhere
            assert [zone(e) for e in await asyncio.gather(*calls)] == [Zone.CLOUD] * 5


async def test_a_model_that_hangs_for_good_is_ejected_for_restricted_calls_too() -> None:
    async with Ward().open() as ward:
        ward.gpu.set(HANGS)
        started_s = now_s()
        ended = await ward.rig.call(request("restricted", 60.0))
        assert isinstance(ended.error, OnpremUnavailable)
        assert ended.at_s - started_s < 7
        assert ward.health.state == "ejected"
        again = await ward.rig.call(request("restricted", 60.0))
        assert again.at_s == pytest.approx(now_s())
        assert ward.rig.cloud_seen == []


async def test_a_model_that_became_slow_still_serves_restricted_calls_and_no_clear_ones() -> None:
    async with Ward().open() as ward:
        ward.gpu.set(Plan(open_s=1.5))
        calls = ward.spill()
        assert await ward.until("slow") <= OUT_S
        served = await asyncio.gather(*calls)
        assert {zone(e) for e in served} == {Zone.CLOUD}, "also the one that had to queue"
        ended = await ward.rig.call(request("restricted", 30.0))
        assert zone(ended) is Zone.ONPREM
        assert zone(await ward.rig.call(request("clear", 30.0))) is Zone.CLOUD
        ward.gpu.set(ANSWERS)
        assert await ward.until("trusted") <= BACK_S


async def test_a_slow_spell_that_is_over_does_not_hide_a_hang_that_follows() -> None:
    async with Ward().open() as ward:
        ward.gpu.set(Plan(open_s=1.5))
        kept = [ward.rig.call(request("restricted", 60.0)) for _ in range(6)]
        await asyncio.gather(*kept)
        ward.gpu.set(ANSWERS)
        if ward.health.state != "trusted":
            await ward.until("trusted")
        await ward.rig.call(request())
        ward.gpu.set(HANGS)
        ward.spill()
        assert await ward.until("slow") <= OUT_S


async def test_slow_is_better_than_nowhere_for_a_call_that_may_not_leave() -> None:
    async with Ward().open() as ward:
        ward.gpu.set(Plan(open_s=1.0))
        ward.spill()
        await ward.until("slow")
        kept = request("clear", 30.0, zones=frozenset({Zone.ONPREM}))
        assert zone(await ward.rig.call(kept)) is Zone.ONPREM


@pytest.mark.parametrize("plan", [FAILS, UNREACHABLE, DEAD, MODEL_FAILS])
async def test_a_model_that_fails_is_out_within_five_errors_and_back_soon_after_healing(
    plan: Plan,
) -> None:
    async with Ward().open() as ward:
        ward.gpu.set(plan)
        before = len(ward.gpu.seen)
        while ward.health.state == "trusted":
            await ward.rig.call(request("restricted", 1.0))
            await asyncio.sleep(0.2)
            assert len(ward.gpu.seen) - len(ward.gpu.canaries) - before <= 25
        ended = await ward.rig.call(request("restricted", 1.0))
        assert isinstance(ended.error, OnpremUnavailable)
        await asyncio.sleep(10)
        ward.gpu.set(ANSWERS)
        assert await ward.until("trusted") <= BACK_S
        assert zone(await ward.rig.call(request("restricted", 1.0))) is Zone.ONPREM
        assert ward.rig.cloud_seen == []


async def test_callers_who_make_a_model_fail_do_not_take_it_from_others() -> None:
    """It fails on what they send; a canary passes."""

    async with Ward().open() as ward:
        ward.gpu.set(MODEL_FAILS)
        for _ in range(9):
            await ward.rig.call(request("restricted", 1.0))
        ward.gpu.set(ANSWERS)
        await asyncio.sleep(2)
        assert ward.health.state == "trusted"
        assert ward.rig.metrics.registry.get_sample_value(
            "spillway_endpoint_ejections_total", {"endpoint": "gpu"}
        ) in (None, 0.0)


async def test_a_passing_probe_never_brings_back_what_canaries_do_not() -> None:
    async def nothing(name: str, state: EndpointState) -> bool:
        return True

    async with Ward().open() as ward:
        ward.gpu.set(FAILS)
        watching = asyncio.create_task(
            Watch(ward.rig.registry.states, nothing, ward.rig.metrics).run()
        )
        ward.rig.eject("gpu")
        for _ in range(60):
            await asyncio.sleep(1)
            assert ward.health.state == "ejected"
        watching.cancel()
        calls = [r for r in ward.gpu.seen if r not in ward.gpu.canaries]
        assert len(calls) == 20, "no real call is spent to find out"
        await asyncio.gather(watching, return_exceptions=True)


async def test_a_server_that_was_down_is_back_by_a_canary_and_not_by_its_probe() -> None:
    async with Ward().open() as ward:
        state = ward.rig.registry.states["gpu"]
        state.went_down()
        ward.gpu.set(FAILS)
        state.server_up()
        await asyncio.sleep(5)
        assert ward.health.state == "ejected"
        ward.gpu.set(ANSWERS)
        assert await ward.until("trusted") <= 1.0


# Who has no other place waits for the canary


def up_again(ward: Ward, plan: Plan = ANSWERS) -> None:
    """It was down, and has answered its probe just now."""
    state = ward.rig.registry.states["gpu"]
    state.went_down()
    ward.gpu.set(plan)
    state.server_up()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"kind": "restricted"}, id="restricted"),
        pytest.param({"kind": "clear", "zones": frozenset({Zone.ONPREM})}, id="clear-that-stays"),
    ],
)
async def test_a_call_waits_for_the_canary_of_a_server_that_is_up_again(
    changes: dict[str, Any],
) -> None:
    async with Ward().open() as ward:
        up_again(ward)
        ended = await ward.rig.call(request(budget_s=0.3, **changes))
        assert zone(ended) is Zone.ONPREM
        assert ward.rig.cloud_seen == []


async def test_a_call_whose_server_broke_just_now_waits_until_it_is_known_why() -> None:
    """Connections break before the end of the process is told, and the restart with it."""

    async with Ward().open() as ward:
        state = ward.rig.registry.states["gpu"]
        ward.gpu.set(FAILS)
        ward.rig.eject("gpu")
        calling = asyncio.create_task(ward.rig.call(request("restricted", 5.0)))
        await asyncio.sleep(0.1)
        state.back_in_s = lambda: 1.0
        state.went_down()
        await asyncio.sleep(1.5)
        state.back_in_s = lambda: None
        ward.gpu.set(ANSWERS)
        state.server_up()
        assert zone(await calling) is Zone.ONPREM


async def test_a_call_whose_model_is_broken_for_good_is_told_within_seconds() -> None:
    async with Ward().open() as ward:
        ward.gpu.set(FAILS)
        ward.rig.eject("gpu")
        began_s = now_s()
        refused = await ward.rig.call(request("restricted", 30.0))
        assert isinstance(refused.error, OnpremUnavailable)
        assert now_s() - began_s < 2.0


async def test_a_call_waits_for_the_second_canary_once_the_first_has_passed() -> None:
    async with Ward().open() as ward:
        ward.gpu.set(FAILS)
        ward.rig.eject("gpu")
        await asyncio.sleep(1.5)
        refused = await ward.rig.call(request("restricted", 30.0))
        assert isinstance(refused.error, OnpremUnavailable), "nothing speaks for it yet"
        ward.gpu.set(ANSWERS)
        passed = len(ward.gpu.canaries) + 1
        while len(ward.gpu.canaries) < passed or ward.gpu.opening:  # noqa: ASYNC110 - leaps
            await asyncio.sleep(0.01)
        assert ward.health.state == "ejected", "two have to pass"
        assert zone(await ward.rig.call(request("restricted", 2.0))) is Zone.ONPREM


async def test_hope_that_comes_to_nothing_ends_the_wait_and_there_is_none_for_the_next_call() -> (
    None
):
    async with Ward().open() as ward:
        up_again(ward, FAILS)
        since_s = now_s()
        waited = await ward.rig.call(request("restricted", 60.0))
        assert isinstance(waited.error, OnpremUnavailable)
        assert waited.at_s - since_s < 0.5, "as soon as the canary has failed"
        again_s = now_s()
        next_one = await ward.rig.call(request("restricted", 60.0))
        assert isinstance(next_one.error, OnpremUnavailable)
        assert next_one.at_s == again_s


async def test_a_wait_for_what_nobody_expects_any_more_ends_soon() -> None:
    """Just ejected, and no canary that could tell: its keeper may have it back soon, or not."""

    rig = Rig(onprem(), cloud())
    rig.eject("gpu")
    since_s = now_s()
    ended = await rig.call(request("restricted", 60.0))
    assert isinstance(ended.error, OnpremUnavailable)
    assert ended.at_s - since_s <= 1.5
    again = await rig.call(request("restricted", 60.0))
    assert again.at_s == now_s() == ended.at_s


async def test_without_canaries_a_call_waits_for_the_one_that_tries_a_server_that_is_up_again() -> (
    None
):
    gpu = Switched(Plan(open_s=0.2))
    rig = Rig(replace(onprem(), connector=gpu), cloud())
    rig.registry.model_state("gpu", MODEL)
    rig.registry.states["gpu"].went_down()
    rig.registry.states["gpu"].server_up()
    calls = [rig.call(request("restricted", 5.0)) for _ in range(3)]
    assert [zone(ended) for ended in await asyncio.gather(*calls)] == [Zone.ONPREM] * 3


async def test_when_the_one_that_tries_it_leaves_another_does() -> None:
    gpu = Switched(HANGS)
    rig = Rig(replace(onprem(), connector=gpu), cloud())
    rig.registry.model_state("gpu", MODEL)
    rig.registry.states["gpu"].went_down()
    rig.registry.states["gpu"].server_up()
    first = asyncio.create_task(rig.call(request("restricted", 5.0)))
    await asyncio.sleep(0.1)
    others = [asyncio.create_task(rig.call(request("restricted", 5.0))) for _ in range(2)]
    await asyncio.sleep(0.1)
    gpu.set(ANSWERS)
    first.cancel()
    assert [zone(ended) for ended in await asyncio.gather(*others)] == [Zone.ONPREM] * 2


async def test_canaries_hold_nothing_of_any_caller_and_cost_no_caller_anything() -> None:
    async with Ward().open() as ward:
        await ward.rig.call(request("restricted", 5.0))
        ward.rig.eject("gpu")
        await ward.until("trusted")
        for sent in ward.gpu.canaries:
            assert sent.tenant == ""
            assert "user" not in getattr(sent.payload, "document", {})
        ids = {line["id"] for line in ward.rig.log.lines}
        assert not ids & {r.id for r in ward.gpu.canaries}


async def test_models_that_may_not_be_tried_get_no_canary() -> None:
    ward = Ward()
    known = ward.rig.catalog.models[MODEL]
    ward.rig.catalog.models[MODEL] = replace(known, canary=False)
    async with ward.open():
        ward.rig.eject("gpu")
        await asyncio.sleep(1)
        assert ward.gpu.canaries == []
        assert not ward.health.proven


async def test_the_cloud_gets_no_canary_unless_the_settings_say_so() -> None:
    for asked in (None, True):
        ward = Ward()
        state = ward.rig.registry.states["cloud"]
        state.settings = state.settings.model_copy(update={"canary": asked})
        async with ward.open():
            assert bool(ward.rig.cloud_seen) is bool(asked), "real calls stayed on-prem"


async def test_a_half_open_probe_that_hangs_makes_room_for_another() -> None:
    """A6: towards the cloud a real call is the probe, and its deadline may be far away."""

    away = Switched()
    rig = Rig(replace(cloud(), connector=away))
    rig.eject("cloud")
    await asyncio.sleep(2.1)
    away.set(HANGS)
    probe = asyncio.create_task(rig.call(request("clear", 3600.0)))
    await asyncio.sleep(1)
    assert (await rig.call(request("clear", 5.0))).error is not None, "one at a time"
    away.set(ANSWERS)
    await asyncio.sleep(5)
    assert zone(await rig.call(request("clear", 5.0))) is Zone.CLOUD
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
