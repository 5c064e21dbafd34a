"""What the queues know of the servers that they stand in front of."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.core.errors import (
    OnpremUnavailable,
)
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.executions import Execution
from gateway.server import status
from tests.unit.harness import (
    MODEL,
    Plan,
    Rig,
    cloud,
    onprem,
    request,
    state_of,
)

pytestmark = pytest.mark.leaping

HOLDS = Plan(open_s=1.0)


async def test_a_server_that_cannot_serve_the_call_is_no_queue_and_no_bug() -> None:
    """A document, and only a KServe service on the premises: it leaves, or is refused."""

    rig = Rig(replace(onprem(), kind="kserve"), replace(cloud(), kind="openai"))
    ended = await rig.call(request("clear"))
    assert ended.placement is not None
    assert ended.placement.endpoint == "cloud"
    refused = await rig.call(request("restricted"))
    assert isinstance(refused.error, OnpremUnavailable)


async def test_a_batch_size_learned_late_widens_the_queue_that_is_already_there() -> None:
    rig = Rig(onprem(HOLDS))
    calls = [asyncio.create_task(rig.call(request("restricted", 9.0))) for _ in range(10)]
    await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    rig.queues.learn(MODEL, "gpu", Execution(rows=4))
    await asyncio.sleep(1.05)
    assert state_of(rig, "gpu").in_flight == 4
    await asyncio.gather(*calls)


@pytest.mark.parametrize(
    ("kind", "said", "shares"),
    [
        ("triton", None, True),
        ("kserve", None, False),
        ("triton", False, False),
        ("kserve", True, True),
    ],
)
async def test_models_share_the_gpu_of_a_triton_unless_the_settings_say_otherwise(
    kind: str, said: bool | None, shares: bool
) -> None:
    rig = Rig(onprem())
    place = rig.registry.states["gpu"]
    place.settings = place.settings.model_copy(update={"kind": kind, "shares_gpu": said})
    assert rig.queues.executions.execution(MODEL, "gpu").shares_gpu == shares


async def test_the_metrics_tell_what_models_on_one_server_cost_each_other() -> None:
    rig = Rig(onprem(), onprem(name="more"))
    groups = rig.queues

    def shown(metric: str, endpoint: str = "gpu") -> float | None:
        status.publish(rig.metrics, rig.registry.states, groups)
        return rig.metrics.registry.get_sample_value(metric, {"endpoint": endpoint})

    groups.queue(MODEL, ("gpu",))
    groups.queue(MODEL, ("gpu", "more"))
    assert shown("spillway_gpu_turns") == 0.0
    assert shown("spillway_gpu_contention_ratio") is None
    ((_, gpu),) = groups.gpus.shared()
    for beside in (0.0, 1.0):
        for _ in range(40):
            gpu.observe(0, BatchModel(0.01, 0.0), 1.0, 0.01 * (1 + beside), 0.02 * beside)
    assert shown("spillway_gpu_turns") == 1.0
    assert shown("spillway_gpu_contention_ratio") == pytest.approx(1.0, abs=0.01)
    assert shown("spillway_gpu_turns", "more") is None
