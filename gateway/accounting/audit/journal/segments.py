"""How an audit lies in its directory.

000000000000.jsonl         records from that number on, the first of them a header
000000000000.checkpoints   signed notes; the first is of the tree before the header
000000000812.torn          the part of a line that a killed gateway left; record 812 tells of it
signing.pub                the public key, as signed notes write it
signing.key                the private one, unless the settings name another place
lock                       held by the gateway that writes
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.chain import ChainHead
from gateway.accounting.audit.merkle import Frontier

FORM: Final = 1  # of the lines; a header tells
LOCK, PUBLIC_KEY, SIGNING_KEY = "lock", "signing.pub", "signing.key"
_SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class JournalSegment:
    directory: Path
    first: int  # the number of its first record

    @property
    def path(self) -> Path:
        return self.directory / f"{self.first:012d}{_SUFFIX}"

    @property
    def checkpoints(self) -> Path:
        return self.directory / f"{self.first:012d}.checkpoints"


@dataclass(frozen=True, slots=True)
class Header:
    """What a segment says of itself, and of all that came before it."""

    chain: str
    origin: str
    time_s: float
    before: ChainHead  # the chain up to it

    def record(self, key: str) -> dict[str, Any]:
        return {
            "kind": "segment",
            "time": round(self.time_s, 3),
            "form": FORM,
            "chain": self.chain,
            "origin": self.origin,
            "key": key,
            "before": self.before.hash.hex(),
            "tree": [h.hex() for h in self.before.tree.hashes],
        }

    @classmethod
    def parse(cls, line: bytes) -> Header:
        """Raises ValueError."""
        record = json.loads(line)
        if not isinstance(record, dict) or record.get("kind") != "segment":
            raise ValueError("a segment begins with its header")
        if record.get("form") != FORM:
            raise ValueError(f"form {record.get('form')} is not known to this version")
        try:
            tree = Frontier(record["seq"], map(bytes.fromhex, record["tree"]))
            head = ChainHead(bytes.fromhex(record["before"]), tree)
            return cls(str(record["chain"]), str(record["origin"]), float(record["time"]), head)
        except (KeyError, TypeError) as exc:
            raise ValueError("its header is not whole") from exc


def worker_directory(directory: Path, number: int) -> Path:
    """Of one of several workers of a gateway: below that of the settings."""
    return directory / f"worker-{number}"


def chains(directory: Path) -> list[Path]:
    """The directories of all chains of one gateway: its own, and those of its workers. Where there
    is nothing yet, its own."""
    chains = [p for p in directory.glob("worker-*") if p.name.removeprefix("worker-").isdigit()]
    chains.sort(key=lambda path: int(path.name.removeprefix("worker-")))
    if not chains or any(directory.glob(f"*{_SUFFIX}")):
        chains.insert(0, directory)
    return chains


def segments(directory: Path) -> list[JournalSegment]:
    """In order. Raises AuditError where there is no directory."""
    try:
        names = [p.stem for p in directory.iterdir() if p.suffix == _SUFFIX]
    except OSError as exc:
        raise AuditError(f"{directory}: no audit can be read here: {exc.strerror}") from exc
    return [JournalSegment(directory, int(name)) for name in sorted(names) if name.isdigit()]


def torn_part(directory: Path, seq: int) -> Path:
    return directory / f"{seq:012d}.torn"


def read_lines(path: Path) -> Iterator[bytes]:
    """With their ends; the last may lack it."""
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as exc:
        raise AuditError(f"{path}: cannot be read: {exc.strerror}") from exc


def read_header(segment: JournalSegment) -> Header:
    line = next(read_lines(segment.path), b"")
    try:
        return Header.parse(line)
    except ValueError as exc:
        raise AuditError(f"{segment.path}, line 1: {exc}") from exc
