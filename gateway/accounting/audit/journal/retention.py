"""Segments that are older than records are kept for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.accounting.audit.chain import ChainHead
from gateway.accounting.audit.journal.disk import synced
from gateway.accounting.audit.journal.segments import JournalSegment, read_header, segments


@dataclass(frozen=True, slots=True)
class ExpiredSegments:
    """Whole segments, the oldest of their directory."""

    directory: Path
    segments: tuple[JournalSegment, ...]
    before: ChainHead  # the chain up to what is left

    def remove(self) -> None:
        for segment in self.segments:
            segment.path.unlink()
            segment.checkpoints.unlink(missing_ok=True)
        for part in self.directory.glob("*.torn"):
            if int(part.stem) < self.before.size:
                part.unlink()
        synced(self.directory)


def expired(directory: Path, until_s: float) -> ExpiredSegments | None:
    """Those whose records were all written until then (Unix time); never the newest."""
    left = segments(directory)
    gone: list[JournalSegment] = []
    while len(left) > 1 and read_header(left[1]).time_s <= until_s:
        gone.append(left.pop(0))
    if not gone:
        return None
    return ExpiredSegments(directory, tuple(gone), read_header(left[0]).before)
