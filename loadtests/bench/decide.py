"""What deciding on a call and queueing it costs, from its verdict to its turn and back.

    python -m loadtests.bench.decide [--json] [--quick]

`decide` is the decision, as live calls meet it; `queue` is the call as its scheduler sees it
and the turn at a server; `end` is what its answer tells, and the place given back. Sixteen calls
are in flight, none waits. `cloud` is the same for a model that only the cloud has: the decision,
the money put aside, the place there, the end. Each is the median of several rounds, `least` that of
the best round of `whole`, in microseconds of the processor for a call; the rounds of all rows take
turns. Rows differ in one thing each, so that what must not cost anything shows that it does not.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from dataclasses import dataclass, field, replace

import uvloop

from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.metrics import Metrics
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.config import EndpointSettings, ModelSettings, ServedBySettings, Settings
from gateway.config.model_catalog import Catalog
from gateway.core import ambient
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import (
    Classification,
    Decision,
    DocumentCall,
    InferenceRequest,
    Sensitivity,
    WireProtocol,
    Zone,
)
from gateway.endpoints.connectors import OnPremDoor
from gateway.endpoints.connectors.egress import CloudDoor
from gateway.endpoints.state import EndpointState
from gateway.endpoints.versions.parts import build_parts
from gateway.scheduling.factory import new_scheduler, weights
from gateway.scheduling.queue import Grant
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import ScriptedConnector

_AT_ONCE = 16  # in flight
_TURNS = 40  # of so many calls, in a round
_ROUNDS = 15
_TEXT = "The river flows through quiet hills while people walk along its banks. " * 28
_HERE, _AWAY = "local", "away"
_NANO_USD = 10**9


@dataclass(frozen=True, slots=True)
class Row:
    """What a gateway has."""

    models: int = 1
    slots: int = 64  # calls that the server takes at once
    tenants: int = 1  # with a budget of their own
    others: int = 0  # endpoints of other models
    kind: str = "openai"  # of the server on the premises; triton makes batches
    rows: int = 1  # of a batch
    called: int = 1  # of the models, before it begins


ROWS = {
    "64 slots": Row(),
    "1 slot a call": Row(slots=_AT_ONCE * 2),
    "1,024 slots": Row(slots=1024),
    "1,000 models": Row(models=1000),
    "1,000 models, 200 called": Row(models=1000, called=200),
    "10,000 tenants": Row(tenants=10_000),
    "200 other endpoints": Row(others=200),
    "triton": Row(kind="triton", slots=256),
    "triton, 100 models called": Row(kind="triton", slots=256, models=100, called=100),
}


@dataclass(slots=True)
class Costs:
    """CPU microseconds of a call, one figure a round."""

    parts: dict[str, list[float]] = field(default_factory=dict)

    def add(self, part: str, took_s: float, calls: int) -> None:
        self.parts.setdefault(part, []).append(took_s / calls * 1e6)

    def found(self) -> dict[str, float]:
        medians = {part: statistics.median(seen) for part, seen in self.parts.items()}
        medians["least"] = min(self.parts["whole"])
        return {part: round(figure, 2) for part, figure in medians.items()}


class Stage:
    """The parts of one version of the settings with nothing behind them, and calls that go
    through them."""

    def __init__(self, row: Row) -> None:
        self._at_once = 1 if row.kind == "triton" else _AT_ONCE
        settings = _settings(row)
        clock = ambient.monotonic_s
        tenants = {f"t{n}": BudgetLimits(day=10**6 * _NANO_USD) for n in range(row.tenants)}
        budgets = SpillBudgets(BudgetLimits(day=10**9 * _NANO_USD), tenants, clock)
        self.parts = build_parts(
            Catalog.from_settings(settings),
            {name: _place(e) for name, e in settings.endpoints.items()},
            Metrics(),
            clock,
            weights(settings.queue, settings.routing),
            new_scheduler(settings.queue, settings.routing),
            SpillControl(SpillStop(None, clock), budgets),
        )
        self.parts.registry.assume_up()
        self.policy = Policy()
        self.costs = Costs()
        here = [_request(n, f"m{n % row.models}", row.tenants) for n in range(_AT_ONCE)]
        self._here = [replace(request, model="m0") for request in here]
        self._away = [replace(request, model="abroad") for request in here]
        self._called = [replace(here[0], model=f"m{n}") for n in range(1, row.called)]

    async def warm(self) -> None:
        for request in self._called:
            await self._stay([request], Costs())
        for _ in range(20):
            await self.turn(Costs())

    async def turn(self, costs: Costs) -> None:
        for at in range(0, _AT_ONCE, self._at_once):
            await self._stay(self._here[at : at + self._at_once], costs)
        await self._leave(self._away, costs)

    async def round(self) -> None:
        costs = Costs()
        for _ in range(_TURNS):
            await self.turn(costs)
        for part, seen in costs.parts.items():
            self.costs.add(part, sum(seen) / len(seen) / 1e6, 1)

    def _decide(self, request: InferenceRequest) -> Decision:
        return self.parts.snapshots.decide(request, _CLEAR, self.policy)

    async def _enter(self, request: InferenceRequest) -> Grant:
        """A decision, and a turn at a server."""
        parts, decision = self.parts, self._decide(request)
        group = parts.registry.candidates.server_group(request)
        for name in group:
            if parts.registry.refuses(name, request.model):
                raise AssertionError("the server is out")
        clouds = [e for e in decision.attempts if e.zone is Zone.CLOUD]
        call = parts.entry.call(request, False, clouds, frozenset())
        return await parts.entry.enter(request, call, group)

    async def _stay(self, requests: list[InferenceRequest], costs: Costs) -> None:
        parts, calls = self.parts, len(requests)
        since_s = time.process_time()
        for request in requests:
            self._decide(request)
        decided_s = time.process_time()
        turns = [await self._enter(request) for request in requests]
        queued_s = time.process_time()
        epochs = [
            parts.outcomes.started(parts.registry.catalog.endpoints[t.server], "m0") for t in turns
        ]
        for request, turn, epoch in zip(requests, turns, epochs, strict=True):
            endpoint = parts.registry.catalog.endpoints[turn.server]
            parts.outcomes.succeeded(endpoint, request, epoch, 0.001)
            turn.release(True)
            parts.outcomes.ended(endpoint, request.model)
        ended_s = time.process_time()
        costs.add("decide", decided_s - since_s, calls)
        costs.add("queue", queued_s - decided_s - (decided_s - since_s), calls)
        costs.add("end", ended_s - queued_s, calls)
        costs.add("whole", ended_s - decided_s, calls)

    async def _leave(self, requests: list[InferenceRequest], costs: Costs) -> None:
        parts = self.parts
        since_s = time.process_time()
        kept = []
        for request in requests:
            endpoint = self._decide(request).attempts[0]
            reserved = parts.spill.reserve_for(request, endpoint.models[request.model])
            if parts.registry.refuses(_AWAY, "abroad") or not parts.clouds.takes_another(
                _AWAY, "abroad"
            ):
                raise AssertionError("the cloud is closed")
            kept.append((request, endpoint, reserved, parts.outcomes.started(endpoint, "abroad")))
        for request, endpoint, reserved, epoch in kept:
            reserved.settle(1000)
            parts.outcomes.succeeded(endpoint, request, epoch, 0.001)
            parts.outcomes.ended(endpoint, "abroad")
        costs.add("cloud", time.process_time() - since_s, len(requests))


_CLEAR = Classification("", Sensitivity.CLEAR, "clear", complete=True)


def _settings(row: Row) -> Settings:
    endpoint = EndpointSettings(
        kind=row.kind, zone=Zone.ONPREM, expected_ms=1, max_in_flight=row.slots,
        **({"grpc": "localhost:1"} if row.kind == "triton" else {"url": "http://localhost:1"}),
    )  # fmt: skip
    away = EndpointSettings(kind="openai", zone=Zone.CLOUD, url="http://localhost:2")
    served = (ServedBySettings(endpoint=_HERE), ServedBySettings(endpoint=_AWAY, price_usd=0.001))
    model = ModelSettings(task="generate", max_batch=row.rows, served_by=served)
    if row.kind == "triton":
        model = ModelSettings(task="embeddings", max_batch=row.rows, served_by=served)
    models = {f"m{n}": model for n in range(row.models)}
    models["abroad"] = ModelSettings(task="generate", served_by=served[1:])
    endpoints = {_HERE: endpoint, _AWAY: away}
    for n in range(row.others):
        endpoints[f"other{n}"] = endpoint
        models[f"other{n}"] = ModelSettings(
            task="generate", served_by=(ServedBySettings(endpoint=f"other{n}"),)
        )
    return Settings(endpoints=endpoints, models=models)


def _place(settings: EndpointSettings) -> EndpointState:
    connector, away = ScriptedConnector(), settings.zone is Zone.CLOUD
    return EndpointState(
        settings=settings,
        connector=connector,
        onprem=None if away else OnPremDoor(connector),
        cloud=CloudDoor(connector, Zone.CLOUD) if away else None,
        inspector=None,
    )


def _request(number: int, model: str, tenants: int) -> InferenceRequest:
    messages = [{"role": "user", "content": _TEXT}]
    body = {"messages": messages, "max_tokens": 200 + 10 * number}
    return InferenceRequest(
        id=f"call-{number}",
        protocol=WireProtocol.OPENAI,
        tenant=f"t{number * 7919 % tenants}",
        model=model,
        payload=DocumentCall(CHAT, body),
        deadline=Deadline.after(3600.0),
        received_s=ambient.monotonic_s(),
    )


async def _all(rounds: int) -> dict[str, dict[str, float]]:
    stages = {name: Stage(row) for name, row in ROWS.items()}
    for stage in stages.values():
        await stage.warm()
    gc.collect()
    gc.freeze()
    for _ in range(rounds):
        for stage in stages.values():
            await stage.round()
    return {name: stage.costs.found() for name, stage in stages.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="three rounds")
    args = parser.parse_args()
    found = uvloop.run(_all(3 if args.quick else _ROUNDS))
    if args.json:
        print(json.dumps(found, indent=2))
        return
    parts = list(next(iter(found.values())))
    print(f"{'us of the processor a call':28}" + "".join(f"{part:>9}" for part in parts))
    for name, row in found.items():
        print(f"{name:28}" + "".join(f"{row[part]:>9.1f}" for part in parts))


if __name__ == "__main__":
    main()
