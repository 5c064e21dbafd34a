"""Where a model's versions are made ready, and how they come into the repository and out of it.

`<repository>/<model>/<version>` appears and goes by renaming a whole directory, so at any moment,
whatever is killed, it is absent or whole. That needs one filesystem: the workshop lies beside the
repository, or, where the repository is a mount of its own, in the model's directory, where Triton
passes over it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.core import ambient
from gateway.models.registry import RegistryError
from gateway.models.registry.manifest import LEFT_OUT

_INSIDE = ".spillway"
_STAGING, _WITHDRAWN, _PENDING, _LOCK = "staging", "withdrawn", "pending.json", "lock"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Pending:
    """A version that was put in and whose canary has not passed yet."""

    version: int
    fresh: bool  # there was no such model before


@dataclass(frozen=True, slots=True)
class Workshop:
    """Of one model; whoever has it holds the model's lock."""

    model: Path  # its directory in the repository
    place: Path

    @property
    def name(self) -> str:
        return self.model.name

    def versions(self) -> list[int]:
        """In the repository, rising: the last one serves."""
        return _numbered(self.model)

    def withdrawn(self) -> list[int]:
        return _numbered(self.place / _WITHDRAWN)

    def staging(self) -> Path:
        """Empty, with a random name; swept by whoever comes next."""
        path = self.place / f"{_STAGING}-{ambient.random_hex(4)}"
        path.mkdir(parents=True)
        return path

    def sweep(self) -> None:
        """What was left by one that was killed: with the lock held, nobody works there."""
        for left in self.place.glob(f"{_STAGING}-*"):  # guard: R1.stale-pull -> for left in ():
            shutil.rmtree(left, ignore_errors=True)

    def put_in(self, staged: Path, version: int) -> None:
        """`staged` is whole and synced."""
        drop_code_caches(staged)
        self.model.mkdir(exist_ok=True)
        staged.rename(self.model / str(version))
        sync(self.model)

    def take_out(self, version: int) -> None:
        """Kept aside, so that it can be looked at, and is not pulled again unasked."""
        aside = self.place / _WITHDRAWN / str(version)
        shutil.rmtree(aside, ignore_errors=True)
        aside.parent.mkdir(parents=True, exist_ok=True)
        (self.model / str(version)).rename(aside)
        sync(aside.parent)
        sync(self.model)

    def bring_back(self, version: int) -> None:
        (self.place / _WITHDRAWN / str(version)).rename(self.model / str(version))
        sync(self.model)

    def forget_withdrawn(self, version: int) -> None:
        shutil.rmtree(self.place / _WITHDRAWN / str(version), ignore_errors=True)

    @property
    def pending(self) -> Pending | None:
        try:
            document = json.loads((self.place / _PENDING).read_text())
            return Pending(int(document["version"]), bool(document["fresh"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def note(self, pending: Pending | None) -> None:
        path = self.place / _PENDING
        if pending is None:
            path.unlink(missing_ok=True)
        else:
            write(path, json.dumps({"version": pending.version, "fresh": pending.fresh}).encode())
        sync(self.place)


@contextmanager
def opened(repository: Path, name: str) -> Iterator[Workshop]:
    """Raises RegistryError while another process works on the same model, and for a full disk."""
    if not repository.is_dir():
        raise RegistryError(f"{repository} is no directory; name the repository (--repository)")
    repository = repository.resolve()
    place = _scratch_name(repository, name) or repository / name / _INSIDE
    try:
        place.mkdir(parents=True, exist_ok=True)
        with (place / _LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # guard: R1.pull-lock
            except BlockingIOError:
                raise RegistryError(
                    f"another `spillway models` works on {name}; wait until it is done"
                ) from None
            workshop = Workshop(repository / name, place)
            workshop.sweep()
            try:
                yield workshop
            finally:
                workshop.sweep()
    except OSError as exc:
        if exc.errno in _NO_ROOM:
            raise RegistryError(
                f"no room on the disk of {repository}: make some, then try again. The version "
                "that serves was not touched"
            ) from None
        raise RegistryError(
            f"{exc.filename or repository}: {exc.strerror}. The version that serves was not touched"
        ) from None


def withdrawn(repository: Path, name: str) -> list[int]:
    """The versions of a model that were taken out, without its lock."""
    repository = repository.resolve()
    places = (_sibling(repository, name), repository / name / _INSIDE)
    return sorted({number for place in places for number in _numbered(place / _WITHDRAWN)})


def _sibling(repository: Path, name: str) -> Path:
    return repository.parent / f".{repository.name}{_INSIDE}" / name


def _scratch_name(repository: Path, name: str) -> Path | None:
    """None where a rename from there would leave the filesystem, or nothing may be written."""
    place = _sibling(repository, name)
    try:
        place.mkdir(parents=True, exist_ok=True)
        same = place.stat().st_dev == repository.stat().st_dev
        inner = repository / name
        same = same and (not inner.exists() or inner.stat().st_dev == place.stat().st_dev)
    except OSError:
        return None
    return place if same and os.access(place, os.W_OK) else None


def drop_code_caches(directory: Path) -> None:
    """What Python wrote while the version was tried."""
    for cache in list(directory.rglob(LEFT_OUT)):
        shutil.rmtree(cache, ignore_errors=True)


def write(path: Path, content: bytes) -> None:
    """In one piece: whoever reads finds the old or the new one."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync(path.parent)


def sync_below(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        if path.is_dir():
            sync(path)


def sync(directory: Path) -> None:
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _numbered(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    names = (p.name for p in directory.iterdir() if p.is_dir())
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())
