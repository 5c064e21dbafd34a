"""A fast sample of what `python -m tests.simulation` runs for longer, and that seeds replay."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.plan import Mood, Probe, Spell, planned
from tests.simulation.seeds import Progress, Tally, collected_by_hand, tally
from tests.simulation.world import World, ran

ROOT = Path(__file__).parent.parent.parent
SAMPLE, PART = 200, 40


@pytest.mark.parametrize("first", range(0, SAMPLE, PART))
def test_no_world_breaks_a_rule(first: int) -> None:
    """M1, M2, A1 to A5, B8, D1, S2, S5, S7 and O3, after every step of each of these worlds."""
    found = tally(range(first, first + PART))
    assert found.violations == [], "python -m tests.simulation --trace --replay SEED shows it"


def test_the_sample_is_full_of_life() -> None:
    """Worlds in which nothing happens would break no rule either."""
    found = tally(range(PART, 2 * PART))
    assert {"served", "shed", "expired", "failed", "rejected", "cancelled"} == set(found.outcomes)
    assert found.outcomes["served"] > found.calls / 8
    assert found.attempts > found.outcomes["served"]


def test_a_seed_replays_exactly() -> None:
    for seed in range(4):
        once, again = ran(seed, keep_trace=True), ran(seed, keep_trace=True)
        assert once.trace == again.trace
        assert once.digest == again.digest


def test_different_seeds_are_different_worlds() -> None:
    assert len({ran(seed).digest for seed in range(5)}) == 5


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_replays_exactly_in_another_process(hash_seed: str) -> None:
    """Where strings, and so sets of them, have another order."""
    seeds = range(8)
    program = f"from tests.simulation.world import ran; print(*(ran(s).digest for s in {seeds!r}))"
    there = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert there.stdout.split() == [ran(seed).digest for seed in seeds]


def test_a_world_where_nothing_ever_answers_ends_all_the_same() -> None:
    """Also its calls: each by its deadline, and each settled."""
    hangs = (Spell(float("inf"), Mood.HANGS, Probe.YES),)
    for seed in range(3):
        plan = planned(seed)
        deaf = tuple(replace(endpoint, spells=hangs) for endpoint in plan.endpoints)
        world = World(replace(plan, endpoints=deaf))
        with collected_by_hand():
            world.run()
        assert world.ran().violations == ()
        assert "served" not in world.ran().outcomes


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    kept = tmp_path / "seeds.jsonl"
    progress = Progress(kept)
    first, *rest = progress.left(range(0, 700))
    assert len(rest) == 2
    found = Tally(seeds=250, calls=7, violations=["seed 3: M1: it left"])
    found.outcomes["served"] = 5
    progress.done(first, found)
    again = Progress(kept)
    assert again.left(range(0, 700)) == rest
    assert again.total == found


def test_what_another_gateway_did_counts_for_nothing(tmp_path: Path) -> None:
    kept = tmp_path / "seeds.jsonl"
    progress = Progress(kept)
    progress.done(range(0, 250), Tally(seeds=250))
    kept.write_text(kept.read_text().replace('"revision": "', '"revision": "0'))
    assert Progress(kept).total.seeds == 0
    assert Progress(kept).left(range(0, 250)) == [range(0, 250)]


def test_shadow_policies_change_nothing() -> None:
    """O4: each of these worlds takes the same course, to the last record, with shadows and
    without."""
    asked = 0
    for seed in range(4):
        digests = set()
        for shadows in (True, False):
            world = World(replace(planned(seed), shadows=shadows))
            with collected_by_hand():
                world.run()
            assert world.ran().violations == ()
            digests.add(world.ran().digest)
            asked += world.witness.shadowed
        assert len(digests) == 1, f"seed {seed}"
    assert asked > 100, "nobody asked them: this test could not fail"
