"""A registry that is a directory: a disk, or a share that several machines mount.

`<root>/<model>/<version>/`, written beside and renamed into place. `<root>/<model>/versions.json`
lists the versions for whoever reads the same directory through a web server.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gateway.core import ambient
from gateway.models.registry import (
    MANIFEST,
    NotThere,
    RegistryDenied,
    RegistryError,
    RegistryUnreachable,
    Sent,
    UnfitVersion,
    VersionExists,
)

INDEX = "versions.json"
_PIECE = 1 << 20
_UNFINISHED = ".push-"


class DirectoryRegistry:
    def __init__(self, root: Path) -> None:
        self._root = root

    def close(self) -> None:
        """Nothing is held."""

    def versions(self, model: str) -> list[int]:
        with _reporting(self._root):
            if not self._root.is_dir():
                raise RegistryUnreachable(f"{self._root} is not there: is the share mounted?")
            return _versions(self._root / model)

    def alias(self, model: str, alias: str) -> int:
        raise NotThere("a directory has no aliases; name the version's number")

    def listing(self, model: str, version: int) -> frozenset[str] | None:
        home = self._home(model, version)
        with _reporting(home):
            return frozenset(
                p.relative_to(home).as_posix() for p in home.rglob("*") if not p.is_dir()
            )

    @contextmanager
    def read(self, model: str, version: int, path: str, start: int) -> Iterator[Iterator[bytes]]:
        home = self._home(model, version)
        with _reporting(home / path):
            if not (home / path).resolve().is_relative_to(home.resolve()):  # guard: R3.symlink
                raise UnfitVersion(
                    f"{home / path} leads out of the version; do not use this registry"
                )
            file = (home / path).open("rb")
        with file:  # what fails in here is not the registry's, but for what it reads
            file.seek(start)
            yield _reporting_pieces(home / path, _pieces(file.fileno()))

    def write(
        self, model: str, version: int, parts: Mapping[str, Path | bytes], sent: Sent
    ) -> None:
        home = self._home(model, version)
        with _reporting(home):
            self._root.mkdir(exist_ok=True)
            home.parent.mkdir(exist_ok=True)
            with (home.parent / ".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                _sweep(home.parent)
                if home.exists():
                    raise VersionExists(f"{home} is there already; versions do not change")
                temporary = home.with_name(f"{_UNFINISHED}{version}-{ambient.random_hex(4)}")
                try:
                    for path, content in parts.items():
                        _write(temporary / path, content, sent)
                    _sync_below(temporary)
                    temporary.rename(home)
                finally:
                    shutil.rmtree(temporary, ignore_errors=True)
                _write_index(home.parent)
                _sync(home.parent)

    def _home(self, model: str, version: int) -> Path:
        return self._root / model / str(version)


def _versions(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    numbers = (p.name for p in directory.iterdir() if p.name.isascii() and p.name.isdigit())
    return sorted(int(n) for n in numbers if (directory / n / MANIFEST).is_file())


def _write_index(directory: Path) -> None:
    """New in one piece: a web server may be reading it."""
    temporary = directory / f"{_UNFINISHED}index"
    temporary.write_text(json.dumps({"versions": _versions(directory)}) + "\n")
    temporary.replace(directory / INDEX)


def _sweep(directory: Path) -> None:
    """What a push that was killed left; the lock says that none is running."""
    for left in directory.glob(f"{_UNFINISHED}*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def _write(path: Path, content: Path | bytes, sent: Sent) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        for piece in (content,) if isinstance(content, bytes) else _file_pieces(content):
            file.write(piece)
            sent(len(piece))
        file.flush()
        os.fsync(file.fileno())


def _file_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from _pieces(file.fileno())


def _reporting_pieces(path: Path, pieces: Iterator[bytes]) -> Iterator[bytes]:
    while True:
        with _reporting(path):
            piece = next(pieces, b"")
        if not piece:
            return
        yield piece


def _pieces(number: int) -> Iterator[bytes]:
    while piece := os.read(number, _PIECE):
        yield piece


def _sync_below(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        if path.is_dir():
            _sync(path)


def _sync(directory: Path) -> None:
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some shares cannot
            os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def _reporting(what: Path) -> Iterator[None]:
    """The system's errors as ours."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise NotThere(f"{what} is not there, or no file") from None
    except PermissionError:
        raise RegistryDenied(f"{what} may not be read or written by this user") from None
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise RegistryError(f"no room for {what}: make some, then try again") from None
        raise RegistryUnreachable(
            f"{what}: {exc.strerror}; is the share well? Then try again"
        ) from None
