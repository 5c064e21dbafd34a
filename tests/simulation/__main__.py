"""Run many seeds, or one again.

python -m tests.simulation --seeds 100000 --jobs 2 --progress var/seeds.jsonl
python -m tests.simulation --replay 4711 --trace
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.simulation.plan import planned
from tests.simulation.seeds import Progress, in_processes, revision
from tests.simulation.world import ran


def main() -> int:
    given = _arguments()
    if given.replay is not None:
        return replay(given.replay, given.trace)
    return run(range(given.first, given.first + given.seeds), given.jobs, given.progress)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--progress", type=Path, help="a file that keeps what is done, to go on from there"
    )
    parser.add_argument("--replay", type=int, metavar="SEED", help="run this one seed")
    parser.add_argument("--trace", action="store_true", help="and print all that happens")
    return parser.parse_args()


def replay(seed: int, trace: bool) -> int:
    found = ran(seed, keep_trace=trace)
    if trace:
        print(planned(seed))
    for line in found.trace:
        print(line)
    for violation in found.violations:
        print(violation)
    print(f"seed {seed}: {found.calls} calls, {found.steps} steps, digest {found.digest}")
    return bool(found.violations)


def run(seeds: range, jobs: int, kept: Path | None) -> int:
    progress = Progress(kept)
    before, started_s = progress.total.seeds, time.monotonic()
    shown = len(progress.total.violations)
    print(f"gateway and world {revision()}; done before: {before} seeds", file=sys.stderr)
    for chunk, found in in_processes(progress.left(seeds), jobs):
        progress.done(chunk, found)
        for violation in progress.total.violations[shown:]:
            print(violation, flush=True)
        shown = len(progress.total.violations)
        rate = (progress.total.seeds - before) / (time.monotonic() - started_s)
        print(f"{progress.total.seeds} seeds, {rate:.0f}/s", file=sys.stderr, flush=True)
    print(progress.total)
    return bool(progress.total.violations)


if __name__ == "__main__":
    sys.exit(main())
