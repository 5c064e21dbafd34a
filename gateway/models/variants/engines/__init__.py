"""Engines: a graph compiled for a kind of hardware. One port, and who can build through it.

An engine is a file for one release of its builder and one family of processors. It is built where
it is served, and is never checked in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gateway.models.sessions import Feed, Outputs

Shape = tuple[int, ...]
ENGINE_SUFFIXES = (".plan", ".rtx")  # TensorRT's, which Triton serves; and that of TensorRT for RTX


@dataclass(frozen=True, slots=True)
class ShapeProfile:
    """The shapes that one input may have: the smallest, the one to be fast at, the largest."""

    smallest: Shape
    usual: Shape
    largest: Shape

    def __str__(self) -> str:
        return " ".join(str(list(shape)) for shape in (self.smallest, self.usual, self.largest))


@dataclass(frozen=True, slots=True)
class Built:
    """An engine that was written, and what its builder says that it takes."""

    file: Path
    builder: str
    version: str
    profiles: Mapping[str, ShapeProfile]

    def as_json(self) -> dict[str, Any]:
        return {
            "builder": self.builder,
            "builder_version": self.version,
            "profiles": {
                name: [list(p.smallest), list(p.usual), list(p.largest)]
                for name, p in self.profiles.items()
            },
        }


@dataclass(frozen=True, slots=True)
class Loaded:
    """An engine that runs here, or why it does not."""

    run: Callable[[Feed], Outputs] | None = None
    why_not: str | None = None


class EngineBuilder(Protocol):
    name: str
    suffix: str

    def missing(self) -> str | None:
        """What to install; None where it can build."""

    def build(self, graph: Path, profiles: Mapping[str, ShapeProfile], into: Path) -> Built:
        """Raises WrongModel for a graph that it cannot compile."""

    def load(self, engine: Path) -> Loaded:
        """Raises WrongModel for a file that is no engine of this builder's release."""
