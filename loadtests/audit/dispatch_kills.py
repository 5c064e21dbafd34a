"""Whether every call that a cloud saw is on record after a kill -9 of the gateway that sent it.

Each round forks a gateway (pipeline, dispatch and audit; one cloud, which takes up to 5 ms) under
24 callers. The cloud writes the id of each call that reaches it into a pipe. The parent kills the
gateway at a moment drawn by lot and looks for every id that came out of the pipe, as an auditor
does with the log of a provider.

    python -m loadtests.audit.dispatch_kills --rounds 1000 --seed 1
    python -m loadtests.audit.dispatch_kills --rounds 50 --before-dispatch none
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
from gateway.accounting.audit.reports.calls import calls
from gateway.accounting.audit.verify import public_key, records, verify
from gateway.accounting.audit.writer.writer import AuditWriter
from gateway.accounting.metrics import Metrics
from gateway.core.reply import ReplyStream
from gateway.core.types import InferenceRequest, ServedModel, Zone
from loadtests.audit.killing import killed
from tests.unit.harness import Plan, Rig, ScriptedConnector, Site, request

_CALLERS = 24
_SEGMENT_BYTES = 256 * 1024
_LONGEST_S = 0.15  # from the first answer to the kill


@dataclass(slots=True)
class Outcome:
    rounds: int = 0
    seen: set[str] = field(default_factory=set)
    unfound: set[str] = field(default_factory=set)
    sent: int = 0  # calls of which only their intent is on record
    findings: tuple[str, ...] = ()


class ToldCloud(ScriptedConnector):
    """The id is out of this process before anything else happens."""

    def __init__(self, told: int, rng: Random) -> None:
        super().__init__()
        self._told, self._rng = told, rng

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        os.write(self._told, f"{request.id}\n".encode())
        self._plans = iter((Plan(open_s=self._rng.random() * 0.005),))  # type: ignore[assignment]
        return await super().open(request, served)


async def _serve(directory: Path, number: int, before_dispatch: bool, told: int) -> None:
    """Until it is killed."""
    keeping = JournalOptions(directory, "kills", segment_max_bytes=_SEGMENT_BYTES)
    writer = AuditWriter(Journal(keeping), Metrics(), checkpoint_s=0.05)
    writer.start(dict)
    rig = Rig(Site("cloud", Zone.CLOUD, ToldCloud(told, Random(number)), price_usd=0.001))
    rig.accounts.log, rig.accounts.before_dispatch = writer, before_dispatch

    async def caller() -> None:
        while True:
            await rig.call(request(budget_s=30.0))

    await asyncio.gather(*(caller() for _ in range(_CALLERS)))


def kills(directory: Path, rounds: int, seed: int, before_dispatch: bool = True) -> Outcome:
    rng, outcome = Random(seed), Outcome(rounds)
    for number in range(rounds):
        work = partial(_serve, directory, number, before_dispatch)
        told = killed(work, rng.random() * _LONGEST_S, once_it_told=True)
        outcome.seen.update(told.decode().splitlines())
    last = Journal(JournalOptions(directory, "kills"))
    last.open()  # as the next start would: what was torn is put aside
    last.started({})
    last.close()
    recorded = list(calls(records(directory)))
    outcome.unfound = outcome.seen - {one for call in recorded for one in call.sent_as}
    outcome.sent = sum(call.outcome == "sent" for call in recorded)
    outcome.findings = tuple(map(str, verify(directory, public_key(directory)).findings))
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtests.audit.dispatch_kills")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--before-dispatch", choices=("cloud", "none"), default="cloud")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        marks = given.before_dispatch == "cloud"
        found = kills(Path(scratch), given.rounds, given.seed, marks)
    print(
        f"{found.rounds} kills: the cloud saw {len(found.seen)} calls, "
        f"{len(found.unfound)} of them not on record; of {found.sent} only that they were sent"
    )
    for finding in found.findings:
        print(finding)
    return bool(found.unfound or found.findings)


if __name__ == "__main__":
    sys.exit(main())
