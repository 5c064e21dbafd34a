"""Whether the worlds find what they are for: take out one guard of the gateway, and count the seeds
until a world tells. `python -m tests.simulation.mutations`

Each is taken out in a copy. A guard that stands behind another is taken out together with it; one
that is only a second line of defence (`Cleared`) is proved by the unit tests of its own.
"""

from __future__ import annotations

import argparse
import ast
import logging
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.marks import ROOT, files_with, take_out


@dataclass(frozen=True, slots=True)
class Mutation:
    guard: str  # what is gone
    rules: frozenset[str]  # the behaviours of which one is then seen to break
    names: tuple[str, ...]  # of the marks in gateway/ (tests/marks.py) that are taken out


def _without(guard: str, rules: str, names: str) -> Mutation:
    return Mutation(guard, frozenset(rules.split()), tuple(names.split()))


MUTATIONS: tuple[Mutation, ...] = (
    _without("the restricted filter", "A4 M1 M2", "M1.filter"),
    _without(
        "the restricted filter, the zones and Cleared",
        "M1 M2",
        "M1.filter M2.zones M1.cleared M1.known",
    ),
    _without("the look at the door", "A4 M1", "M1.unread-call"),
    _without("the look at the door, and Cleared", "M1", "M1.unread-call M1.cleared"),
    _without("what the door found, and Cleared", "M1", "M1.known M1.cleared"),
    _without("the zones shrink with the verdict", "M2", "M2.zones"),
    _without("what callers allow", "A4 M1 M2", "S6.allowed-zones"),
    _without("servers in zones that callers leave out", "A4 M1 M2", "M7.premises-zone"),
    _without("and the zones of each attempt", "M1 M2", "M7.premises-zone M7.queued-zone"),
    _without("sequences stay", "M1", "M1.sequences"),
    _without("the switch for the cloud", "S5", "S5.spill-switch"),
    _without("money is there before it is spent", "S5", "S5.spend-reserve"),
    _without("the turn is given back", "A2", "A2.turn-release"),
    _without("the turn of who leaves is given back", "A2 A3", "A2.left-turn"),
    _without("the turn of who runs out of time is given back", "A2 A3 B3", "A2.late-turn"),
    _without("the turn of a connector's bug is given back", "A2 A3", "A2.failed-turn"),
    _without("money put aside is settled", "A2 S5", "A2.spend-release"),
    _without("calls in flight are counted down", "A2", "A2.inflight-release"),
    _without("admission is left", "A2", "A2.admission-release"),
    _without("the account is settled once", "A2", "A2.single-settlement"),
    _without("who leaves a stream is settled", "A2", "A2.stream-account"),
    _without("the upstream is closed", "A3", "A3.upstream-close"),
    _without("a record before the answer", "B4", "B4.handover-failure"),
    _without("an answer waits until its record is durable", "B4", "B4.durable-answer"),
    _without("a second attempt is told of, too", "B4 B8", "B4.attempt-start"),
    _without("the deadline of the first frame", "D1", "D1.answer-wait"),
    _without("the deadline of later frames", "D1", "D1.later-frames"),
    _without("the deadline of the look", "D1", "D1.scan-wait"),
    _without("streams are cut at the end of a drain", "A2 D1", "O7.stream-cut"),
    _without("no caller waits for a slow close", "D1", "D1.close-wait"),
    _without("the commit point", "A4", "A4.commit-point"),
    _without("a broken stream is no whole one", "A2 A4", "A4.broken-stream"),
    _without("second tries are few", "A5", "A5.retry-budget"),
    _without("no hedge of what has failed", "A2 A4", "A4.failed-hedge"),
    _without("the winner of a hedge whose caller has left", "A2 A3", "A2.hedge-winner"),
    _without("room in the cloud when it is sent", "S2", "S2.cloud-recheck"),
    _without("the close goes out before who waits is sent", "S2", "S2.close-order"),
    _without("the close goes out before who comes is sent", "S2", "S2.leave-at-once"),
)


def unmarked() -> list[str]:
    """Guards that no mark in gateway/ names."""
    return [m.guard for m in MUTATIONS if not all(map(files_with, m.names))]


@dataclass(frozen=True, slots=True)
class Found:
    seeds: int  # until a world told; 0: none did
    rule: str = ""
    what: str = ""


def found(mutation: Mutation, most: int) -> Found:
    """Of the gateway without the guard, in a copy and in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as scratch:
        root = Path(scratch)
        for folder in ("gateway", "tests/simulation"):
            ignored = shutil.ignore_patterns("weights", "demo")
            shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
        for file in ("__init__.py", "marks.py"):
            shutil.copy(ROOT / "tests" / file, root / "tests")
        take_out(mutation.names, root)
        told = subprocess.run(
            [sys.executable, "-m", "tests.simulation.mutations", "--hunt", str(most)],
            cwd=root, capture_output=True, text=True, check=True,
        )  # fmt: skip
    return Found(*ast.literal_eval(told.stdout))


def hunt(most: int) -> tuple[int, str, str]:
    from tests.simulation.seeds import collected_by_hand  # the copy's, whatever is broken in it
    from tests.simulation.world import ran

    logging.disable(logging.CRITICAL)
    with collected_by_hand():
        for seed in range(most):
            if violations := ran(seed).violations:
                return seed + 1, violations[0].rule, str(violations[0])
    return 0, "", ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutations")
    parser.add_argument("--most", type=int, default=2000, help="seeds to look for each in")
    parser.add_argument("--only", default="", help="guards with this in their name")
    parser.add_argument("--hunt", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hunt is not None:
        print(hunt(given.hunt))
        return 0
    missed = 0
    for mutation in MUTATIONS:
        if given.only in mutation.guard:
            there = found(mutation, given.most)
            missed += there.rule not in mutation.rules
            print(f"| {mutation.guard} | {there.rule} | {there.seeds} |  {there.what}", flush=True)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
