"""What waiting for the disk adds to a call, and what the audit costs the processor.

Tasks on one loop do what a call does to it (they wait 2 ms for an answer and work for 0.1 ms), then
hand over a record and wait until it is durable; in turns with the same tasks without an audit.
Beside them, the disk alone: the same bytes appended and synced one after the other. Medians of the
rounds.

    python -m loadtests.audit.commit --directory /var/tmp
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from gateway.accounting.audit.journal.disk import DurableFile
from gateway.accounting.audit.journal.journal import Journal, JournalOptions
from gateway.accounting.audit.writer.writer import AuditWriter
from gateway.accounting.metrics import Metrics
from tests.unit.audit.rig import call

_ANSWER_S, _WORK_S = 0.002, 0.0001
_RECORD = {**call(0), "trace": "0" * 32, "vetoes": {"provider": "restricted"}, "predicted_s": {
    "gpu": 0.1}, "entities": {"PERSON": 2}, "took_s": 0.1, "budget_s": 60.0}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    calls_per_s: float
    cpu_us: float  # of the process, for each call
    waited_ms: tuple[float, float]  # median, 99th percentile
    records_in_one: float


async def _run(writer: AuditWriter | None, callers: int, seconds: float) -> Run:
    waited: list[float] = []
    end_s = time.perf_counter() + seconds

    async def one() -> None:
        while time.perf_counter() < end_s:
            await asyncio.sleep(_ANSWER_S)
            work_until_s = time.perf_counter() + _WORK_S
            while time.perf_counter() < work_until_s:
                pass
            began_s = time.perf_counter()
            if writer is not None:
                assert await writer.append(_RECORD) is None
            waited.append(time.perf_counter() - began_s)

    cpu_s, wall_s = time.process_time(), time.perf_counter()
    await asyncio.gather(*(one() for _ in range(callers)))
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    waited.sort()
    commits = 0.0
    if writer is not None:
        sample = writer._metrics.registry.get_sample_value
        commits = sample("spillway_audit_commit_seconds_count") or 0.0
    return Run(
        len(waited) / wall_s,
        cpu_s / len(waited) * 1e6,
        (waited[len(waited) // 2] * 1e3, waited[int(len(waited) * 0.99)] * 1e3),
        len(waited) / commits if commits else 0.0,
    )


async def _with(directory: Path, callers: int, seconds: float) -> Run:
    writer = AuditWriter(Journal(JournalOptions(directory, "commit")), Metrics(), checkpoint_s=60.0)
    writer.start(dict)
    try:
        return await _run(writer, callers, seconds)
    finally:
        await writer.aclose()


def _disk_ms(directory: Path) -> tuple[float, float]:
    file, took = DurableFile(directory / "disk"), []
    for _ in range(300):
        began_s = time.perf_counter()
        file.append(b"x" * 900)
        took.append(time.perf_counter() - began_s)
    file.close()
    return statistics.median(took) * 1e3, sorted(took)[int(0.99 * len(took))] * 1e3


def measure(callers: int, rounds: int, seconds: float, where: Path | None) -> dict[str, object]:
    plain, audited, disk = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=where) as scratch:
            disk.append(_disk_ms(Path(scratch)))
            plain.append(uvloop.run(_run(None, callers, seconds)))
            audited.append(uvloop.run(_with(Path(scratch) / "audit", callers, seconds)))
    median = statistics.median
    return {
        "callers": callers,
        "disk_ms": [round(median(d[i] for d in disk), 2) for i in (0, 1)],
        "waited_ms": [round(median(r.waited_ms[i] for r in audited), 2) for i in (0, 1)],
        "cpu_us_added": round(median(r.cpu_us for r in audited) - median(r.cpu_us for r in plain)),
        "calls_per_s": [round(median(r.calls_per_s for r in some)) for some in (plain, audited)],
        "records_in_one_sync": round(median(r.records_in_one for r in audited), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtests.audit.commit")
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--directory", type=Path, help="on the disk to measure")
    given = parser.parse_args()
    for callers in given.callers:
        print(json.dumps(measure(callers, given.rounds, given.seconds, given.directory)))
    print(f"on {os.uname().sysname} {os.uname().release}, {os.cpu_count()} processors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
