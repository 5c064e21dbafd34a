"""What `explain` tells is what then happens, whatever the state: queues, outages, budgets, limits.

The same call is explained and then sent, in the same moment of the same gateway (O3).
"""

from __future__ import annotations

import asyncio
import gc
import random
from dataclasses import replace

import pytest

from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.config import LimitSettings, QueueSettings
from gateway.core.errors import GatewayError
from gateway.core.types import Decision, InferenceRequest, Quota
from gateway.pipeline.call_account import CallAccount
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import Plan, Rig, Setup, cloud, now_s, onprem, request, run

SEEDS = range(60)
QUOTA = Quota("key k", "key", "t", requests_per_minute=40.0)


def _rig(chance: random.Random) -> Rig:
    plan = Plan(open_s=chance.choice([0.05, 0.5]))
    budgets = SpillBudgets(BudgetLimits.usd(day=chance.choice([0.0, 0.004, 5.0])), {}, now_s)
    setup = Setup(
        policy=Policy(spill=chance.random() < 0.9, max_attempts=chance.choice([1, 2])),
        queue=QueueSettings(max_waiting=chance.choice([2, 512])),
        limits=LimitSettings(max_concurrent=chance.choice([6, 1024])),
        spill=SpillControl(SpillStop(None, now_s), budgets),
        max_batch=chance.choice([1, 4]),
    )
    sites = [
        replace(onprem(plan), expected_ms=100, max_in_flight=chance.choice([2, 256])),
        replace(onprem(plan, name="second"), expected_ms=100),
        replace(cloud(plan), expected_ms=100, max_in_flight=chance.choice([2, 256])),
    ]
    return Rig(*sites[chance.choice([0, 1]) :], setup=setup)


async def _disturb(rig: Rig, chance: random.Random) -> list[asyncio.Task[object]]:
    """Calls under way and waiting, servers out, drained, or down, a gateway that stops."""
    busy: list[asyncio.Task[object]] = [
        asyncio.create_task(rig.call(request(chance.choice(["clear", "restricted"]), 20.0)))
        for _ in range(chance.choice([0, 1, 5, 20]))
    ]
    await asyncio.sleep(chance.choice([0.0, 0.02, 0.3]))
    for name in rig.sites:
        match chance.choice(["well", "well", "well", "down", "ejected", "drained"]):
            case "down":
                rig.registry.states[name].went_down()
            case "ejected":
                rig.eject(name)
            case "drained":
                rig.registry.drain(name, True)
    if chance.random() < 0.3:
        rig.registry.states[next(iter(rig.sites))].back_in_s = lambda: 0.3
    for _ in range(20):  # who waited for what is out goes elsewhere first
        await asyncio.sleep(0)
    rig.admission.draining = chance.random() < 0.05
    rig.log.shut = chance.random() < 0.05
    return busy


def _shown(decision: Decision) -> tuple[object, ...]:
    names = [endpoint.name for endpoint in decision.attempts]
    return names, decision.reason, decision.zones, dict(decision.vetoes)


def _account_of(call: InferenceRequest) -> CallAccount:
    """Of a call under way, which nobody but its own task can be asked for."""
    (account,) = [held for held in gc.get_referrers(call) if isinstance(held, CallAccount)]
    return account


async def _told_and_done(seed: int) -> str:
    chance = random.Random(seed)
    rig = _rig(chance)
    busy = await _disturb(rig, chance)
    call = request(
        chance.choice(["clear", "restricted"]), chance.choice([0.0, 0.08, 0.4, 5.0]),
        quotas=(QUOTA,) if chance.random() < 0.5 else (),
    )  # fmt: skip
    if call.quotas:
        for _ in range(chance.choice([0, 40])):
            rig.limits.enter(replace(call, id="another")).settle(None, True)
    seen = [len(site.connector.seen) for site in rig.sites.values()]
    told = await rig.pipeline.explain(call)
    assert [len(site.connector.seen) for site in rig.sites.values()] == seen

    live = asyncio.create_task(rig.call(call))
    for _ in range(20):
        await asyncio.sleep(0)
    if told.decision is not None:
        assert told.refusal is None
        assert not live.done()  # no endpoint answers at once: it would have been refused
        in_queue = _account_of(call).decision
        assert in_queue is not None
        assert _shown(in_queue) == _shown(told.decision)
        outcome = told.decision.attempts[0].zone.name
    else:
        assert told.refusal is not None
        assert live.done() is not told.waits
        if live.done():
            error = (await live).error
            assert isinstance(error, GatewayError)
            assert (error.reason, type(error)) == (told.refusal.reason, type(told.refusal))
        outcome = "waits" if told.waits else told.refusal.reason
    for task in (live, *busy):
        task.cancel()
    await asyncio.gather(live, *busy, return_exceptions=True)
    return outcome


@pytest.mark.parametrize("seed", SEEDS)
def test_what_explain_tells_is_what_is_then_done(seed: int) -> None:
    run(_told_and_done(seed))


def test_the_states_are_of_all_kinds() -> None:
    found = {run(_told_and_done(seed)) for seed in SEEDS}
    assert found >= {"onprem", "cloud", "waits", "requests_limit", "draining", "queue_full"}
