"""Compiled automata on disk, for the next start: in the user's cache directory, readable by nobody
else, or beside the installation, where whoever installed it put them. Hyperscan trusts the bytes
that it loads, so a file counts only when this user or root wrote it, no other can have changed it,
and its digest is right. Anything else is as if there were none."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

_MAX_BYTES = 256 * 1024 * 1024
_DIGEST_BYTES = hashlib.sha256().digest_size
_MOST = 8
"""Files of a kind, which is what their names have before the first dash."""
_BELOW = ("spillway", "patterns")
_ROOT = 0
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class BlobStore:
    """Named blobs in one private directory; `None` as directory keeps nothing. What is not there is
    looked for in `installed`, which is only read."""

    def __init__(self, directory: Path | None, installed: Path | None = None) -> None:
        self.directory = directory
        self._installed = installed

    @classmethod
    def for_user(cls) -> BlobStore:
        """Below XDG_CACHE_HOME, or ~/.cache (XDG Base Directory Specification 0.8); and below
        share/ of the environment that runs this, as images have it."""
        installed = Path(sys.prefix, "share", *_BELOW)
        root = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(root):
            home = os.path.expanduser("~")
            if not os.path.isabs(home):
                return cls(None, installed)
            root = os.path.join(home, ".cache")
        return cls(Path(root, *_BELOW), installed)

    def read(self, name: str) -> bytes | None:
        for directory in (self.directory, self._installed):
            blob = None if directory is None else _read(directory, name)
            if blob is not None:
                return blob
        return None

    def each(self, beginning: str) -> Iterator[bytes]:
        """All whose names begin so, those first that were used least lately."""
        for directory in (self.directory, self._installed):
            for path in _by_use(directory, beginning):
                if (blob := _read(path.parent, path.name)) is not None:
                    yield blob

    def write(self, name: str, blob: bytes) -> bool:
        """Whole or not at all. False when it cannot be kept: the next start builds again."""
        try:
            if not self._made():
                return False
            self._replace(name, _digest(name, blob) + blob)
            self._forget_oldest()
        except OSError:
            return False
        return True

    def writable(self) -> bool:
        """Whether something small could be kept now."""
        try:
            if not self._made():
                return False
            with tempfile.TemporaryFile(dir=self.directory):
                return True
        except OSError:
            return False

    def _made(self) -> bool:
        if self.directory is None:
            return False
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _private(self.directory, stat.S_ISDIR)

    def _replace(self, name: str, content: bytes) -> None:
        assert self.directory is not None
        descriptor, path = tempfile.mkstemp(dir=self.directory, prefix=".new-")  # mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.replace(path, self.directory / name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise

    def _forget_oldest(self) -> None:
        files: dict[str, int] = {}
        for path in reversed(_by_use(self.directory)):
            kind, dash, _ = path.name.partition("-")
            kind = kind if dash else ""
            files[kind] = files.get(kind, 0) + 1
            if files[kind] > _MOST:
                path.unlink(missing_ok=True)


def _by_use(directory: Path | None, beginning: str = "") -> list[Path]:
    """The last one was used last."""
    try:
        files = [] if directory is None else list(directory.glob(f"{beginning}*"))
        return sorted(files, key=lambda path: path.lstat().st_mtime)
    except OSError:  # a file that another process has taken away
        return []


def _read(directory: Path, name: str) -> bytes | None:
    if not _private(directory, stat.S_ISDIR):
        return None
    try:
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not _is_ours(os.fstat(descriptor), stat.S_ISREG):
            return None
        digest, blob = file.read(_DIGEST_BYTES), file.read(_MAX_BYTES)
        with contextlib.suppress(OSError):  # not ours to touch
            os.utime(descriptor)  # what is used is not the oldest
    return blob if digest == _digest(name, blob) else None


def _private(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return _is_ours(path.lstat(), kind)
    except OSError:
        return False


def _is_ours(status: os.stat_result, kind: Callable[[int], bool]) -> bool:
    return bool(
        kind(status.st_mode)
        and status.st_uid in (os.geteuid(), _ROOT)
        and not status.st_mode & _OTHERS_MAY_WRITE
    )


def _digest(name: str, blob: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0")
    digest.update(blob)
    return digest.digest()
