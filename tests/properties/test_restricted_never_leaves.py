"""M1, M2 and A2 over random fault schedules: whatever fails, restricted calls stay."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gateway.core.types import Zone
from tests.properties.schedules import CALLS, World, world
from tests.unit.harness import now_s, run

WORLDS = 500


@dataclass
class Tally:
    """What the schedules really exercised; without it, a harness that does nothing would pass."""

    restricted: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    clear_in_cloud: int = 0
    restricted_failed_over: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def check(done: World) -> None:
    seed, rig = done.seed, done.rig
    assert not done.leaked, f"seed {seed}: restricted calls in the cloud: {done.leaked}"
    assert not rig.leftovers(), f"seed {seed}: {rig.leftovers()}"
    ends = rig.log.ends()
    assert set(ends) == {c.id for c in done.calls}, f"seed {seed}: a call without a record"
    assert all(len(found) == 1 for found in ends.values()), f"seed {seed}: {ends}"
    asked = {c.id: {z.name for z in c.zones} for c in done.calls}
    for line in rig.log.lines:
        check_attempts(line["attempts"], asked[line["id"]], f"seed {seed}: {line}")
    for call, end in zip(done.calls, done.ended, strict=True):
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


def count(done: World, tally: Tally) -> None:
    rig = done.rig
    for call, end in zip(done.calls, done.ended, strict=True):
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
        done = await world(seed)
        check(done)
        count(done, tally)
        assert now_s() - start_s < 60, f"seed {seed}: calls outlived their deadlines"


def test_restricted_calls_never_reach_the_cloud_under_ten_thousand_random_faults() -> None:
    tally = Tally()
    run(worlds(tally))
    assert WORLDS * CALLS >= 10_000
    assert tally.restricted >= 6_000
    assert tally.clear_in_cloud >= 500, "no clear call ever spilled: this test could not fail"
    assert tally.restricted_failed_over >= 50
    assert set(tally.ends) == {"served", "rejected", "shed", "expired", "failed", "cancelled"}
    assert tally.reasons["onprem_unavailable_restricted"] >= 200
    assert tally.reasons["deadline_unmeetable"] + tally.reasons["deadline_exceeded_in_queue"] >= 50
