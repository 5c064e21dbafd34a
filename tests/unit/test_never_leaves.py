"""Rules that say never mean never: no way leads to the cloud, whatever fails (S5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gateway.app.factories import policy, spill_control, spill_limits, spill_stop
from gateway.config import QueueSettings, RoutingSettings, Settings
from gateway.core.errors import EgressForbidden, SpillClosed
from gateway.core.types import Zone
from gateway.scheduling.queue import Spilled
from tests.unit.harness import (
    BUSY,
    EMPTY,
    FAILS,
    GARBAGE,
    HANGS,
    UNREACHABLE,
    Ended,
    Plan,
    Rig,
    Setup,
    Site,
    cloud,
    now_s,
    onprem,
    request,
)

pytestmark = pytest.mark.leaping

NEVER = {
    "onprem_only": RoutingSettings(policy="onprem_only"),
    "spill_off": RoutingSettings(spill=False),
    "both": RoutingSettings(policy="onprem_only", spill=False),
}
BEST = RoutingSettings()
SLOW = Plan(open_s=0.4)
TROUBLE = {
    "fails": (FAILS,), "hangs": (HANGS,), "unreachable": (UNREACHABLE,), "busy": (BUSY,),
    "empty": (EMPTY,), "garbage": (GARBAGE,), "slow": (SLOW,), "now_and_then": (SLOW, FAILS),
}  # fmt: skip


def setup(routing: RoutingSettings, **more: object) -> Setup:
    settings = Settings(endpoints={}, models={}, routing=routing)
    made = Setup(
        policy=policy(routing), routing=routing, queue=QueueSettings(max_waiting=3),
        spill=spill_control(settings, now_s),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def sites(*plans: Plan) -> tuple[Site, ...]:
    here = replace(onprem(*plans), max_in_flight=1)
    return here, cloud(name="a"), cloud(name="b")


async def burst(rig: Rig, count: int = 40) -> Sequence[Ended]:
    calls = [rig.call(request("clear", budget_s=2.0)) for _ in range(count)]
    ended = await asyncio.gather(*calls)
    ended += [await rig.call(request("clear", budget_s=2.0)) for _ in range(5)]
    return ended


@pytest.mark.parametrize("never", NEVER)
@pytest.mark.parametrize("trouble", TROUBLE)
@pytest.mark.parametrize("hedging", [False, True])
async def test_an_overloaded_or_failing_server_sends_nothing_away(
    never: str, trouble: str, hedging: bool
) -> None:
    rig = Rig(*sites(*TROUBLE[trouble]), setup=setup(NEVER[never], hedging=hedging))
    ended = await burst(rig)
    assert rig.cloud_seen == []
    zones = {e.placement.zone for e in ended if e.placement is not None}
    assert zones <= {Zone.ONPREM}
    assert rig.leftovers() == {}


@pytest.mark.parametrize("trouble", ["fails", "slow"])
async def test_the_same_calls_leave_under_a_policy_that_lets_them(trouble: str) -> None:
    rig = Rig(*sites(*TROUBLE[trouble]), setup=setup(BEST))
    await burst(rig)
    assert rig.cloud_seen


@pytest.mark.parametrize("never", NEVER)
@pytest.mark.parametrize("away", ["ejected", "drained", "absent"])
async def test_without_a_server_calls_are_refused_and_told_why(never: str, away: str) -> None:
    there = sites() if away != "absent" else sites()[1:]
    rig = Rig(*there, setup=setup(NEVER[never]))
    if away == "ejected":
        rig.eject("gpu")
    elif away == "drained":
        rig.registry.states["gpu"].drained = True
    for ended in await burst(rig, 3):
        assert ended.error is not None
        assert "spill_off" in str(ended.error)
    assert rig.cloud_seen == []


@pytest.mark.parametrize("never", NEVER)
async def test_the_decision_has_no_zone_to_leave_to(never: str) -> None:
    rig = Rig(*sites(), setup=setup(NEVER[never]))
    explained = await rig.pipeline.explain(request("clear"))
    assert explained.decision is not None
    assert explained.decision.zones == {Zone.ONPREM}
    assert [e.zone for e in explained.decision.attempts] == [Zone.ONPREM]
    assert dict(explained.decision.vetoes) == {"a": "spill_off", "b": "spill_off"}


@pytest.mark.parametrize("never", NEVER)
async def test_settings_that_close_the_cloud_hold_for_calls_under_way(never: str) -> None:
    """They were decided on when they could leave, and their server fails after the reload."""

    settings = Settings(endpoints={}, models={}, routing=NEVER[never])
    failing = Plan(open_s=0.5, error=FAILS.error)
    rig = Rig(*sites(failing), setup=setup(BEST))
    control = rig.parts.spill
    calls = [
        asyncio.create_task(rig.call(request("clear", budget_s=budget_s)))
        for budget_s in (0.9, 2.0, 5.0, 5.0)
    ]
    await asyncio.sleep(0.2)
    before = len(rig.cloud_seen)
    control.follow(
        spill_stop(settings, now_s), spill_limits(settings), not settings.routing.closes_cloud
    )
    ended = await asyncio.gather(*calls)
    assert len(rig.cloud_seen) == before
    assert "spill_off" in {e.reason for e in ended}
    assert rig.leftovers() == {}
    with pytest.raises(SpillClosed):
        control.reserve("t", 0)
    opened = Settings(endpoints={}, models={}, routing=BEST)
    control.follow(spill_stop(opened, now_s), spill_limits(opened))
    assert (await rig.call(request("clear"))).placement is not None


async def test_a_queue_that_lets_a_call_go_does_not_get_it_out() -> None:
    """Whatever a scheduler decides, the decision's zones are the call's."""

    class Leaving:
        async def enter(self, *_: object) -> object:
            raise Spilled("spill_rule")

    rig = Rig(*sites(), setup=setup(NEVER["onprem_only"]))
    rig.dispatcher._queues = Leaving()  # type: ignore[assignment]
    ended = await rig.call(request("clear"))
    assert not isinstance(ended.error, EgressForbidden)
    assert ended.error is not None
    assert rig.cloud_seen == []


@pytest.mark.parametrize(
    ("routing", "closes"),
    [
        (RoutingSettings(policy="onprem_only"), True),
        (RoutingSettings(spill=False), True),
        (RoutingSettings(policy="static_split"), False),
        (RoutingSettings(policy="predicted_completion"), False),
        (BEST, False),
    ],
)
def test_which_settings_close_the_cloud(routing: RoutingSettings, closes: bool) -> None:
    assert routing.closes_cloud is closes
    assert policy(routing).spill is not closes
