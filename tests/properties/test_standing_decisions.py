"""A decision that stands says what the policy says of the states of now, whatever has happened."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.pricing import nano
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.core.errors import GatewayError
from gateway.core.types import EVERYWHERE, ONPREM_ONLY, Decision, InferenceRequest, TensorCall, Zone
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import (
    MODEL,
    Plan,
    Rig,
    Setup,
    cloud,
    now_s,
    onprem,
    request,
    run,
    verdict,
)

SEEDS = range(60)
_STEPS = 150


def _rig(chance: random.Random) -> Rig:
    everybody = (
        BudgetLimits.usd(day=chance.choice([0.01, 1.0]))
        if chance.random() < 0.3
        else BudgetLimits()
    )
    own = {"t": BudgetLimits.usd(day=0.5)} if chance.random() < 0.3 else {}
    budgets = SpillBudgets(everybody, own, now_s)
    setup = Setup(
        spill=SpillControl(SpillStop(None, now_s), budgets),
    )
    plan = Plan()
    sites = [
        replace(onprem(plan), expected_ms=20),
        replace(onprem(plan, name="second"), expected_ms=30),
        replace(cloud(plan), expected_ms=100, max_in_flight=3, price_usd=0.01),
        replace(cloud(plan, name="dearer"), expected_ms=50, price_usd=chance.choice([0.01, 0.02])),
        replace(cloud(plan, name="other"), expected_ms=50, kind="openai", price_usd=0.03),
    ]
    return Rig(*chance.sample(sites, chance.choice([1, 1, 2, 3])), setup=setup)


def _happens(rig: Rig, chance: random.Random) -> None:
    name = chance.choice(list(rig.sites))
    state, model_state = rig.registry.states[name], rig.registry.model_state(name, MODEL)
    match chance.randrange(24):
        case 0:
            state.up = False  # nobody has told its lanes yet
        case 1:
            state.drained = not state.drained
        case 2:
            rig.eject(name)
        case 3:
            model_state.health.slow_since_s = None if model_state.health.slow_since_s else now_s()
        case 4:
            state.in_flight = chance.choice([0, 0, 2, 3])
        case 5 if state.room is not None:
            state.room.refused(now_s(), state.in_flight, chance.choice([None, 0.2]))
        case 6:
            reserved = rig.parts.spill.budgets.reserve("t", nano(0.005))
            if reserved is not None and chance.random() < 0.5:
                reserved.settle(nano(0.005))
        case 7:
            rig.catalog.changes += 1
        case back:  # what makes things well again
            state.server_up()
            state.drained, state.in_flight, model_state.health.slow_since_s = False, 0, None
            model_state.breaker.restore()
            if back < 11:  # by degrees
                model_state.health.slow_start.begin()
                state.in_flight = 2
    if chance.random() < 0.4:
        model_state.times.observe(chance.choice([0.01, 0.02, 0.3]))


def _call(chance: random.Random) -> InferenceRequest:
    kind = "clear" if chance.random() < 0.7 else "restricted"
    call = request(kind, chance.choice([0.001, 0.008, 0.05, 0.15, 5.0, 5.0, 5.0]))
    if chance.random() < 0.2:
        parameters = {"sequence_id": 7} if chance.random() < 0.3 else {}
        version = "1" if chance.random() < 0.3 else ""
        call = replace(call, payload=TensorCall((), parameters=parameters, version=version))
    if chance.random() < 0.1:
        call = replace(call, zones=ONPREM_ONLY)
    return call


def _decided(make: Callable[[], Decision]) -> object:
    try:
        return make()
    except GatewayError as refused:
        return type(refused), str(refused), refused.reason, refused.retry_after_s, refused.vetoes


async def _lives(seed: int) -> tuple[int, int]:
    """How many decisions stood on clear calls, and on restricted ones."""
    chance = random.Random(seed)
    rig, stood = _rig(chance), [0, 0]
    policies = [
        Policy(spill=chance.random() < 0.9, margin=chance.choice([1.0, 1.2])),
        Policy(max_attempts=1),
    ]
    for _ in range(_STEPS):
        if chance.random() < 0.4:
            _happens(rig, chance)
        await asyncio.sleep(chance.choice([0.0, 0.0, 0.01, 0.3]))
        call, policy = _call(chance), policies[chance.random() < 0.05]
        found = verdict(call)
        known = (
            rig.snapshots._onprem_decisions if found.restricted else rig.snapshots._cloud_decisions
        )
        standing = known.get(MODEL)
        said = _decided(partial(rig.snapshots.decide, call, found, policy))
        if standing is not None and said is standing._decision:  # and was not weighed
            stood[found.restricted] += 1
            assert call.zones is EVERYWHERE
        states = rig.snapshots.snapshot(call, found.restricted)
        assert said == _decided(partial(policy.decide, call, found, states))
        if found.restricted and isinstance(said, Decision):
            assert {endpoint.zone for endpoint in said.attempts} == {Zone.ONPREM}
            assert said.zones == ONPREM_ONLY
    return stood[False], stood[True]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_stands_is_what_would_be_decided(seed: int) -> None:
    run(_lives(seed))


def test_decisions_do_stand() -> None:
    lives = [run(_lives(seed)) for seed in range(10)]
    assert sum(clear for clear, _ in lives) > 10 * _STEPS / 10
    assert sum(restricted for _, restricted in lives) > 10 * _STEPS / 20
