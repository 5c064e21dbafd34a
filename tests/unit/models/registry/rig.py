"""A repository with one model, versions of it on a shelf, and registries that misbehave."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gateway.models import versions
from gateway.models.declaration import Declaration
from gateway.models.registry import FILES, ModelRegistry, NotThere, Sent, VersionExists
from gateway.models.registry import manifest as manifests
from gateway.models.registry.fetching import Source
from gateway.models.registry.kinds.directory import DirectoryRegistry
from gateway.models.registry.pulling import Pull, Pulled, RequestedVersion, pull
from gateway.models.registry.pushing import Push, push
from tests.live import MODELS

NAME = "fraud_score"
ANSWERS = b'return self.session.run({"features": features})'
"""The line of its runtime that answers."""
HALVED = b'return {"score": self.session.run({"features": features})["score"] / 2}'
TWO_COLUMNS = (
    b'return {"score": np.repeat(self.session.run({"features": features})["score"], 2, 1)}'
)
BY = 1_795_000_000.0  # a moment of 2026


def repository(under: Path, version: int = 1) -> Path:
    """With fraud_score alone, in this one version."""
    found = under / "models"
    ignored = shutil.ignore_patterns("__pycache__", "*.md", "train.py")
    shutil.copytree(MODELS / NAME, found / NAME, ignore=ignored)
    if version != 1:
        (found / NAME / "1").rename(found / NAME / str(version))
    return found


def shelf(under: Path, version: int = 2) -> Path:
    """A directory registry with this version."""
    other = repository(under / f"elsewhere-{version}", version)
    push(Push(other, NAME, version, wall_s=lambda: BY), DirectoryRegistry(under / "shelf"))
    return under / "shelf"


def pulled(
    repository: Path, registry: ModelRegistry, version: int | None = None, **more: object
) -> Pulled:
    """Without a trial, and without waiting between tries."""
    servers = more.pop("servers", [])
    source = Source(registry, pause=lambda pause_s: None, **more)  # type: ignore[arg-type]
    work = Pull(repository, source, lambda: servers)  # type: ignore[arg-type,return-value]
    return pull(work, RequestedVersion(NAME, version, try_first=False))


def declared(repository: Path) -> Declaration:
    return versions.declared(repository / NAME)


def fingerprint(directory: Path) -> dict[str, str]:
    """Of every file but Python's caches."""
    return {
        path: hashlib.sha256((directory / path).read_bytes()).hexdigest()
        for path in manifests.stray_files(directory)
    }


def retrained(under: Path, version: int = 2) -> Path:
    """A shelf with this version, which answers half of what version 1 does and declares it."""
    shelf_ = shelf(under, version)
    directory = shelf_ / NAME / str(version)
    text = (directory / "model.yaml").read_text()
    assert "[0.46906]" in text
    (directory / "model.yaml").write_text(text.replace("[0.46906]", "[0.23453]"))
    runtime = (directory / FILES / "runtime.py").read_bytes()
    assert ANSWERS in runtime
    rewritten(directory, runtime_dot_py=runtime.replace(ANSWERS, HALVED))
    return shelf_


def left_over(repository: Path) -> list[Path]:
    """What a pull that ended should not have left."""
    shops = [repository.parent / f".{repository.name}.spillway" / NAME, repository / NAME]
    return [p for shop in shops for p in (*shop.glob("**/staging-*"), *shop.glob("**/*.new"))]


def rewritten(version: Path, **changes: bytes) -> None:
    """Change files of a version on a shelf, and its manifest with them: as whoever can write there
    would. Names are paths with `__` for `/` and `_dot_` for `.`."""
    for name, content in changes.items():
        path = version / FILES / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    model, number = version.parent.name, int(version.name)
    text = (version / "model.yaml").read_bytes()
    made = manifests.from_directory(model, number, version / FILES, text, BY)
    (version / "manifest.json").write_bytes(made.encoded())


class MemoryRegistry:
    """A registry of this process: {(model, version): {path: bytes}}."""

    def __init__(self, kept: Mapping[tuple[str, int], dict[str, bytes]] | None = None) -> None:
        self.kept = dict(kept or {})

    def close(self) -> None:
        """Nothing is held."""

    def versions(self, model: str) -> list[int]:
        return sorted(v for m, v in self.kept if m == model)

    def alias(self, model: str, alias: str) -> int:
        raise NotThere("no aliases")

    def listing(self, model: str, version: int) -> frozenset[str] | None:
        return None

    @contextmanager
    def read(self, model: str, version: int, path: str, start: int) -> Iterator[Iterator[bytes]]:
        try:
            yield iter([self.kept[model, version][path][start:]])
        except KeyError:
            raise NotThere(path) from None

    def write(
        self, model: str, version: int, parts: Mapping[str, Path | bytes], sent: Sent
    ) -> None:
        if (model, version) in self.kept:
            raise VersionExists("it is there")
        self.kept[model, version] = {
            path: content if isinstance(content, bytes) else content.read_bytes()
            for path, content in parts.items()
        }


def in_memory(shelf: Path, version: int = 2) -> MemoryRegistry:
    home = shelf / NAME / str(version)
    found = {p.relative_to(home).as_posix(): p.read_bytes() for p in home.rglob("*") if p.is_file()}
    return MemoryRegistry({(NAME, version): found})
