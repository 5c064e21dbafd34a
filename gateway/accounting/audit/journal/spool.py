"""Where records go that the disk of the audit does not take, until it does again."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from gateway.accounting.audit.journal.disk import ROOM_BYTES, DurableFile, check_room

_SHARE = 4  # of a small spool: how much must be free before it takes records again


class Spool:
    """Bounded. With a directory, on another disk best, its records survive the gateway; in memory
    alone they do not."""

    def __init__(self, max_bytes: int, directory: Path | None = None) -> None:
        self._max_bytes = max_bytes
        self._directory = directory
        self._file: DurableFile | None = None
        self._held: list[bytes] = []
        self.bytes = 0
        self.records = 0

    def _path(self, chain: str) -> Path | None:
        return None if self._directory is None else self._directory / f"{chain}.spool"

    def left(self, chain: str) -> bytes:
        """What a gateway that was killed had spooled of this chain."""
        path = self._path(chain)
        with contextlib.suppress(FileNotFoundError):
            return path.read_bytes() if path else b""
        return b""

    def put(self, chain: str, lines: bytes) -> None:
        """Raises OSError when it is full, or its own disk fails."""
        if self.bytes + len(lines) > self._max_bytes:  # guard: B4.spool-bound
            raise _full()
        if (path := self._path(chain)) is not None:
            if self._file is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = DurableFile(path)
            self._file.append(lines)
        self.hold(lines)

    def check_room(self) -> None:
        """Raises OSError unless it takes more than a record."""
        needed = min(ROOM_BYTES, self._max_bytes // _SHARE)
        if self.bytes + needed > self._max_bytes:
            raise _full()
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True)
            check_room(self._directory)

    def hold(self, lines: bytes) -> None:
        """What is in its file already."""
        self._held.append(lines)
        self.bytes += len(lines)
        self.records += lines.count(b"\n")

    def held(self) -> bytes:
        return b"".join(self._held)

    def clear(self, chain: str) -> None:
        self._held.clear()
        self.bytes = self.records = 0
        if self._file is not None:
            self._file.close()
            self._file = None
        if (path := self._path(chain)) is not None:
            path.unlink(missing_ok=True)


def _full() -> OSError:
    return OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}, nor in the spool")
