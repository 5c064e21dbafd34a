"""One chain on one disk. What is appended is durable when `commit` returns. One thread at a time.

A chain that is there already goes on where it was. The part of a line that a killed gateway left
is put aside and recorded. Whatever else does not fit is not built upon: the gateway does not start
then, because a chain that goes on over a break would hide it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.chain import BadLine, ChainHead
from gateway.accounting.audit.disk import DurableFile, Lock, check_room, synced, written_whole
from gateway.accounting.audit.merkle import EMPTY_ROOT
from gateway.accounting.audit.note import (
    Checkpoint,
    NoteInvalid,
    SigningKey,
    notes_in,
    parse_checkpoint,
)
from gateway.accounting.audit.segments import (
    LOCK,
    PUBLIC_KEY,
    SIGNING_KEY,
    Header,
    JournalSegment,
    read_header,
    read_lines,
    segments,
    torn_part,
)
from gateway.accounting.audit.spool import Spool
from gateway.core import ambient

_DAY_S = 86_400.0
_CHAIN_BYTES = 8
_KEEP = (
    "The audit was changed. Keep the directory as evidence (`spillway audit verify` says more), "
    "and give the gateway another audit.directory"
)
_TIME = re.compile(rb'"time":([0-9.]+)')
_NO_NEWS = 2  # records of the audit itself that alone are worth no checkpoint


class Sealed:
    """Records in the form that the chain has for them, which ends with them once they are kept."""

    __slots__ = ("head", "lines")

    def __init__(self, lines: bytes, head: ChainHead) -> None:
        self.lines = lines
        self.head = head


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """How a journal is kept."""

    directory: Path
    origin: str  # of a new chain; its id is put behind it
    signing_key: Path | None = None
    segment_max_bytes: int = 64 * 1024 * 1024
    retain_days: float | None = None  # None: for ever


def _line_time_s(line: bytes) -> float:
    """Of a record; 0 where it has none. Not parsed: a segment has 100,000 of them."""
    match = _TIME.search(line)
    return float(match[1]) if match else 0.0


class Journal:
    def __init__(
        self,
        keeping: JournalOptions,
        spool: Spool | None = None,
        wall_s: Callable[[], float] = ambient.wall_s,
    ) -> None:
        self._keeping = keeping
        self._spool = spool
        self._wall_s = wall_s
        self._head = ChainHead.empty()
        self.new_key = False
        self.resumed_s = 0.0  # when the last record was written that was there before
        self.signed = 0  # the size of the last checkpoint

    # Opening

    def open(self) -> None:
        """Raises AuditError."""
        directory = self._keeping.directory
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = Lock(directory / LOCK)
            try:
                self._resume()
            except BaseException:
                self._lock.release()
                raise
        except OSError as exc:
            raise AuditError(f"{directory}: the audit cannot be written: {exc.strerror}") from exc

    def _resume(self) -> None:
        existing = segments(self._keeping.directory)
        if existing:
            self._continue(existing[-1])
        else:
            self._begin()

    def _begin(self) -> None:
        self.chain = ambient.random_hex(_CHAIN_BYTES)
        self.origin = f"{self._keeping.origin}/{self.chain}"
        self._take_key()
        self._new_segment()

    def _continue(self, segment: JournalSegment) -> None:
        self._segment, self._header = segment, read_header(segment)
        self.chain, self.origin = self._header.chain, self._header.origin
        if not self.origin.startswith(f"{self._keeping.origin}/"):
            raise AuditError(
                f"{segment.path}: an audit of {self.origin}, and audit.origin is "
                f"{self._keeping.origin}: give this gateway an audit.directory of its own"
            )
        self._take_key()
        last = self._last_checkpoint(segment)
        good, rest = self._read(segment, last)
        if last.size > self.size:  # guard: B4.short-chain
            raise AuditError(
                f"{segment.path}: {last.size - self.size} records that were there when "
                f"{segment.checkpoints.name} was signed are missing at its end. {_KEEP}"
            )
        self.signed = last.size
        self._file = DurableFile(segment.path)
        self._notes = DurableFile(segment.checkpoints)
        left = b"" if self._spool is None else self._spool.left(self.chain)
        if rest:
            if not left.startswith(rest):
                self._put_aside(rest)  # guard: B4.torn-line
            self._file.cut(good)
        if left:
            self._take_over(left)  # guard: B4.spool-takeover

    def _last_checkpoint(self, segment: JournalSegment) -> Checkpoint:
        text = segment.checkpoints.read_text() if segment.checkpoints.exists() else ""
        for note in notes_in(text)[-1:]:
            try:
                return parse_checkpoint(note, self.key.public)
            except NoteInvalid as exc:
                raise AuditError(f"{segment.checkpoints}: {exc}. {_KEEP}") from None
        return Checkpoint(self.origin, 0, EMPTY_ROOT)

    def _read(self, segment: JournalSegment, last: Checkpoint) -> tuple[int, bytes]:
        """How many bytes of it are good, and the rest: the beginning of a line, or nothing."""
        self._head = self._header.before.copy()
        good = 0
        for number, line in enumerate(read_lines(segment.path), 1):
            if not line.endswith(b"\n"):
                return good, line
            try:
                # guard: B4.edited-chain -> self._head.tree.add(line[:32])
                self._head.follow(line[:-1])
            except BadLine as exc:
                raise AuditError(f"{segment.path}, line {number}: {exc}. {_KEEP}") from None
            good += len(line)
            self.resumed_s = max(self.resumed_s, _line_time_s(line))
            # guard: B4.rehashed-chain
            if self.size == last.size and self._head.tree.root() != last.root:
                raise AuditError(
                    f"{segment.path}: the records up to line {number} are not those that "
                    f"{segment.checkpoints.name} was signed over. {_KEEP}"
                )
        return good, b""

    def _put_aside(self, rest: bytes) -> None:
        """Durable before the file is cut, so that the part is never lost, whoever is killed."""
        written_whole(torn_part(self._keeping.directory, self._head.size), rest)

    def _note_torn(self) -> None:
        """Also where the gateway was killed between putting a part aside and recording it."""
        part = torn_part(self._keeping.directory, self._head.size)
        if part.exists():
            rest = part.read_bytes()
            self.note("torn", bytes=len(rest), sha256=hashlib.sha256(rest).hexdigest())

    def _take_over(self, left: bytes) -> None:
        """What was spooled and is not here yet. The last line may lack its end: nobody was told
        that it is durable."""
        assert self._spool is not None
        lines = [
            line
            for line in left.splitlines(keepends=True)
            if line.endswith(b"\n") and json.loads(line)["seq"] >= self._head.size
        ]
        head = self._head.copy()
        try:
            for line in lines:
                head.follow(line[:-1])
        except BadLine as exc:
            raise AuditError(f"the spool of chain {self.chain} does not go on it: {exc}") from None
        self._head = head
        self._spool.hold(b"".join(lines))
        self._drained()

    def _take_key(self) -> None:
        path = self._keeping.signing_key or self._keeping.directory / SIGNING_KEY
        self.new_key = not path.exists()
        if self.new_key:
            path.parent.mkdir(parents=True, exist_ok=True)
        self.key = SigningKey.from_file(path, self.origin)
        public = self._keeping.directory / PUBLIC_KEY
        if not public.exists() or public.read_text().strip() != str(self.key.public):
            written_whole(public, f"{self.key.public}\n".encode())

    # Appending

    @property
    def size(self) -> int:
        return self._head.size

    @property
    def full(self) -> bool:
        """A new segment is due, for `tend` to begin."""
        return self._file.size >= self._keeping.segment_max_bytes

    @property
    def spooled(self) -> int:
        """Records that are not on the disk of the audit."""
        return 0 if self._spool is None else self._spool.records

    def seal(self, records: Sequence[bytes]) -> Sealed:
        """`records` are JSON objects. Nothing is kept yet, and no disk is asked."""
        head = self._head.copy()
        return Sealed(head.add(records), head)

    def keep(self, sealed: Sealed) -> None:
        """What was sealed since the last one was kept. Raises OSError: none of it is in the chain
        then."""
        lines = sealed.lines
        if self.spooled:  # until the disk has room again, as `tend` finds
            self._put_in_spool(lines)
        else:
            try:
                self._file.append(lines)
            except OSError:
                if self._spool is None:
                    raise
                self._put_in_spool(lines)
        self._head = sealed.head

    def commit(self, records: Sequence[bytes]) -> None:
        """Raises OSError: none of them is in the chain then."""
        self.keep(self.seal(records))

    def check_room(self) -> None:
        """Raises OSError unless more than a record can be kept: a page may have room for one of the
        audit's own, and for no call's."""
        try:
            check_room(self._keeping.directory)
        except OSError:
            if self._spool is None:
                raise
            self._spool.check_room()  # guard: B4.full-spool-room

    def _has_room(self) -> bool:
        try:
            check_room(self._keeping.directory)
        except OSError:
            return False
        return True

    def _put_in_spool(self, lines: bytes) -> None:
        assert self._spool is not None
        self._spool.put(self.chain, lines)

    def _drained(self) -> bool:
        assert self._spool is not None
        try:
            self._file.append(self._spool.held())
        except OSError:
            return False
        self._spool.clear(self.chain)
        return True

    def note(self, kind: str, **fields: Any) -> None:
        """A record of the audit's own."""
        record = {"kind": kind, "time": round(self._wall_s(), 3), **fields}
        self.commit([orjson.dumps(record)])

    def started(self, fields: Mapping[str, Any]) -> None:
        try:
            self._note_torn()
            self.note("start", **fields)
        except OSError as exc:
            where = self._keeping.directory
            raise AuditError(f"{where}: the audit cannot be written: {exc.strerror}") from exc

    # Checkpoints, segments, retention

    def tend(self) -> None:
        """A new segment where one is due, and no records kept beyond their time. Raises OSError."""
        # guard: B4.spool-room minus 3
        if self.spooled and not (self._has_room() and self._drained()):
            return
        day = self._wall_s() // _DAY_S
        older = day > self._header.time_s // _DAY_S and self.size > self._segment.first + _NO_NEWS
        if older or self.full:
            self.checkpoint()
            before = (self._file, self._notes)
            self._new_segment()
            for file in before:
                file.close()
            self._prune()

    def checkpoint(self) -> None:
        """Signed, of all that is durable, if that is more than the last one was of."""
        if self.spooled or self.size <= self.signed:
            return
        self._notes.append(b"\n" * bool(self._notes.size) + self._head_note())
        self.signed = self.size

    def _head_note(self) -> bytes:
        root = self._head.tree.root()
        return self.key.sign(Checkpoint(self.origin, self.size, root).text).encode()

    def _new_segment(self) -> None:
        """Its checkpoints are there before it is: of every segment it is known what came before."""
        segment = JournalSegment(self._keeping.directory, self.size)
        header = Header(self.chain, self.origin, self._wall_s(), self._head.copy())
        head = self._head.copy()
        line = head.add([orjson.dumps(header.record(str(self.key.public)))])
        written_whole(segment.checkpoints, self._head_note())
        written_whole(segment.path, line)
        self._segment, self._header, self._head = segment, header, head
        self._file, self._notes = DurableFile(segment.path), DurableFile(segment.checkpoints)

    def _prune(self) -> None:
        """Whole segments, the oldest first, once the cut is recorded and signed."""
        if self._keeping.retain_days is None:
            return
        until_s = self._wall_s() - self._keeping.retain_days * _DAY_S
        existing = segments(self._keeping.directory)
        gone: list[JournalSegment] = []
        while len(existing) > 1 and read_header(existing[1]).time_s <= until_s:
            gone.append(existing.pop(0))
        if not gone:
            return
        cut = read_header(existing[0])
        # guard: B4.removal-record
        self.note("pruned", records=cut.before.size, before=cut.before.hash.hex())
        self.checkpoint()
        for segment in gone:
            segment.path.unlink()
            segment.checkpoints.unlink(missing_ok=True)
        for part in self._keeping.directory.glob("*.torn"):
            if int(part.stem) < existing[0].first:
                part.unlink()
        synced(self._keeping.directory)

    def close(self) -> None:
        try:
            if self.spooled:
                self._drained()
            self.note("stop")
            self.checkpoint()
        finally:
            self._file.close()
            self._notes.close()
            self._lock.release()
