"""Audits on a real disk, of calls that never were; time is the test's."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from gateway.accounting.audit.journal.journal import Journal, JournalOptions
from gateway.accounting.audit.journal.segments import segments
from gateway.accounting.audit.journal.spool import Spool
from gateway.accounting.audit.note import PublicKey, notes_in
from gateway.accounting.audit.verify import JournalVerification, public_key, verify

JULY_S = 1_782_864_000.0  # 2026-07-01
DAY_S = 86_400.0
SMALL = 4096  # bytes in a segment: four or five records


class Wall:
    def __init__(self, now_s: float = JULY_S) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def call(number: int, **changes: Any) -> dict[str, Any]:
    """The record of a call, as an account writes it."""
    attempt = {
        "endpoint": "gpu", "zone": "onprem", "zones": ["onprem"], "result": "served",
        "queued_s": 0.0, "took_s": 0.1, "price_usd": 0.0,
    }  # fmt: skip
    found = {
        "kind": "call", "time": JULY_S + number, "id": f"call-{number}", "tenant": "clinic",
        "model": "chat", "sensitivity": "restricted", "zones": ["onprem"], "reason": "restricted",
        "attempts": [attempt], "policy": "abc123", "outcome": "served", "end_reason": "restricted",
    }  # fmt: skip
    return {**found, **changes}


def in_cloud() -> list[dict[str, Any]]:
    (attempt,) = call(0)["attempts"]
    return [{**attempt, "endpoint": "provider", "zone": "cloud", "zones": ["cloud", "onprem"]}]


def journal(directory: Path, wall: Wall | None = None, **changes: Any) -> Journal:
    spool: Spool | None = changes.pop("spool", None)
    keeping = dataclasses.replace(JournalOptions(directory, "test"), **changes)
    found = Journal(keeping, spool, wall or Wall())
    found.open()
    found.started({"version": "0", "policy": "abc123"})
    return found


@contextmanager
def written(directory: Path, wall: Wall | None = None, **changes: Any) -> Iterator[Journal]:
    """Closed in an orderly way."""
    found = journal(directory, wall, **changes)
    yield found
    found.close()


def put(into: Journal, *records: dict[str, Any]) -> None:
    for record in records:
        into.commit([orjson.dumps(record)])
        into.tend()


def audit(directory: Path, calls: int = 12, **changes: Any) -> Path:
    """One with several segments."""
    with written(directory, segment_max_bytes=SMALL, **changes) as found:
        put(found, *map(call, range(calls)))
    return directory


def key_of(directory: Path) -> PublicKey:
    return public_key(directory)


def checked(directory: Path, *given: str) -> JournalVerification:
    return verify(directory, key_of(directory), [("elsewhere", text) for text in given])


def lines(directory: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for segment in segments(directory)
        for line in segment.path.read_bytes().splitlines()
    ]


def kinds(directory: Path) -> list[str]:
    return [line["kind"] for line in lines(directory)]


def newest_note(directory: Path) -> str:
    texts: Sequence[Path] = sorted(directory.glob("*.checkpoints"))
    return notes_in(texts[-1].read_text())[-1]
