"""Small repositories for tests, and a look at all their bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from gateway.models import declaration
from gateway.models.adoption import adopt
from gateway.models.adoption.draft import DraftDetails
from tests.unit.models import graphs

GATE = """\
accuracy: {metric: agreement, data: rows.npz, largest_loss: 0.05}
"""


MADE = (".optimised.", ".fp16.", ".bf16.", ".int8.", ".plan", ".rtx", "variants.json")


def quiet(step: str) -> None:
    """Nobody watches."""


def added(repository: Path, *, seed: int = 1, name: str = "scores") -> Path:
    """The directory of a model that was made from an ONNX file."""
    repository.mkdir(exist_ok=True)
    file = graphs.scores(repository.parent / f"{name}-{seed}.onnx", seed=seed)
    adopt.adopt(repository, file, DraftDetails(name), None, quiet)
    return repository / name


def with_gate(directory: Path, text: str = GATE) -> declaration.Declaration:
    """The same model, with int8 allowed behind an accuracy gate over 64 rows."""
    path = directory / declaration.FILE
    held = path.read_text().replace("[fp32, fp16]", "[fp32, fp16, int8]")
    held = held.replace("verify:", "# verify:") + text
    tolerance = "verify: {tolerance: {fp32: 1.0e-4, fp16: 1.0e-2, int8: 0.2}}\n"
    path.write_text(held + tolerance)
    rows = np.random.default_rng(5).normal(0, 1, (64, 4)).astype(np.float32)
    np.savez(directory / "rows.npz", rows=rows)
    return declaration.load(path)


def of(directory: Path) -> declaration.Declaration:
    return declaration.load(directory / declaration.FILE)


def every_byte(at: Path) -> dict[str, str]:
    """Path -> hash of every file below, hidden ones too."""
    return {
        str(path.relative_to(at)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(at.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def linked(directory: Path, at: Path) -> Path:
    """A model whose files are links to those of another one, and what is made stays its own."""
    for path in directory.rglob("*"):
        inside = path.relative_to(directory)
        made = any(m in path.name for m in MADE) or "__pycache__" in inside.parts
        if path.is_file() and not made:
            (at / inside).parent.mkdir(parents=True, exist_ok=True)
            (at / inside).symlink_to(path)
    return at
