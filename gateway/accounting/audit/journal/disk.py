"""Files whose every append is durable when it returns, and undone when it fails."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from gateway.accounting.audit import AuditError


class DurableFile:
    """A file to append to. After a failed write or sync nobody knows what the disk has of it, so it
    is cut back to what was durable before anything else is written (a second sync of the same pages
    may report success although they are lost). A write returns when it is durable (O_DSYNC): of two
    system calls each would give the interpreter's lock away, and wait to have it back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = _opened(path)
        self.size = os.fstat(self._fd).st_size
        self._unsure = False

    def append(self, data: bytes) -> None:
        """Raises OSError; nothing of `data` is kept then."""
        try:
            if self._unsure:  # guard: B4.torn-write
                self._cut_back()
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            self._unsure = True
            with contextlib.suppress(OSError):  # the next append tries again
                self._cut_back()
            raise
        self.size += len(data)

    def cut(self, size: int) -> None:
        """To what is known to be good."""
        self.size = size
        self._cut_back()

    def _cut_back(self) -> None:
        file = _opened(self.path)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = file
        os.ftruncate(self._fd, self.size)
        os.fdatasync(self._fd)
        self._unsure = False

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _opened(path: Path) -> int:
    # guard: B4.synced-append -> flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_DSYNC
    return os.open(path, flags, 0o600)


def written_whole(path: Path, data: bytes) -> None:
    """The file is there with all of `data`, or not at all."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    file = DurableFile(part)
    try:
        file.append(data)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    finally:
        file.close()
    part.rename(path)
    synced(path.parent)


def synced(directory: Path) -> None:
    """What was created, renamed or removed there is so after a loss of power, too."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


ROOM_BYTES: Final = 64 * 1024
"""What a disk that was full must take before it counts as well again: some hundred records."""
_ROOM = "room"
_NOT_RESERVED = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})


def check_room(directory: Path, size: int = ROOM_BYTES) -> None:
    """Raises OSError unless the file system takes so many bytes more. They are reserved in a file
    that is removed again: a figure of free space knows no quota and no limit."""
    path = directory / _ROOM
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as exc:
            if exc.errno not in _NOT_RESERVED:
                raise
            os.write(fd, bytes(size))
            os.fsync(fd)
    finally:
        os.close(fd)
        with contextlib.suppress(OSError):
            path.unlink()


class Lock:
    """Of one directory, for one gateway; the system lets go of it when the process ends."""

    def __init__(self, path: Path) -> None:
        self._fd = _opened(path)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # guard: B4.directory-lock
        except OSError as exc:
            os.close(self._fd)
            if exc.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise AuditError(
                f"{path.parent}: another gateway writes its audit here; each needs its own "
                "audit.directory"
            ) from None

    def release(self) -> None:
        os.close(self._fd)


def locked(path: Path) -> bool:
    """Whether a gateway runs that has the lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
