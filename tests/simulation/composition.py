"""The gateway of a world, put together from its public parts, and what it holds.

The one place here that knows the gateway's inside: how it is composed, and where it counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gateway.accounting.ledger.database import LedgerDatabase
from gateway.accounting.ledger.ledger import InlineRunner, Ledger
from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.ledger.sqlite import SqliteDatabase
from gateway.accounting.ledger.store import LedgerStore
from gateway.accounting.ledger_watch import LedgerWatch
from gateway.accounting.measures import measures_for
from gateway.accounting.metrics import Metrics
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.app.factories import shadows
from gateway.config import (
    EndpointSettings,
    LimitSettings,
    QueueSettings,
    RoutingSettings,
    ShadowSettings,
)
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core import ambient
from gateway.core.deadline import Clock
from gateway.core.types import Endpoint, Payload, ServedModel
from gateway.endpoints.connectors import OnPremDoor
from gateway.endpoints.connectors.egress import CloudDoor
from gateway.endpoints.health.canary_requests import CanaryDoors
from gateway.endpoints.health.canary_runner import CanaryRunner
from gateway.endpoints.health.prober import Watch
from gateway.endpoints.state import EndpointState
from gateway.endpoints.versions.parts import EndpointParts, build_parts
from gateway.pipeline.accounts import Accounts
from gateway.pipeline.admission import Admission
from gateway.pipeline.dispatcher import Dispatcher
from gateway.pipeline.pipeline import Pipeline
from gateway.pipeline.retries import RetryBudget
from gateway.pipeline.shadow.shadows import Shadows
from gateway.scheduling.executions import Execution
from gateway.scheduling.factory import new_scheduler, weights
from gateway.scheduling.routing.policy import Policy
from tests.simulation.classifier import SimulatedClassifier
from tests.simulation.endpoints import CANARY, SimulatedEndpoint
from tests.simulation.plan import MODELS, EndpointPlan, WorldPlan
from tests.simulation.pseudonyms import SimulatedPseudonyms
from tests.simulation.witness import Witness, WitnessedLog

GPU_USD_PER_HOUR = 3.6  # a nano-dollar each microsecond
_LONGEST_S = 3600.0
METRICS = Metrics()
"""One for all worlds of a process, which run one after the other: it takes longer to make than a
world to run."""

_SHADOWS = {
    "same": ShadowSettings(),
    "never": ShadowSettings(spill=False),
    "always": ShadowSettings(spill=True, policy="static_split", max_waiting=2),
}
_SYNC_S = 0.0005  # what a write and its sync take a disk


@dataclass(slots=True)
class Composed:
    plan: WorldPlan
    parts: EndpointParts
    admission: Admission
    accounts: Accounts
    watch: Watch
    tending: CanaryRunner
    budgets: SpillBudgets
    policy: Policy
    pipelines: list[Pipeline]  # the newest takes calls, the others finish theirs
    witness: Witness
    pseudonyms: SimulatedPseudonyms
    dispatcher: Dispatcher
    shadows: Shadows | None
    ledger: Ledger
    kept: LedgerDatabase  # the ledger's
    gauge_before: float  # a world that was halted leaves it up
    narrowed: bool = False  # the newest settings admit less

    def pipeline(self, policy: Policy) -> Pipeline:
        return Pipeline(
            self.admission,
            SimulatedClassifier(self.witness, self.narrowed),
            self.parts.snapshots,
            self.parts.entry,
            self.parts.recovery,
            policy,
            self.dispatcher,
            self.accounts,
            block_unknown=self.plan.block_unknown,
            pseudonyms=self.pseudonyms,
            shadows=self.shadows,
        )

    async def look_after(self) -> None:
        """What runs in the background for as long as the gateway does."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.watch.run())
            if self.plan.tended:
                group.create_task(self.tending.run())

    def reload(self) -> None:
        spill = not self.policy.spill and self.plan.policy != "onprem_only"
        self.policy, self.narrowed = replace(self.policy, spill=spill), True
        self.pipelines.append(self.pipeline(self.policy))

    async def drain(self, drain_s: float) -> None:
        """As the gateway does when it is told to stop (O7)."""
        self.admission.draining = True
        try:
            async with asyncio.timeout(drain_s):
                await self.accounts.quiet()
        except TimeoutError:
            for pipeline in self.pipelines:
                pipeline.cut()

    def lowest(self) -> int:
        """Of all counts: asked after every step, so it makes no list of them."""
        found = min(self.admission.inside, self.accounts.open_calls)
        for state in self.parts.registry.states.values():
            if state.in_flight < found:
                found = state.in_flight
            for model_state in state.model_states.values():
                if model_state.in_flight < found:
                    found = model_state.in_flight
        for (_, servers), group in self.parts.queues:
            for name in servers:
                found = min(found, group.scheduling.servers.in_flight(name))
        return found

    def counts(self) -> Iterator[tuple[str, float]]:
        """Whatever goes up for a call and has to come down again."""
        yield "admission", self.admission.inside
        yield "accounts", self.accounts.open_calls
        for name, state in self.parts.registry.states.items():
            yield f"{name} in flight", state.in_flight
            for model, model_state in state.model_states.items():
                yield f"{name} {model} in flight", model_state.in_flight
        for (model, servers), group in self.parts.queues:
            yield f"{servers} {model} waiting", group.waiting
            for name in servers:
                yield f"{name} {model} with the server", group.scheduling.servers.in_flight(name)
        yield "gauge of calls", _calls_in_flight() - self.gauge_before
        yield "records of calls under way", len(self.accounts.measures.sent)
        for pipeline in self.pipelines:
            yield "pipeline", len(pipeline._open)
        yield "waiting for a restart", self.parts.recovery.waiting
        yield "waiting for the cloud", self.parts.clouds.waiting
        yield "money put aside", self.budgets.reserved()
        for name, state in self.parts.registry.states.items():
            yield (
                f"{name} waited for",
                sum(len(model_state.waiting) for model_state in state.model_states.values()),
            )


