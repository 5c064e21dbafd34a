"""What it costs to have each call on record before it is sent to the cloud.

The whole pipeline over a cloud that takes 50 ms for each call, and the audit on a disk, as when
serving: a call waits for its record before it is answered in either case, and with
`audit.before_dispatch: cloud` for its intent, too. Rounds with and without it take turns; medians
of the rounds.

    python -m loadtests.audit.before_dispatch --directory /var/tmp
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from gateway.accounting.audit.journal.journal import Journal, JournalOptions
from gateway.accounting.audit.writer.writer import AuditWriter
from gateway.accounting.metrics import Metrics
from tests.unit.harness import Plan, Rig, cloud, request

_ANSWER_S = 0.05


@dataclass(frozen=True, slots=True)
class Run:
    median_ms: float  # from the call to its answer
    p99_ms: float
    cpu_us: float  # of the process, for each call
    calls_per_s: float


async def _run(directory: Path, callers: int, seconds: float, before_dispatch: bool) -> Run:
    writer = AuditWriter(Journal(JournalOptions(directory, "cost")), Metrics(), checkpoint_s=60.0)
    writer.start(dict)
    rig = Rig(cloud(Plan(open_s=_ANSWER_S)))
    rig.accounts.log, rig.accounts.before_dispatch = writer, before_dispatch
    took: list[float] = []
    end_s = time.perf_counter() + seconds

    async def caller() -> None:
        while (began_s := time.perf_counter()) < end_s:
            ended = await rig.call(request(budget_s=30.0))
            assert ended.error is None, ended.error
            took.append(time.perf_counter() - began_s)

    cpu_s, wall_s = time.process_time(), time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    await writer.aclose()
    took.sort()
    return Run(
        took[len(took) // 2] * 1e3, took[int(len(took) * 0.99)] * 1e3,
        cpu_s / len(took) * 1e6, len(took) / wall_s,
    )  # fmt: skip


def measure(callers: int, rounds: int, seconds: float, where: Path | None) -> str:
    found: dict[bool, list[Run]] = {False: [], True: []}
    for _ in range(rounds):
        for marks in (False, True):
            with tempfile.TemporaryDirectory(dir=where) as scratch:
                found[marks].append(uvloop.run(_run(Path(scratch), callers, seconds, marks)))

    def of(marks: bool, what: str) -> float:
        return statistics.median(float(getattr(run, what)) for run in found[marks])

    told = [f"{callers} callers:"]
    for what, unit in (("median_ms", "ms"), ("p99_ms", "ms"), ("cpu_us", "us")):
        name, before, after = what.rpartition("_")[0], of(False, what), of(True, what)
        told.append(
            f"{name} {before:.1f} -> {after:.1f} {unit} ({after - before:+.1f}, "
            f"{after / before:.2f} x);"
        )
    return " ".join([*told, f"{of(True, 'calls_per_s'):.0f} calls/s"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m loadtests.audit.before_dispatch")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--directory", type=Path, help="on the disk to measure")
    given = parser.parse_args()
    for callers in given.callers:
        print(measure(callers, given.rounds, given.seconds, given.directory))


if __name__ == "__main__":
    main()
