"""The newest segment's file; while its disk takes no lines, the chain's spool has them."""

from __future__ import annotations

from pathlib import Path

from gateway.accounting.audit.journal.disk import DurableFile, check_room
from gateway.accounting.audit.journal.spool import Spool


class SpooledFile:
    """Without a spool, an append that fails is kept nowhere."""

    def __init__(self, path: Path, chain: str, spool: Spool | None) -> None:
        self.file = DurableFile(path)
        self._chain = chain
        self._spool = spool

    @property
    def spooled(self) -> int:
        """Records that are not in the file."""
        return 0 if self._spool is None else self._spool.records

    def append(self, lines: bytes) -> None:
        """Durable when it returns. Raises OSError: nothing of `lines` is kept then."""
        if self._spool is None:
            self.file.append(lines)
        elif self.spooled:  # until the disk has room again, as `tend` finds
            self._spool.put(self._chain, lines)
        else:
            try:
                self.file.append(lines)
            except OSError:
                self._spool.put(self._chain, lines)

    def drain(self) -> bool:
        """Append what is spooled. False where the disk does not take it."""
        if self._spool is None:
            return True
        try:
            self.file.append(self._spool.held())
        except OSError:
            return False
        self._spool.clear(self._chain)
        return True

    def take_over(self, lines: bytes) -> None:
        """What a killed gateway had spooled, and the file lacks."""
        if self._spool is not None:
            self._spool.hold(lines)
            self.drain()

    def left(self) -> bytes:
        """What a killed gateway had spooled of this chain."""
        return b"" if self._spool is None else self._spool.left(self._chain)

    def check_room(self) -> None:
        """Raises OSError unless more than a record can be kept: a page may have room for one of the
        audit's own, and for no call's."""
        try:
            check_room(self.file.path.parent)
        except OSError:
            if self._spool is None:
                raise
            self._spool.check_room()  # guard: B4.full-spool-room

    def has_room(self) -> bool:
        """Whether the disk takes more than a record."""
        try:
            check_room(self.file.path.parent)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self.file.close()
