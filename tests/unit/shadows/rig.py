"""A whole gateway with shadows, in front of a server that executes batches, on a leaping clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from gateway.config import QueueSettings, RoutingSettings
from gateway.core.deadline import Clock
from gateway.core.reply import ReplyStream
from gateway.core.types import InferenceRequest, ServedModel, Zone
from gateway.pipeline.call import ClassifierPort
from gateway.pipeline.pipeline import Pipeline
from gateway.pipeline.shadow.shadow import Rules
from gateway.pipeline.shadow.shadows import Shadows
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import (
    Ended,
    Plan,
    Rig,
    ScriptedClassifier,
    ScriptedConnector,
    ScriptedReply,
    Setup,
    Site,
    now_s,
    request,
)

BATCH = 8
FIXED_S, PER_CALL_S = 0.02, 0.0025
CAPACITY_PER_S = BATCH / (FIXED_S + BATCH * PER_CALL_S)
WARM = 12  # bursts from which the gateway learns how long a batch takes, before the traffic
WARM_CALLS = sum(1 + burst % BATCH for burst in range(WARM))
_ARRIVALS = Path(__file__).parent / "arrivals.csv"


class BatchServer(ScriptedConnector):
    """Executes what is there when the batch before has ended, up to `BATCH` calls; their times
    spread as those of real ones do."""

    def __init__(self, spread: float = 0.1, seed: int = 7) -> None:
        super().__init__()
        self._lots, self._spread = Random(seed), spread
        self._there: list[asyncio.Future[None]] = []
        self._executing = False

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        self.seen.append(request)
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._there.append(answered)
        if not self._executing:
            self._executing = True
            asyncio.get_running_loop().call_soon(self._execute)
        await answered
        return ScriptedReply(self, request.id, Plan())

    def _execute(self) -> None:
        batch, self._there = self._there[:BATCH], self._there[BATCH:]
        self._executing = bool(batch)
        if batch:
            took_s = (FIXED_S + PER_CALL_S * len(batch)) * self._lots.lognormvariate(
                0.0, self._spread
            )
            asyncio.get_running_loop().call_later(took_s, self._answer, batch)

    def _answer(self, batch: Iterable[asyncio.Future[None]]) -> None:
        for answered in batch:
            if not answered.done():
                answered.set_result(None)
        self._execute()


def arrivals() -> list[float]:
    """Seconds of real calls from the first one: see the file."""
    lines = _ARRIVALS.read_text().splitlines()
    return [float(line) for line in lines if not line.startswith("#")]


@dataclass(frozen=True, slots=True)
class Traffic:
    calls: int = 400
    load: float = 1.5  # of the server's capacity
    budgets_s: tuple[float, ...] = (0.15, 0.4, 1.0)
    restricted: float = 0.2
    seed: int = 3

    def __iter__(self) -> Any:
        """When each comes, whether it is restricted, and its budget."""
        since = np.array(arrivals()[: self.calls])
        since *= self.calls / (self.load * CAPACITY_PER_S) / since[-1]
        lots = Random(self.seed)
        for burst in range(WARM):
            yield from [(burst * 0.2, "clear", 30.0)] * (1 + burst % BATCH)
        for at_s in (since + WARM * 0.2).tolist():
            kind = "restricted" if lots.random() < self.restricted else "clear"
            yield at_s, kind, lots.choice(self.budgets_s)


@dataclass(slots=True)
class Shadowing:
    """What came of it."""

    rig: Rig
    ended: list[Ended] = field(default_factory=list)

    def report(self, shadow: str) -> dict[str, Any]:
        assert self.rig.shadows is not None
        return next(r for r in self.rig.shadows.report() if r["shadow"] == shadow)

    def decided(self, shadow: str) -> dict[tuple[str, str], int]:
        """Calls by live zone and the shadow's."""
        return {
            (d["live_zone"], d["shadow_zone"]): d["calls"] for d in self.report(shadow)["decisions"]
        }

    def zones(self, shadow: str) -> dict[str, int]:
        found: dict[str, int] = {}
        for (_, zone), calls in self.decided(shadow).items():
            found[zone] = found.get(zone, 0) + calls
        return found


def rig_with(
    shadows: Mapping[str, Mapping[str, Any]],
    *,
    classifier: ClassifierPort | None = None,
    block_unknown: bool = False,
    max_batch: int = BATCH,
    **live: Any,
) -> Rig:
    """`shadows`: by name, as settings would say. `live`: of the live policy."""
    routing = RoutingSettings.model_validate({"shadows": shadows, **live})
    policy = Policy(
        spill=routing.spill, margin=routing.margin, miss_penalty_usd=routing.miss_penalty_usd
    )
    setup = Setup(
        policy=policy,
        queue=QueueSettings(),
        routing=routing,
        max_batch=max_batch,
        block_unknown=block_unknown,
        classifier=classifier or ScriptedClassifier(),
    )
    server = Site("gpu", Zone.ONPREM, BatchServer(), expected_ms=30.0)
    away = Site(
        "cloud", Zone.CLOUD, ScriptedConnector(Plan(open_s=0.08)), price_usd=0.002,
        expected_ms=80.0,
    )  # fmt: skip
    return Rig(server, away, setup=setup)


def asked(
    rig: Rig, rules: Mapping[str, Rules], share: float = 0.1, clock: Clock = now_s
) -> Shadows:
    """Have the rig's calls seen by these shadows and no others."""
    rig.shadows = shadows = Shadows(
        rules, rig.queues, rig.registry.candidates, rig.conditions, rig.metrics, share, clock
    )
    rig.pipeline = Pipeline(
        rig.admission, rig.classifier, rig.snapshots, rig.entry, rig.recovery, Policy(),
        rig.dispatcher, rig.accounts,
        limits=rig.limits, shadows=shadows,
    )  # fmt: skip
    return shadows


async def shadowed(
    shadows: Mapping[str, Mapping[str, Any]], traffic: Traffic | None = None, **live: Any
) -> Shadowing:
    """All calls of the traffic, as they come, until the last is answered."""
    rig = rig_with(shadows, **live)
    done = Shadowing(rig)
    started_s = now_s()

    async def one(at_s: float, kind: str, budget_s: float) -> None:
        await asyncio.sleep(started_s + at_s - now_s())
        done.ended.append(await rig.call(request(kind, budget_s)))

    await asyncio.gather(*(one(*call) for call in traffic or Traffic()))
    await asyncio.sleep(5.0)
    if rig.shadows is not None:
        rig.shadows.publish()
    return done