def _log(plan: WorldPlan, witness: Witness) -> WitnessedLog:
    return WitnessedLog(witness, plan.unwritable, _SYNC_S if plan.seed % 2 else 0.0)


def composed(plan: WorldPlan, witness: Witness, clock: Clock) -> Composed:
    log = _log(plan, witness)
    endpoints = [SimulatedEndpoint(e, witness) for e in plan.endpoints]
    catalog = Catalog(
        {m: CatalogModel(m, "infer", tuple(e.name for e in plan.endpoints),
                         max_batch=plan.max_batch, canary=True) for m in MODELS},
        {e.name: _endpoint(e) for e in plan.endpoints},
    )  # fmt: skip
    states = {e.plan.name: _state(e, plan.probe_s) for e in endpoints}
    queue = QueueSettings(max_waiting=plan.max_waiting)
    routing = RoutingSettings(
        policy=plan.policy, margin=plan.margin, miss_penalty_usd=plan.miss_penalty_usd,
        shadows=_SHADOWS if plan.shadows else {},
    )  # fmt: skip
    limits = LimitSettings(
        max_concurrent=plan.max_concurrent, max_concurrent_per_tenant=plan.max_per_tenant
    )
    budgets = SpillBudgets(BudgetLimits.usd(plan.spill_budget_usd), {}, clock)
    spill = SpillControl(SpillStop(None, clock), budgets)
    kept = SqliteDatabase(None)
    store = LedgerStore(kept, "world", ambient.wall_s)
    ledger = Ledger(
        store, budgets.limits, budgets, LedgerWatch(METRICS), clock, InlineRunner(), _LONGEST_S, 1
    )
    spill.leases = ledger.leases
    parts = build_parts(
        catalog, states, METRICS, clock, weights(queue, routing), new_scheduler(queue, routing),
        spill,
    )  # fmt: skip
    for model in MODELS:
        for name in states:
            told = Execution(plan.max_batch, plan.instances, plan.one_by_one)
            parts.queues.learn(model, name, told)
    policy = Policy(
        spill=plan.spill and plan.policy != "onprem_only",
        margin=plan.margin,
        miss_penalty_usd=plan.miss_penalty_usd,
        max_attempts=plan.max_attempts,
    )
    made = Composed(
        plan=plan,
        parts=parts,
        admission=Admission(limits),
        accounts=Accounts(log, METRICS, clock, "policy", ledger, witness.before_dispatch),
        watch=Watch(states, _learn_nothing, METRICS),
        tending=CanaryRunner(
            parts.registry,
            parts.outcomes,
            parts.recovery,
            _canary,
            CanaryDoors(log).infer,
            METRICS,
            clock,
        ),
        budgets=budgets,
        policy=policy,
        pipelines=[],
        witness=witness,
        pseudonyms=SimulatedPseudonyms(witness),
        dispatcher=Dispatcher(
            parts, clock, RetryBudget(clock, reserve=plan.retry_reserve), plan.hedge
        ),
        shadows=shadows(routing, queue, parts, METRICS, clock),
        ledger=ledger,
        kept=kept,
        gauge_before=_calls_in_flight(),
    )
    made.pipelines.append(made.pipeline(policy))
    return made


def _calls_in_flight() -> float:
    measures_for(METRICS).count()
    return METRICS.in_flight.level


async def _canary(name: str, state: EndpointState, model: str) -> Payload:
    return CANARY


async def _learn_nothing(name: str, state: EndpointState) -> bool:
    return True


def _endpoint(plan: EndpointPlan) -> Endpoint:
    hour_usd = GPU_USD_PER_HOUR if plan.zone.onprem else 0.0
    served = {
        m: ServedModel(m, price_usd=plan.price_usd, gpu_usd_per_hour=hour_usd) for m in MODELS
    }
    return Endpoint(plan.name, plan.zone, "triton", served)


def _state(endpoint: SimulatedEndpoint, probe_s: float) -> EndpointState:
    plan = endpoint.plan
    away = not plan.zone.onprem
    settings = EndpointSettings.model_construct(
        kind="triton",
        zone=plan.zone,
        grpc="localhost:1",
        expected_ms=plan.expected_ms,
        max_in_flight=plan.max_in_flight,
        connect_timeout_ms=100.0,
        probe_s=probe_s,
    )
    return EndpointState(
        settings=settings,
        connector=endpoint,
        onprem=None if away else OnPremDoor(endpoint),
        cloud=CloudDoor(endpoint, plan.zone) if away else None,
        inspector=None,
        back_in_s=endpoint.back_in_s,
    )
