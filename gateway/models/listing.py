"""What is in a repository: every model with its versions, variants and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.config import ConfigError
from gateway.models import declaration, versions
from gateway.models.declaration import Declaration
from gateway.models.failures import WrongModel
from gateway.models.variants import evidence

PROFILE = "profile.json"


@dataclass(frozen=True, slots=True)
class Variant:
    file: str
    precision: str
    size_bytes: int
    sha256: str
    verified: bool | None  # None: not since the file changed
    rows: str | None = None  # whether those of a batch influence each other, where it was tried


@dataclass(frozen=True, slots=True)
class Listed:
    name: str
    versions: tuple[int, ...] = ()
    variants: tuple[Variant, ...] = ()
    ranges: tuple[tuple[str, tuple[int, int, int]], ...] = ()
    profiled: bool = False
    wrong: str | None = None  # why nothing more is known

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "versions": list(self.versions),
            "variants": [
                {
                    "file": v.file,
                    "precision": v.precision,
                    "bytes": v.size_bytes,
                    "sha256": v.sha256,
                    "verified": v.verified,
                    "rows": v.rows,
                }
                for v in self.variants
            ],
            "ranges": {name: list(sizes) for name, sizes in self.ranges},
            "profiled": self.profiled,
            "wrong": self.wrong,
        }


def listed(repository: Path) -> list[Listed]:
    """Every directory with a config.pbtxt or a model.yaml, by name."""
    models = {
        p.parent
        for name in ("config.pbtxt", declaration.FILE)
        for p in repository.glob(f"*/{name}")
    }
    return [_list_model(directory) for directory in sorted(models)]


def _list_model(directory: Path) -> Listed:
    if not (directory / declaration.FILE).exists():
        return Listed(directory.name, tuple(versions.versions(directory)), wrong="no model.yaml")
    try:
        declared = versions.declared(directory)
        return Listed(
            directory.name,
            tuple(versions.versions(directory)),
            tuple(_variants(directory, declared)),
            tuple(_ranges(declared)),
            (directory / PROFILE).exists(),
        )
    except (ConfigError, WrongModel) as exc:
        return Listed(directory.name, tuple(versions.versions(directory)), wrong=str(exc))


def _variants(directory: Path, declared: Declaration) -> list[Variant]:
    if declared.graph is None:
        return []
    at = versions.graph_file(directory, declared)
    if not at.exists():
        raise WrongModel(f"{at}: is not there; python models/build.py makes what is not carried")
    known = evidence.read_evidence(at.parent)
    files = [at, *sorted(p for p in at.parent.iterdir() if p.name in known and p != at)]
    return [
        Variant(
            path.name,
            str(known.get(path.name, {}).get("precision", declared.graph.precision.value)),
            path.stat().st_size,
            versions.sha256(path),
            known.get(path.name, {}).get("verified"),
            known.get(path.name, {}).get("rows"),
        )
        for path in files
    ]


def _ranges(declared: Declaration) -> list[tuple[str, tuple[int, int, int]]]:
    named = {"batch": declared.batch} if declared.batch is not None else {}
    return [(n, (r.min, r.opt, r.max)) for n, r in {**named, **declared.axes}.items()]
