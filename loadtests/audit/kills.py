"""Whether a record that was acknowledged is there after a kill -9, and the chain whole.

Each round forks a writer, which resumes the audit in the directory and records calls from many
tasks at once; whenever a ticket says that a record is durable, its id goes into a pipe. The parent
kills the writer at a moment drawn by lot (some while it starts, or turns a segment over), and looks
for every id that came out of the pipe.

    python -m loadtests.audit.kills --rounds 1000 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from gateway.accounting.audit.journal.journal import Journal, JournalOptions
from gateway.accounting.audit.verify import public_key, records, verify
from gateway.accounting.audit.writer.writer import AuditWriter
from gateway.accounting.metrics import Metrics
from loadtests.audit.killing import killed

_CALLERS = 24
_SEGMENT_BYTES = 64 * 1024
_NARROW, _WIDE = 37, 800  # bytes; a wide write takes long enough for a kill to tear it
_LONGEST_S = 0.15  # between a start, or every other time the first word of it, and its kill


@dataclass(slots=True)
class Outcome:
    rounds: int = 0
    acknowledged: set[str] = field(default_factory=set)
    recorded: int = 0
    lost: set[str] = field(default_factory=set)
    torn: int = 0
    findings: tuple[str, ...] = ()


async def _record(directory: Path, round_number: int, told: int) -> None:
    """Until it is killed."""
    keeping = JournalOptions(directory, "kills", segment_max_bytes=_SEGMENT_BYTES)
    writer = AuditWriter(Journal(keeping), Metrics(), checkpoint_s=0.01)
    writer.start(dict)
    size = _WIDE if round_number % 10 == 0 else _NARROW

    async def caller(number: int) -> None:
        at = 0
        while True:
            call_id = f"{round_number}-{number}-{at}"
            record = {"kind": "call", "id": call_id, "filled": "x" * (size * number)}
            if await writer.append(record) is None:
                os.write(told, f"{call_id}\n".encode())
            at += 1

    await asyncio.gather(*map(caller, range(_CALLERS)))


def kills(directory: Path, rounds: int, seed: int) -> Outcome:
    rng, outcome = Random(seed), Outcome()
    for number in range(rounds):
        work = partial(_record, directory, number)
        told = killed(work, rng.random() * _LONGEST_S, once_it_told=number % 2 == 1)
        outcome.acknowledged.update(told.decode().splitlines())
        outcome.rounds += 1
    last = Journal(JournalOptions(directory, "kills"))
    last.open()  # as the next start would: what was torn is put aside
    last.started({})
    last.close()
    found = list(records(directory))
    ids = {r["id"] for r in found if r["kind"] == "call"}
    outcome.recorded = len(ids)
    outcome.lost = outcome.acknowledged - ids
    outcome.torn = sum(r["kind"] == "torn" for r in found)
    outcome.findings = tuple(map(str, verify(directory, public_key(directory)).findings))
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtests.audit.kills")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = kills(Path(scratch), given.rounds, given.seed)
    print(
        f"{found.rounds} kills: {len(found.acknowledged)} records acknowledged, "
        f"{len(found.lost)} of them lost; {found.recorded} recorded, {found.torn} torn lines"
    )
    for finding in found.findings:
        print(finding)
    return bool(found.lost or found.findings)


if __name__ == "__main__":
    sys.exit(main())
