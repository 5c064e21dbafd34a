"""What is known for an epoch of a model is what would be found out anew, whatever has changed.

A gateway is changed in every way that decisions depend on, in any order: servers, breakers, callers
who are suspected, slowness, the catalog, budgets, batches, versions of the settings, and time.
After each change the decision on a call, and what its queue reads, are those of an epoch that has
just begun (S11).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.core.errors import GatewayError, UpstreamBusy, UpstreamFailed
from gateway.core.types import (
    EVERYWHERE,
    ONPREM_ONLY,
    Classification,
    Decision,
    InferenceRequest,
    Sensitivity,
    TensorCall,
)
from gateway.endpoints.health.model_health import CanaryResult
from gateway.endpoints.state import EndpointState, ModelState, unavailable_why
from gateway.scheduling.executions import Execution
from gateway.scheduling.queue import QueueConditions
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import MODEL, Plan, Rig, Setup, cloud, now_s, onprem, request, run

SEEDS = range(30)
CHECKS = 40  # in each of them
_WELL = 0.3  # of the changes come when nothing was wrong
SMALL = "small"  # a model that servers have and the settings do not name
POLICIES = (Policy(), Policy(spill=False), Policy(filters=()))
TENANTS = ("a", "b", "c")


class World:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.policy = chance.choice(POLICIES)
        self.checks = self.steady = 0
        self.budgets = SpillBudgets(BudgetLimits.usd(day=1.0), {}, now_s)
        self.setup = Setup(
            spill=SpillControl(SpillStop(None, now_s), self.budgets),
            max_batch=chance.choice([1, 4]),
        )
        plan = Plan(open_s=0.3)
        sites = [
            onprem(plan),
            replace(onprem(plan, name="second"), expected_ms=chance.choice([1, 100])),
            replace(cloud(plan), max_in_flight=3),
            replace(cloud(plan, name="dear"), price_usd=0.01, kind="openai"),
        ]
        chance.shuffle(sites)
        self.sites = sites[: chance.randint(1, 4)]
        self.rigs = [Rig(*self.sites, setup=self.setup)]
        self.calls: list[asyncio.Task[object]] = []

    @property
    def rig(self) -> Rig:
        return self.chance.choice(self.rigs)

    def call(self, model: str = MODEL) -> InferenceRequest:
        chance = self.chance
        version = chance.choice(["", "", "1"])
        payload = TensorCall((), version=version) if chance.random() < 0.3 else None
        made = request("clear", chance.choice([0.05, 20.0]), payload=payload)
        zones = chance.choice([EVERYWHERE, EVERYWHERE, ONPREM_ONLY])
        return replace(made, model=model, tenant=chance.choice(TENANTS), zones=zones)

    # What changes

    async def change(self) -> None:
        if self.chance.random() < _WELL:
            await self.all_is_well()
        rig = self.rig
        name = self.chance.choice(list(rig.sites))
        state = rig.registry.states[name]
        changes: list[Callable[[Rig, str, EndpointState], object]] = [
            self.goes_down, self.comes_up, self.is_drained, self.is_ejected, self.is_probed,
            self.is_restored, self.is_slow, self.starts_slowly, self.meets_failures,
            self.is_trusted_again, self.has_another_model, self.tells_its_batches, self.spends,
            self.is_busy, self.has_calls, self.refuses_for_a_while, self.is_reloaded,
        ]  # fmt: skip
        self.chance.choice(changes)(rig, name, state)

    async def all_is_well(self) -> None:
        for rig in self.rigs:
            for state in rig.registry.states.values():
                state.drained = False
                state.server_up()
                for model_state in state.model_states.values():
                    model_state.suspects.forget()
                    model_state.breaker.restore()
        await asyncio.sleep(10.0)  # until nothing starts slowly any more
        for rig in self.rigs:
            rig.conditions.read(MODEL, rig.registry.candidates.server_group(self.call()))
            for name in rig.sites:
                if name in rig.clouds:
                    rig.clouds.takes_another(name, MODEL)

    def goes_down(self, rig: Rig, name: str, state: EndpointState) -> None:
        state.went_down()

    def comes_up(self, rig: Rig, name: str, state: EndpointState) -> None:
        state.server_up()

    def is_drained(self, rig: Rig, name: str, state: EndpointState) -> None:
        rig.registry.drain(name, self.chance.random() < 0.5)

    def is_ejected(self, rig: Rig, name: str, state: EndpointState) -> None:
        rig.eject(name)

    def is_probed(self, rig: Rig, name: str, state: EndpointState) -> None:
        """A call goes there and is answered, or not."""
        endpoint, call = rig.catalog.endpoints[name], self.call()
        epoch = rig.outcomes.started(endpoint, MODEL, call.tenant)
        if self.chance.random() < 0.7:
            rig.outcomes.succeeded(endpoint, call, epoch, self.chance.choice([0.01, 3.0]))
        else:
            rig.outcomes.failed(endpoint, MODEL, epoch, UpstreamFailed("500"), now_s())
        rig.outcomes.ended(endpoint, MODEL)

    def is_restored(self, rig: Rig, name: str, state: EndpointState) -> None:
        state.model_states[MODEL].health.prove()

    def is_slow(self, rig: Rig, name: str, state: EndpointState) -> None:
        model_state = state.model_states[MODEL]
        model_state.health.asking()
        took_s = self.chance.choice([0.01, 60.0])
        model_state.health.observe(CanaryResult.GOOD, took_s, model_state.times)

    def starts_slowly(self, rig: Rig, name: str, state: EndpointState) -> None:
        rig.outcomes.returned(name, MODEL)

    def meets_failures(self, rig: Rig, name: str, state: EndpointState) -> None:
        model_state, call = state.model_states[MODEL], self.call()
        for _ in range(self.chance.choice([1, 3])):
            model_state.suspects.failed(replace(call, payload=self.call().payload), now_s())

    def is_trusted_again(self, rig: Rig, name: str, state: EndpointState) -> None:
        suspects = state.model_states[MODEL].suspects
        for tenant in self.chance.sample(TENANTS, 2):
            suspects.succeeded(tenant)

    def has_another_model(self, rig: Rig, name: str, state: EndpointState) -> None:
        rig.catalog.add_undeclared(name, [SMALL])

    def tells_its_batches(self, rig: Rig, name: str, state: EndpointState) -> None:
        if state.onprem is not None:
            chance = self.chance
            learned = Execution(chance.choice([1, 8]), chance.choice([1, 2]), chance.random() < 0.2)
            rig.queues.learn(MODEL, name, learned)

    def spends(self, rig: Rig, name: str, state: EndpointState) -> None:
        self.budgets.others_spent("", self.chance.choice([0, 600_000_000]))

    def is_busy(self, rig: Rig, name: str, state: EndpointState) -> None:
        endpoint = rig.catalog.endpoints[name]
        epochs = [rig.outcomes.started(endpoint, MODEL) for _ in range(self.chance.randint(1, 4))]
        loop = asyncio.get_running_loop()
        for epoch in epochs:
            loop.call_later(0.5, rig.outcomes.abandoned, endpoint, MODEL, epoch)
            loop.call_later(0.5, rig.outcomes.ended, endpoint, MODEL)

    def has_calls(self, rig: Rig, name: str, state: EndpointState) -> None:
        self.calls += [
            asyncio.create_task(rig.call(request(self.chance.choice(["clear", "restricted"]))))
            for _ in range(self.chance.randint(1, 6))
        ]

    def refuses_for_a_while(self, rig: Rig, name: str, state: EndpointState) -> None:
        endpoint = rig.catalog.endpoints[name]
        epoch = rig.outcomes.started(endpoint, MODEL)
        rig.outcomes.failed(endpoint, MODEL, epoch, UpstreamBusy("429"), now_s())
        rig.outcomes.ended(endpoint, MODEL)

    def is_reloaded(self, rig: Rig, name: str, state: EndpointState) -> None:
        """Another version of the settings, which has some states in common with the last."""
        if len(self.rigs) > 1:
            self.rigs.pop(0).handover.part()
            return
        same = frozenset(n for n in rig.sites if self.chance.random() < 0.7)
        self.rigs.append(Rig(*self.sites, setup=self.setup, before=rig, same=same))
        self.has_calls(self.rigs[-1], name, state)

    # What must hold

    def check(self) -> None:
        """What is known from before a change, against what is found out after it; from then on
        that is what is known."""
        for rig in self.rigs:
            models = [model for model in (MODEL, SMALL) if model in rig.catalog.models]
            calls = [self.call(model) for model in models for _ in range(3)]
            self.checks += 1
            self.steady += rig.registry.candidates.epoch(MODEL).steady
            known = self.known(rig, calls)
            rig.registry.candidates.end_epochs()
            assert known == self.anew(rig, calls)
            for state in rig.registry.states.values():
                for model_state in state.model_states.values():
                    _true_of(state, model_state)
            self.known(rig, calls)

    def known(self, rig: Rig, calls: list[InferenceRequest]) -> list[object]:
        conditions: list[object] = [self._conditions(rig, call) for call in calls]
        return conditions + [
            decided(partial(rig.snapshots.decide, call, verdict, self.policy))
            for call in calls
            for verdict in verdicts(call)
        ]

    def anew(self, rig: Rig, calls: list[InferenceRequest]) -> list[object]:
        conditions: list[object] = [self._conditions(rig, call) for call in calls]
        return conditions + [
            decided(partial(self.policy.decide, call, verdict, rig.snapshots.snapshot(call)))
            for call in calls
            for verdict in verdicts(call)
        ]

    def _conditions(self, rig: Rig, call: InferenceRequest) -> QueueConditions:
        servers = rig.registry.candidates.server_group(call)
        return rig.conditions.read(call.model, servers)


def verdicts(call: InferenceRequest) -> list[Classification]:
    return [
        Classification(call.id, Sensitivity.CLEAR, "clear"),
        Classification(call.id, Sensitivity.RESTRICTED, "entities"),
    ]


def decided(decide: Callable[[], Decision]) -> object:
    try:
        return decide()
    except GatewayError as exc:
        return type(exc), str(exc), exc.reason, exc.retry_after_s, exc.vetoes


def _true_of(state: EndpointState, model_state: ModelState) -> None:
    health = model_state.health
    steady = (
        model_state.breaker.closed and not model_state.suspects
        and health.slow_since_s is None and not health.slow_start.going
    )  # fmt: skip
    assert model_state.steady is steady
    assert model_state.usual is (steady and state.up and not state.drained)
    if model_state.usual:
        assert unavailable_why(state, model_state) == ""


async def _checked(seed: int) -> World:
    chance = random.Random(seed)
    world = World(chance)
    for _ in range(CHECKS):
        for _ in range(chance.choice([1, 1, 2, 4])):
            await world.change()
            await asyncio.sleep(chance.choice([0.0, 0.0, 0.01, 0.6, 5.0]))
        world.check()
    for task in world.calls:
        task.cancel()
    await asyncio.gather(*world.calls, return_exceptions=True)
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_what_an_epoch_knows_is_what_would_be_found_out_anew(seed: int) -> None:
    run(_checked(seed))


def test_much_is_known_for_an_epoch() -> None:
    """Or there would be nothing to compare."""
    worlds = [run(_checked(seed)) for seed in SEEDS[:3]]
    assert sum(world.steady for world in worlds) > sum(world.checks for world in worlds) / 4
