"""The numbered directories of a model; what is new gets into one whole, or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gateway.models import declaration
from gateway.models.declaration import Declaration
from gateway.models.declaration.tensors import Precision
from gateway.models.failures import ModelCommandFailed, WrongModel

_STAGING = ".staging-"
_CHUNK_BYTES = 1 << 20


def versions(directory: Path) -> list[int]:
    """Rising; Triton serves the last one."""
    names = (p.name for p in directory.iterdir() if p.is_dir()) if directory.is_dir() else ()
    return sorted(int(name) for name in names if name.isdecimal() and name[0] != "0")


def current(directory: Path) -> Path:
    """The version that is served. Raises WrongModel."""
    if not (numbers := versions(directory)):
        raise WrongModel(f"{directory}: has no version; a model has at least the directory 1")
    return directory / str(numbers[-1])


def declaration_file(directory: Path, version: int | None = None) -> Path:
    """The model.yaml of a version, the one that is served if not given: its own, or the model's
    where it brought none."""
    number = version if version is not None else max(versions(directory), default=0)
    own = directory / str(number) / declaration.FILE
    if own.exists():  # guard: R2.version-declaration
        return own
    return directory / declaration.FILE


def declared(directory: Path, version: int | None = None) -> Declaration:
    """Raises ConfigError."""
    return declaration.load(declaration_file(directory, version), directory)


def sample_file(directory: Path, name: str) -> Path:
    """A golden file or a data set that the served version's model.yaml names, there or not: the
    version's own, or the model's where the version has no model.yaml of its own."""
    own = directory / str(max(versions(directory), default=0)) / name
    return own if own.exists() else declaration_file(directory).parent / name


def graph_file(directory: Path, declared: Declaration) -> Path:
    if declared.graph is None:
        raise WrongModel(f"{directory}: {declared.name} has no graph, so there is nothing to do")
    return current(directory) / declared.graph.file


def variant(directory: Path, declared: Declaration, precision: Precision) -> Path:
    """Where the graph in this precision stands, made or not."""
    path = graph_file(directory, declared)
    assert declared.graph is not None
    if precision is declared.graph.precision:
        return path
    return path.with_name(f"{path.stem}.{precision.value}{path.suffix}")


def optimised(directory: Path, declared: Declaration) -> Path:
    path = graph_file(directory, declared)
    return path.with_name(f"{path.stem}.optimised{path.suffix}")


def engine(directory: Path, declared: Declaration, precision: Precision, suffix: str) -> Path:
    """Where the engine of a builder stands, made or not."""
    return graph_file(directory, declared).with_name(f"model.{precision.value}{suffix}")


@contextlib.contextmanager
def staging(temporary: Path) -> Iterator[Path]:
    """A directory on the same file system, gone at the end whatever happens. What fails to be
    written there has changed nothing that is served."""
    try:
        made = Path(tempfile.mkdtemp(prefix=_STAGING, dir=temporary))
        in_use = os.open(made, os.O_RDONLY)
    except OSError as exc:
        raise _unwritten(temporary, exc) from exc
    fcntl.flock(in_use, fcntl.LOCK_EX)  # the kernel lets go of it however this process ends
    try:
        yield made
    except OSError as exc:
        # guard: V1.disk-full -> raise
        raise _unwritten(Path(exc.filename or temporary), exc) from exc
    finally:
        shutil.rmtree(made, ignore_errors=True)  # guard: V1.staging-cleanup
        os.close(in_use)


def swept(temporary: Path) -> None:
    """Remove what an interrupted run left, and nothing that another one is at."""
    for left in temporary.glob(f"{_STAGING}*"):
        with contextlib.suppress(OSError):
            held = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # guard: V1.staging-lock
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(held)


def place(made: Path, at: Path) -> None:
    """Move a file or a directory that is whole to where it is served from, in one step."""
    for path in [made, *made.rglob("*")] if made.is_dir() else [made]:
        _synced(path)
    os.replace(made, at)
    _synced(at.parent)


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritten(path: Path, exc: OSError) -> ModelCommandFailed:
    if isinstance(exc, shutil.Error):  # of a tree: a list of from, to, why
        _, copy, why = exc.args[0][0]
        return ModelCommandFailed(
            f"{copy}: cannot be written ({why}); is there room for it? What is served is as it was"
        )
    if exc.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return ModelCommandFailed(
            f"{path}: there is no room to write it ({exc.strerror}); free some and run this "
            "again: what is served is as it was"
        )
    return ModelCommandFailed(f"{path}: {exc.strerror or exc}; what is served is as it was")


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
