"""A cloud that answers as it usually does is never closed by deadlines that its callers set: it has
its whole concurrency, its breaker stays closed, and no clear call is refused for want of room."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from gateway.core.errors import DeadlineExceeded, DeadlineUnmeetable
from tests.unit.harness import (
    MODEL,
    Ended,
    Plan,
    Rig,
    ScriptedConnector,
    Site,
    cloud,
    onprem,
    request,
)

pytestmark = pytest.mark.leaping

_CALLS = 300
Latency = Callable[[Random], float]
LATENCIES: dict[str, Latency] = {
    "constant": lambda chance: 0.15,
    "lognormal": lambda chance: 0.15 * math.exp(chance.gauss(0.0, 0.5)),
    "long-tail": lambda chance: 0.15 * math.exp(chance.gauss(0.0, 1.0)),
    "two-kinds": lambda chance: chance.choice([0.08, 0.9]),
    "seconds": lambda chance: chance.uniform(1.0, 4.0),
}


async def _called(rig: Rig, chance: Random, apart_s: float, usual_s: float) -> list[Ended]:
    """Budgets from far too tight to generous; some callers leave."""
    tasks = []
    for _ in range(_CALLS):
        await asyncio.sleep(chance.expovariate(1.0 / apart_s))
        budget_s = usual_s * 10.0 ** chance.uniform(-0.7, 1.3)
        streamed = chance.random() < 0.3
        task = asyncio.create_task(rig.call(request("clear", budget_s, streamed=streamed)))
        tasks.append(task)
        if chance.random() < 0.1:
            asyncio.get_running_loop().call_later(chance.uniform(0, usual_s), task.cancel)
    return await asyncio.gather(*tasks)


@pytest.mark.parametrize("premises", [False, True], ids=["alone", "beside-the-premises"])
@pytest.mark.parametrize("kind", LATENCIES)
@pytest.mark.parametrize("seed", range(2))
async def test_a_healthy_cloud_is_never_closed_by_its_callers_deadlines(
    seed: int, kind: str, premises: bool
) -> None:
    chance = Random(f"{seed} {kind} {premises}")
    latency = LATENCIES[kind]
    usual_s = sorted(latency(chance) for _ in range(101))[50]
    plans = [Plan(open_s=latency(chance)) for _ in range(_CALLS)]
    sites: list[Site] = [
        replace(
            cloud(),
            connector=ScriptedConnector(*plans),
            expected_ms=1000 * usual_s * chance.choice([0.1, 0.5, 1.0, 3.0]),
        )
    ]
    if premises:
        sites.append(onprem(Plan(open_s=usual_s * 2)))
    rig = Rig(*sites)
    apart_s = usual_s * chance.choice([0.05, 0.5, 2.0])
    ended = await _called(rig, chance, apart_s, usual_s)
    own = (DeadlineExceeded, DeadlineUnmeetable, asyncio.CancelledError)
    refused = [e.error for e in ended if e.error is not None and not isinstance(e.error, own)]
    assert refused == []
    assert rig.clouds.limit("cloud").limit == 256
    assert rig.registry.model_state("cloud", MODEL).breaker.epoch == 0, "it never opened"
    assert rig.leftovers() == {}
