"""Whether an audit is as it was written: every line, their order, their number, and who signed.

What a chain shows by itself is that nothing in its middle was changed by somebody who did not write
the rest anew. What the signed checkpoints show is that it was not written anew either, and how long
it was when each was signed. A checkpoint kept elsewhere shows it for certain, because whoever can
change the records can remove the checkpoints beside them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.chain import BadLine, ChainHead
from gateway.accounting.audit.journal.disk import locked
from gateway.accounting.audit.journal.segments import (
    LOCK,
    PUBLIC_KEY,
    Header,
    JournalSegment,
    read_lines,
    segments,
    torn_part,
)
from gateway.accounting.audit.note import (
    Checkpoint,
    NoteInvalid,
    PublicKey,
    notes_in,
    parse_checkpoint,
)

_COMPARE = (
    "compare with a copy, or with a checkpoint that was exported; keep the directory as it is"
)


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """What does not fit, where, and what to do."""

    file: str
    line: int  # 0: of the whole file
    what: str
    do: str = _COMPARE

    def __str__(self) -> str:
        where = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{where}: {self.what}. {self.do[0].upper()}{self.do[1:]}."


@dataclass(slots=True)
class JournalVerification:
    """What was found out about one directory."""

    directory: Path
    key: PublicKey
    findings: list[AuditFinding] = field(default_factory=list)
    chain: str = ""
    first: int = 0  # record; more than 0 where old ones were removed
    head: ChainHead = field(default_factory=ChainHead.empty)
    signed: Checkpoint | None = None  # the largest that fits
    checkpoints: int = 0  # that fit
    outside: int = 0  # of them, given from elsewhere
    running: bool = False  # a gateway writes now
    stopped: bool = False  # the last record is that of an orderly end

    @property
    def holds(self) -> bool:
        return not self.findings

    @property
    def unsigned(self) -> int:
        """Records after the last checkpoint: chained, and nobody has signed how many there are."""
        return self.head.size - (self.signed.size if self.signed else self.first)


def public_key(directory: Path, given: str | None = None) -> PublicKey:
    """`given` is a key or the file of one; without it, the one beside the records."""
    path = Path(given) if given else directory / PUBLIC_KEY
    text = given if given and "+" in given and not path.exists() else None
    try:
        return PublicKey.parse(path.read_text() if text is None else text)
    except (OSError, NoteInvalid) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise AuditError(f"{path}: no public key: {why}") from exc


def verify(
    directory: Path, key: PublicKey, given: Sequence[tuple[str, str]] = ()
) -> JournalVerification:
    """`given` are texts with checkpoints that were kept elsewhere, each behind its name."""
    reading = _Reading(JournalVerification(directory, key))
    reading.take_checkpoints(given)
    reading.read()
    return reading.result


class _Reading:
    def __init__(self, result: JournalVerification) -> None:
        self.result = result
        self._at: dict[int, list[tuple[str, Checkpoint, bool]]] = {}  # by size
        self._pruned_before = 0
        self._last: dict[str, Any] = {}
        self._lost = False  # the place in the chain, since something did not fit
        self._segments = segments(result.directory)

    def _wrong(self, file: Path | str, line: int, what: str, do: str = _COMPARE) -> None:
        self.result.findings.append(AuditFinding(str(file), line, what, do))

    # Checkpoints

    def take_checkpoints(self, given: Sequence[tuple[str, str]]) -> None:
        for segment in self._segments:
            self._read_checkpoints(segment)
        for name, text in given:
            notes = notes_in(text)
            if not notes:
                self._wrong(name, 0, "no checkpoint is in it")
            self._take(name, notes, outside=True)

    def _read_checkpoints(self, segment: JournalSegment) -> None:
        path = segment.checkpoints
        try:
            text = path.read_text()
        except (OSError, ValueError):
            text = ""
        notes = notes_in(text)
        if "".join(f"\n{note}" for note in notes)[1:] != text and not self._running():
            self._wrong(path, 0, "it holds more, or less, than whole checkpoints")
        sizes = self._take(str(path), notes)
        if not sizes or sizes[0] != segment.first:
            self._wrong(path, 1, f"it does not begin with a checkpoint of {segment.first} records")
        if sizes != sorted(set(sizes)):
            self._wrong(path, 0, "its checkpoints are not in order")

    def _running(self) -> bool:
        return locked(self.result.directory / LOCK)

    def _take(self, name: str, notes: Sequence[str], outside: bool = False) -> list[int]:
        sizes = []
        for note in notes:
            try:
                checkpoint = parse_checkpoint(note, self.result.key)
            except NoteInvalid as exc:
                self._wrong(name, 0, str(exc))
                continue
            sizes.append(checkpoint.size)
            self._at.setdefault(checkpoint.size, []).append((name, checkpoint, outside))
        return sizes

    def _compare(self) -> None:
        """With every checkpoint of the size that the chain has now."""
        at = self._at.pop(self.result.head.size, None)
        if at is None:
            return
        root = self.result.head.tree.root()
        for name, checkpoint, outside in at:
            if checkpoint.root != root:  # guard: B4.rehashed-records
                self._wrong(
                    name, 0,
                    f"the first {checkpoint.size} records are not those that it was signed over",
                )  # fmt: skip
                continue
            self.result.signed = checkpoint
            self.result.checkpoints += 1
            self.result.outside += outside

    # Records

    def read(self) -> None:
        result = self.result
        result.running = self._running()
        if not self._segments:
            self._wrong(result.directory, 0, "there are no records")
        for number, segment in enumerate(self._segments):
            self._read(segment, first=number == 0, last=segment is self._segments[-1])
        result.stopped = self._last.get("kind") == "stop"
        self._match_cut()
        for size, at in sorted(self._at.items()):  # guard: B4.cut-end -> for size, at in ():
            for name, _, _ in at:
                self._left_over(name, size)

    def _read(self, segment: JournalSegment, first: bool, last: bool) -> None:
        line = next(read_lines(segment.path), b"")
        try:
            header = Header.parse(line)
        except ValueError as exc:
            self._break(segment, 1, str(exc))
            return
        if not self._follows(segment, header, first):
            return
        self._compare()
        for number, line in enumerate(read_lines(segment.path), 1):
            if not line.endswith(b"\n"):
                self._unfinished(segment, number, last)
                return
            try:
                self.result.head.follow(line[:-1])
                self._verify_line(segment, number, line)
            except ValueError as exc:
                self._break(segment, number, str(exc))
                return
            self._compare()

    def _break(self, segment: JournalSegment, line: int, what: str) -> None:
        self._wrong(segment.path, line, what)
        self._lost = True

    def _follows(self, segment: JournalSegment, header: Header, first: bool) -> bool:
        """A break is told once; the next segment is read from its own beginning on."""
        result, head = self.result, self.result.head
        if first:
            result.chain, result.first = header.chain, header.before.size
        same = (header.chain, header.origin) == (result.chain, result.key.name)
        if not same or header.before.size != segment.first:
            self._break(segment, 1, f"it is no part of the chain of {result.key.name}")
            return False
        if not first and not self._lost and header.before != head:  # guard: B4.segment-end
            self._wrong(
                segment.path, 1,
                f"the chain is at {head.size} records, and this goes on from {segment.first}",
            )  # fmt: skip
        result.head = header.before.copy()
        self._lost = False
        return True

    def _unfinished(self, segment: JournalSegment, number: int, last: bool) -> None:
        if last and self.result.running:
            return  # it is being written
        self._lost = True  # guard: B4.unended-line -> return
        self._wrong(
            segment.path, number, "the last line has no end: the gateway was killed, or it was cut",
            "start the gateway, which puts the part aside and records it, and verify again",
        )  # fmt: skip

    def _verify_line(self, segment: JournalSegment, number: int, line: bytes) -> None:
        """Only what the audit tells of itself; what calls say changes nothing here."""
        self._last = {}
        begins = b'{"seq":%d,"kind":"' % (self.result.head.size - 1)
        if line.startswith((begins + b'call"', begins + b'end"', begins + b'intent"')):
            return
        try:
            self._last = record = json.loads(line)
            if record["kind"] == "torn":
                self._torn(segment, number, record)
            elif record["kind"] == "pruned":
                self._pruned_before = max(self._pruned_before, int(record["records"]))
        except (KeyError, TypeError) as exc:
            raise BadLine("it is no record of the audit") from exc

    def _torn(self, segment: JournalSegment, number: int, record: dict[str, Any]) -> None:
        part = torn_part(segment.directory, record["seq"])
        data = part.read_bytes() if part.exists() else b""
        same = hashlib.sha256(data).hexdigest() == record["sha256"]
        if not same or len(data) != record["bytes"]:  # guard: B4.set-aside-match
            self._wrong(segment.path, number, f"{part.name}, of which it tells, is another or gone")

    # What is left

    def _match_cut(self) -> None:
        result = self.result
        if result.first > self._pruned_before:  # guard: B4.first-segment
            self._wrong(
                self._segments[0].path, 1,
                f"the records before {result.first} are missing, and no record tells that they "
                "were removed in time",
            )  # fmt: skip

    def _left_over(self, name: str, size: int) -> None:
        if size < self.result.first:
            return  # of records that have been removed since
        if size > self.result.head.size and not self._broken():
            self._wrong(
                name, 0,
                f"{size} records were there when it was signed, and {self.result.head.size} are "
                "here: the end was cut off",
            )  # fmt: skip
        elif size > self.result.head.size or self._broken():
            self._wrong(name, 0, f"its {size} records cannot be compared with what is here")

    def _broken(self) -> bool:
        return self._lost or any(finding.line > 1 for finding in self.result.findings)


def records(directory: Path) -> Iterator[dict[str, Any]]:
    """Of one audit, each checked against the one before. Raises AuditError at what does not fit."""
    head: ChainHead | None = None
    running = locked(directory / LOCK)
    for segment in segments(directory):
        for number, line in enumerate(read_lines(segment.path), 1):
            try:
                if not line.endswith(b"\n"):
                    if running:
                        break
                    raise BadLine("the last line has no end")
                if head is None:
                    head = Header.parse(line).before.copy()
                head.follow(line[:-1])  # guard: B5.chain-break
            except ValueError as exc:
                raise AuditError(
                    f"{segment.path}, line {number}: {exc}. `spillway audit verify` says more"
                ) from None
            yield json.loads(line)
