"""One chain on one disk. What is appended is durable when `commit` returns. One thread at a time.

A chain that is there already goes on where it was. The part of a line that a killed gateway left
is put aside and recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.chain import ChainHead
from gateway.accounting.audit.journal.checkpoints import CheckpointSigner
from gateway.accounting.audit.journal.disk import DurableFile, Lock, written_whole
from gateway.accounting.audit.journal.resume import resume, unwritten
from gateway.accounting.audit.journal.retention import expired
from gateway.accounting.audit.journal.segments import (
    LOCK,
    Header,
    JournalSegment,
    read_header,
    segments,
    torn_part,
)
from gateway.accounting.audit.journal.spool import Spool
from gateway.accounting.audit.journal.spooled_file import SpooledFile
from gateway.core import ambient

_DAY_S = 86_400.0
_CHAIN_BYTES = 8
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
                existing = segments(directory)
                if existing:
                    self._continue(existing[-1])
                else:
                    self._begin()
            except BaseException:
                self._lock.release()
                raise
        except OSError as exc:
            raise AuditError(f"{directory}: the audit cannot be written: {exc.strerror}") from exc

    def _begin(self) -> None:
        keeping = self._keeping
        self.chain = ambient.random_hex(_CHAIN_BYTES)
        self.origin = f"{keeping.origin}/{self.chain}"
        self.signer = CheckpointSigner(keeping.directory, keeping.signing_key, self.origin)
        self._new_segment()

    def _continue(self, segment: JournalSegment) -> None:
        keeping = self._keeping
        self._segment, self._header = segment, read_header(segment)
        self.chain, self.origin = self._header.chain, self._header.origin
        if not self.origin.startswith(f"{keeping.origin}/"):
            raise AuditError(
                f"{segment.path}: an audit of {self.origin}, and audit.origin is "
                f"{keeping.origin}: give this gateway an audit.directory of its own"
            )
        self.signer = CheckpointSigner(keeping.directory, keeping.signing_key, self.origin)
        resumed = resume(segment, self._header, self.signer.public)
        self._head, self.signed, self.resumed_s = resumed.head, resumed.signed, resumed.last_s
        self._file = SpooledFile(segment.path, self.chain, self._spool)
        self._notes = DurableFile(segment.checkpoints)
        left = self._file.left()
        if resumed.rest:
            if not left.startswith(resumed.rest):
                # Durable before the file is cut, so that the part is never lost, whoever is killed.
                written_whole(self._torn_part, resumed.rest)  # guard: B4.torn-line
            self._file.file.cut(resumed.good_bytes)
        if left:  # guard: B4.spool-takeover
            lines, self._head = unwritten(left, self._head, self.chain)
            self._file.take_over(lines)

    def started(self, fields: Mapping[str, Any]) -> None:
        """Record the start, and the part of a line that was put aside: also where the gateway was
        killed between putting it aside and recording it. Raises AuditError."""
        try:
            if self._torn_part.exists():
                rest = self._torn_part.read_bytes()
                self.note("torn", bytes=len(rest), sha256=hashlib.sha256(rest).hexdigest())
            self.note("start", **fields)
        except OSError as exc:
            where = self._keeping.directory
            raise AuditError(f"{where}: the audit cannot be written: {exc.strerror}") from exc

    @property
    def _torn_part(self) -> Path:
        return torn_part(self._keeping.directory, self.size)

    # Appending

    @property
    def size(self) -> int:
        return self._head.tree.size

    @property
    def full(self) -> bool:
        """A new segment is due, for `tend` to begin."""
        return self._file.file.size >= self._keeping.segment_max_bytes

    @property
    def spooled(self) -> int:
        """Records that are not on the disk of the audit."""
        return self._file.spooled

    def seal(self, records: Sequence[bytes]) -> Sealed:
        """`records` are JSON objects. Nothing is kept yet, and no disk is asked."""
        head = self._head.copy()
        return Sealed(head.add(records), head)

    def keep(self, sealed: Sealed) -> None:
        """What was sealed since the last one was kept. Raises OSError: none of it is in the chain
        then."""
        self._file.append(sealed.lines)
        self._head = sealed.head

    def commit(self, records: Sequence[bytes]) -> None:
        """Raises OSError: none of them is in the chain then."""
        self.keep(self.seal(records))

    def note(self, kind: str, **fields: Any) -> None:
        """A record of the audit's own."""
        record = {"kind": kind, "time": round(self._wall_s(), 3), **fields}
        self.commit([orjson.dumps(record)])

    def note_gap(self, gap: Mapping[str, Any]) -> None:
        """That records are missing. Raises OSError also where there is room for that record alone:
        a page may have room for one of the audit's own, and for no call's."""
        self._file.check_room()  # guard: B4.chain-room
        self.note("gap", **gap)  # guard: B4.gap-record -> self.note('start')

    # Checkpoints, segments, retention

    def tend(self) -> None:
        """A new segment where one is due, and no records kept beyond their time. Raises OSError."""
        # guard: B4.spool-room minus 3
        if self.spooled and not (self._file.has_room() and self._file.drain()):
            return
        day = self._wall_s() // _DAY_S
        older = day > self._header.time_s // _DAY_S and self.size > self._segment.first + _NO_NEWS
        if older or self.full:
            self.checkpoint()
            file, notes = self._file, self._notes
            self._new_segment()
            file.close()
            notes.close()
            self._remove_expired()

    def checkpoint(self) -> None:
        """Signed, of all that is durable, if that is more than the last one was of."""
        if self.spooled or self.size <= self.signed:
            return
        self._notes.append(b"\n" * bool(self._notes.size) + self.signer.note(self._head))
        self.signed = self.size

    def _new_segment(self) -> None:
        """Its checkpoints are there before it is: of every segment it is known what came before."""
        segment = JournalSegment(self._keeping.directory, self.size)
        header = Header(self.chain, self.origin, self._wall_s(), self._head.copy())
        head = self._head.copy()
        line = head.add([orjson.dumps(header.record(str(self.signer.public)))])
        written_whole(segment.checkpoints, self.signer.note(self._head))
        written_whole(segment.path, line)
        self._segment, self._header, self._head = segment, header, head
        self._file = SpooledFile(segment.path, self.chain, self._spool)
        self._notes = DurableFile(segment.checkpoints)

    def _remove_expired(self) -> None:
        """Once the cut is recorded and signed."""
        keeping = self._keeping
        if keeping.retain_days is None:
            return
        gone = expired(keeping.directory, self._wall_s() - keeping.retain_days * _DAY_S)
        if gone is not None:
            before = gone.before
            # guard: B4.removal-record
            self.note("pruned", records=before.size, before=before.hash.hex())
            self.checkpoint()
            gone.remove()

    def close(self) -> None:
        try:
            if self.spooled:
                self._file.drain()
            self.note("stop")
            self.checkpoint()
        finally:
            self._file.close()
            self._notes.close()
            self._lock.release()
