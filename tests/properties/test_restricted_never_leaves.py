"""M1, M2 and A2 over random fault schedules: whatever fails, restricted calls stay."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field, replace

from harness import (
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
    now_s,
    request,
    run,
)

from gateway.config import LimitSettings, QueueSettings
from gateway.routing.filters import FILTERS
from gateway.routing.policy import Policy
from gateway.types import EVERYWHERE, ONPREM_ONLY, InferenceRequest, Zone

WORLDS, CALLS = 500, 21
FAULTS = (
    HANGS, HANGS_BEFORE_FIRST_FRAME, UNREACHABLE, FAILS, BUSY, REFUSES, EMPTY, GARBAGE, BUG,
    cut_after(1), cut_after(3), idle_after_s(0.2), Plan(frames=4, frame_s=0.05),
    Plan(frames=3, hangs_at=2), Plan(open_s=0.5, close_s=0.05),
)  # fmt: skip


@dataclass
class Tally:
    """What the schedules really exercised; without it, a harness that does nothing would pass."""

    restricted: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    clear_in_cloud: int = 0
    restricted_failed_over: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def plans(rng: random.Random) -> list[Plan]:
    health = rng.choice((0.0, 0.3, 0.9))
    return [ANSWERS if rng.random() < health else rng.choice(FAULTS) for _ in range(7)]


def sites(rng: random.Random) -> list[Site]:
    made = []
    for zone, most in ((Zone.ONPREM, 2), (Zone.CLOUD, 2)):
        for i in range(rng.randint(1, most)):
            # a price on the GPU makes the cloud the cheap place
            price = rng.choice((0.0, 5.0)) if zone is Zone.ONPREM else 0.001
            connector = ScriptedConnector(*plans(rng))
            made.append(Site(f"{zone.value}{i}", zone, connector, price, rng.choice((1, 20, 300))))
    rng.shuffle(made)
    return made


def setup(rng: random.Random) -> Setup:
    return Setup(
        policy=Policy(
            filters=() if rng.random() < 0.2 else FILTERS,  # the built-in one stays
            spill=rng.random() < 0.9,
            margin=rng.choice((1.0, 1.2, 3.0)),
            miss_penalty_usd=rng.choice((0.0, 0.05, 10.0)),
            max_waiting_batches=rng.choice((0.0, 0.5, 3.0)),
            max_attempts=rng.randint(1, 4),
        ),
        queue=QueueSettings(max_waiting=rng.choice((1, 2, 8)), in_flight_batches=1.0),
        limits=LimitSettings(max_concurrent=rng.choice((5, 1024))),
        max_batch=rng.randint(1, 3),
        classifier=ScriptedClassifier(rng.choice((0.0, 0.01))),
    )


def arrival(rng: random.Random, filters_off: bool) -> InferenceRequest:
    made = request(
        rng.choice(("restricted", "restricted", "clear")),
        rng.choice((0.0, 0.005, 0.05, 0.3, 2.0)),
        streamed=rng.random() < 0.5,
    )
    # A caller that asks for the cloud has EVERYWHERE; one that asks to stay ONPREM_ONLY.
    stays = rng.random() < 0.2 and not filters_off
    return replace(made, zones=ONPREM_ONLY if stays else EVERYWHERE, priority=rng.randint(0, 2))


async def one_call(rig: Rig, call: InferenceRequest, rng: random.Random) -> Ended:
    task = asyncio.create_task(rig.call(call, read=rng.choice((0, 1, 2, 99))))
    if rng.random() < 0.2:
        await asyncio.sleep(rng.uniform(0, 0.2))
        task.cancel()
    return await task


async def one_world(seed: int, tally: Tally) -> None:
    rng = random.Random(seed)
    chosen = setup(rng)
    rig = Rig(*sites(rng), setup=chosen)
    for name in rig.sites:
        if rng.random() < 0.15:
            rig.eject(name)
        rig.fleet.place(name).up = rng.random() > 0.15
    calls, running = [], []
    for _ in range(CALLS):
        calls.append(arrival(rng, not chosen.policy.filters))
        running.append(asyncio.create_task(one_call(rig, calls[-1], rng)))
        await asyncio.sleep(rng.choice((0.0, 0.0, 0.02)))
    if rng.random() < 0.1:
        rig.admission.draining = True
        rig.pipeline.cut()
    ended = await asyncio.gather(*running)
    await asyncio.sleep(1.0)  # closings that outlived their caller
    check(rig, calls, ended, seed)
    count(rig, calls, ended, tally)


def check(rig: Rig, calls: list[InferenceRequest], ended: list[Ended], seed: int) -> None:
    leaked = [r.id for r in rig.cloud_seen if r.id.startswith("restricted")]
    assert not leaked, f"seed {seed}: restricted calls in the cloud: {leaked}"
    assert not rig.leftovers(), f"seed {seed}: {rig.leftovers()}"
    ends = rig.log.ends()
    assert set(ends) == {c.id for c in calls}, f"seed {seed}: a call without a record"
    assert all(len(found) == 1 for found in ends.values()), f"seed {seed}: {ends}"
    asked = {c.id: {z.value for z in c.zones} for c in calls}
    for line in rig.log.lines:
        check_attempts(line["attempts"], asked[line["id"]], f"seed {seed}: {line}")
    for call, end in zip(calls, ended, strict=True):
        if end.placement is not None and call.id.startswith("restricted"):
            assert end.placement.zone is Zone.ONPREM, f"seed {seed}: {call.id}"


def check_attempts(attempts: list[dict[str, object]], allowed: set[str], told: str) -> None:
    """M2: what an attempt may touch is within what the attempt before it might."""
    for attempt in attempts:
        zones = attempt["zones"]
        assert isinstance(zones, list)
        assert set(zones) <= allowed, told
        assert attempt["zone"] in zones, told
        allowed = set(zones)


def count(rig: Rig, calls: list[InferenceRequest], ended: list[Ended], tally: Tally) -> None:
    for call, end in zip(calls, ended, strict=True):
        if not call.id.startswith("restricted"):
            continue
        tally.restricted += 1
        tally.reasons[end.reason] += 1
        tried = rig.log.of(call.id)[-1]["attempts"]
        tally.restricted_failed_over += len(tried) > 1
    for (outcome,) in rig.log.ends().values():
        tally.ends[outcome] += 1
    tally.clear_in_cloud += len(rig.cloud_seen)


async def worlds(tally: Tally) -> None:
    for seed in range(WORLDS):
        start_s = now_s()
        await one_world(seed, tally)
        assert now_s() - start_s < 60, f"seed {seed}: calls outlived their deadlines"


def test_restricted_calls_never_reach_the_cloud_under_ten_thousand_random_faults() -> None:
    tally = Tally()
    run(worlds(tally))
    assert WORLDS * CALLS >= 10_000
    assert tally.restricted >= 6_000
    assert tally.clear_in_cloud >= 500, "no clear call ever spilled: this test could not fail"
    assert tally.restricted_failed_over >= 100
    assert set(tally.ends) == {"served", "rejected", "shed", "expired", "failed", "cancelled"}
    assert tally.reasons["onprem_unavailable_restricted"] >= 200
    assert tally.reasons["deadline_exceeded_in_queue"] >= 50
