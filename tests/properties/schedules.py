"""Random worlds: a gateway, endpoints that fail in every way, callers that stay or leave."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace

from gateway.config import LimitSettings, QueueSettings
from gateway.core.types import EVERYWHERE, ONPREM_ONLY, DocumentCall, InferenceRequest, Zone
from gateway.scheduling.routing.filters import FILTERS
from gateway.scheduling.routing.policy import Policy
from tests.unit.harness import (
    ANSWERS,
    BUG,
    BUSY,
    EMPTY,
    FAILS,
    GARBAGE,
    HANGS,
    HANGS_BEFORE_FIRST_FRAME,
    REFUSES,
    UNREACHABLE,
    Ended,
    Plan,
    Rig,
    ScriptedClassifier,
    ScriptedConnector,
    Setup,
    Site,
    cut_after,
    idle_after_s,
    request,
)

CALLS = 21  # in each world
FAULTS = (
    HANGS, HANGS_BEFORE_FIRST_FRAME, UNREACHABLE, FAILS, BUSY, REFUSES, EMPTY, GARBAGE, BUG,
    cut_after(1), cut_after(3), idle_after_s(0.2), Plan(frames=4, frame_s=0.05),
    Plan(frames=3, hangs_at=2), Plan(open_s=0.5, close_s=0.05), Plan(frames=2, close_s=0.1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class World:
    """One finished schedule."""

    seed: int
    rig: Rig
    calls: list[InferenceRequest]
    ended: list[Ended]

    @property
    def leaked(self) -> list[str]:
        """Restricted calls that a cloud endpoint has seen."""
        return [r.id for r in self.rig.cloud_seen if _kind(r) == "restricted"]


def _kind(call: InferenceRequest) -> object:
    """By what it holds, as a cloud would know it: its id is not the one it came with."""
    assert isinstance(call.payload, DocumentCall)
    return str(call.payload.document["user"]).partition("-")[0]


async def world(seed: int) -> World:
    rng = random.Random(seed)
    chosen = _setup(rng)
    rig = Rig(*_sites(rng), setup=chosen)
    for name in rig.sites:
        if rng.random() < 0.15:
            rig.eject(name)
        rig.registry.states[name].up = rng.random() > 0.15
    calls, running = [], []
    for _ in range(CALLS):
        calls.append(_arrival(rng, not chosen.policy.filters))
        running.append(asyncio.create_task(_one_call(rig, calls[-1], rng)))
        await asyncio.sleep(rng.choice((0.0, 0.0, 0.02)))
    if rng.random() < 0.1:
        rig.admission.draining = True
        rig.pipeline.cut()
    ended = await asyncio.gather(*running)
    await asyncio.sleep(1.0)  # closings that outlived their caller
    return World(seed, rig, calls, ended)


def _plans(rng: random.Random) -> list[Plan]:
    health = rng.choice((0.0, 0.3, 0.9))
    return [ANSWERS if rng.random() < health else rng.choice(FAULTS) for _ in range(7)]


def _sites(rng: random.Random) -> list[Site]:
    made = []
    for zone, most in ((Zone.ONPREM, 2), (Zone.CLOUD, 2)):
        for i in range(rng.randint(1, most)):
            # a price on the GPU makes the cloud the cheap place
            price = rng.choice((0.0, 5.0)) if zone is Zone.ONPREM else 0.001
            connector = ScriptedConnector(*_plans(rng))
            made.append(Site(f"{zone.name}{i}", zone, connector, price, rng.choice((1, 20, 300))))
    rng.shuffle(made)
    return made


def _setup(rng: random.Random) -> Setup:
    return Setup(
        policy=Policy(
            filters=() if rng.random() < 0.2 else FILTERS,  # the built-in one stays
            spill=rng.random() < 0.9,
            margin=rng.choice((1.0, 1.2, 3.0)),
            miss_penalty_usd=rng.choice((0.0, 0.05, 10.0)),
            max_attempts=rng.randint(1, 4),
        ),
        queue=QueueSettings(max_waiting=rng.choice((1, 2, 8))),
        limits=LimitSettings(max_concurrent=rng.choice((5, 1024))),
        max_batch=rng.randint(1, 3),
        classifier=ScriptedClassifier(rng.choice((0.0, 0.01))),
    )


def _arrival(rng: random.Random, filters_off: bool) -> InferenceRequest:
    made = request(
        rng.choice(("restricted", "restricted", "clear")),
        rng.choice((0.0, 0.005, 0.05, 0.3, 2.0)),
        streamed=rng.random() < 0.5,
    )
    # A caller that asks for the cloud has EVERYWHERE; one that asks to stay ONPREM_ONLY.
    stays = rng.random() < 0.2 and not filters_off
    return replace(made, zones=ONPREM_ONLY if stays else EVERYWHERE, priority=rng.randint(0, 2))


async def _one_call(rig: Rig, call: InferenceRequest, rng: random.Random) -> Ended:
    task = asyncio.create_task(rig.call(call, read=rng.choice((0, 1, 2, 99))))
    if rng.random() < 0.2:
        await asyncio.sleep(rng.uniform(0, 0.2))
        task.cancel()
    return await task
