"""Bursts that come between two readings of a server: what is with it, and with the cloud, never
exceeds what they take, by not a single call (S2), and who has no room leaves unsent (D4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gateway.core.reply import ReplyStream
from gateway.core.types import InferenceRequest, ServedModel, Zone
from gateway.scheduling.executions import Execution
from tests.unit.harness import (
    MODEL,
    Ended,
    Plan,
    Rig,
    ScriptedConnector,
    Setup,
    cloud,
    now_s,
    onprem,
    request,
)

pytestmark = pytest.mark.leaping

BURST = 300
BATCH = 8
TAKES = Plan(open_s=0.1)


class Counting(ScriptedConnector):
    """Knows how many calls it had at once."""

    most = 0

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        self.most = max(self.most, len(self.opening) + len(self.replies) + 1)
        return await super().open(request, served)


def gpu(max_in_flight: int = 256) -> tuple[Counting, Rig]:
    counting = Counting(TAKES)
    site = replace(onprem(), connector=counting, max_in_flight=max_in_flight, expected_ms=100)
    return counting, Rig(site, setup=Setup(max_batch=BATCH))


async def burst(rig: Rig, kind: str, calls: int = BURST) -> Sequence[Ended]:
    return await asyncio.gather(*(rig.call(request(kind, 900.0)) for _ in range(calls)))


async def test_a_burst_finds_a_server_with_the_running_batch_and_the_next_and_no_more() -> None:
    counting, rig = gpu()
    ended = await burst(rig, "restricted")
    assert all(e.error is None for e in ended)
    assert BATCH < counting.most <= 2 * BATCH
    assert rig.leftovers() == {}


@pytest.mark.parametrize("most", [1, 5, 11])
async def test_a_server_that_takes_fewer_never_has_one_more(most: int) -> None:
    counting, rig = gpu(most)
    ended = await burst(rig, "restricted")
    assert all(e.error is None for e in ended)
    assert counting.most == most
    assert rig.leftovers() == {}


async def test_calls_that_end_one_by_one_fill_their_places_and_no_more() -> None:
    counting, rig = gpu()
    rig.queues.learn(MODEL, "gpu", Execution(BATCH, one_by_one=True))
    ended = await burst(rig, "restricted")
    assert all(e.error is None for e in ended)
    assert counting.most == 2 * BATCH
    assert rig.leftovers() == {}


async def test_no_burst_overshoots_what_the_cloud_takes() -> None:
    away = Counting(TAKES)
    rig = Rig(onprem(TAKES), replace(cloud(), connector=away, max_in_flight=7))
    await asyncio.gather(*(rig.call(request("clear", 0.4)) for _ in range(BURST)))
    assert away.most == 7
    assert rig.leftovers() == {}


async def test_who_would_be_late_leaves_before_it_is_sent() -> None:
    """D4: the server never sees it, and it does not wait for the last useful moment."""

    counting = Counting(TAKES)
    rig = Rig(replace(onprem(), connector=counting, expected_ms=100), cloud())
    held = [asyncio.create_task(rig.call(request("restricted", 60.0))) for _ in range(9)]
    await asyncio.sleep(0.01)
    since_s = now_s()
    late = request("clear", 0.15)
    ended = await rig.call(late)
    assert ended.placement is not None
    assert ended.placement.zone is Zone.CLOUD
    assert ended.placement.reason == "spill_deadline"
    assert ended.placement.attempts == 1
    assert ended.at_s - since_s == pytest.approx(0.01), "the cloud's own time"
    assert late.id not in counting.seen_ids
    patient = await rig.call(request("clear", 60.0))
    assert patient.placement is not None
    assert patient.placement.zone is Zone.ONPREM, "there is time to wait"
    await asyncio.gather(*held)
    assert rig.leftovers() == {}
