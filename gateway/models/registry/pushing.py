"""`push`: a version of the repository to a registry, with its manifest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gateway.config import ConfigError
from gateway.core import ambient
from gateway.models import versions
from gateway.models.declaration import Declaration
from gateway.models.registry import (
    DECLARATION,
    FILES,
    MANIFEST,
    SIGNATURE,
    ModelRegistry,
    RegistryError,
    Sent,
    graph,
    signing,
)
from gateway.models.registry import manifest as manifests
from gateway.models.registry.pulling import check_name


@dataclass(frozen=True, slots=True)
class Push:
    repository: Path
    model: str
    version: int | None = None  # the one that serves if not
    sign: Path | None = None
    dry_run: bool = False
    expected: Callable[[int], None] = field(default=lambda size: None)
    sent: Sent = field(default=lambda size: None)
    wall_s: Callable[[], float] = ambient.wall_s


@dataclass(frozen=True, slots=True)
class Pushed:
    model: str
    version: int
    size: int
    files: int
    sha256: str  # of the manifest
    signed: bool
    pushed: bool  # False: a dry run


def push(work: Push, registry: ModelRegistry) -> Pushed:
    """Raises RegistryError; then the registry has no such version."""
    check_name(work.model)
    model = work.repository / work.model
    version = work.version if work.version is not None else _latest(model)
    directory = model / str(version)
    if not directory.is_dir():
        raise RegistryError(f"{directory} is not there; `spillway models ls` lists what is")
    text, declared = _declaration(model, version)
    samples = _samples(model, version, declared)
    manifest = manifests.from_directory(
        work.model, version, directory, text, work.wall_s(), samples
    )
    graph.check(directory, declared)
    raw = manifest.encoded()
    manifests.parse(raw, work.model, version)  # what nobody could pull is not pushed
    parts: dict[str, Path | bytes] = {
        **{f"{FILES}{path}": samples.get(path, directory / path) for path in manifest.files},
        DECLARATION: text,
    }
    if work.sign is not None:
        parts[SIGNATURE] = signing.sign(raw, work.sign)
    parts[MANIFEST] = raw
    if not work.dry_run:
        work.expected(manifest.size + len(raw))
        registry.write(work.model, version, parts, work.sent)
    return Pushed(
        work.model, version, manifest.size, len(manifest.files),
        manifests.digest(raw), work.sign is not None, not work.dry_run,
    )  # fmt: skip


def _declaration(model: Path, version: int) -> tuple[bytes, Declaration]:
    path = versions.declaration_file(model, version)
    try:
        return path.read_bytes(), versions.declared(model, version)
    except OSError:
        raise RegistryError(f"{path} is not there: declare the model before you push it") from None
    except ConfigError as exc:
        raise RegistryError(str(exc)) from None


def _samples(model: Path, version: int, declared: Declaration) -> dict[str, Path]:
    """Its golden file, where that lies beside the model's model.yaml. A data set may hold what must
    not leave: it goes with a version only if it lies in its directory."""
    golden = declared.verify.golden
    held = versions.declaration_file(model, version).parent / golden
    within = (model / str(version) / golden).exists()
    return {golden: held} if held.exists() and not within else {}


def _latest(model: Path) -> int:
    names = [p.name for p in model.iterdir() if p.is_dir()] if model.is_dir() else []
    numbers = [int(name) for name in names if name.isascii() and name.isdigit()]
    if not numbers:
        raise RegistryError(f"{model} has no version; `spillway models ls` lists what is there")
    return max(numbers)
