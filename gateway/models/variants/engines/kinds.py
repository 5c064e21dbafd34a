"""Who can build engines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gateway.models.variants.engines import EngineBuilder, Loaded
from gateway.models.variants.engines.nvidia import NvidiaBuilder


def builders() -> Mapping[str, EngineBuilder]:
    """By name, the preferred one first."""
    return {b.name: b for b in (NvidiaBuilder("tensorrt"), NvidiaBuilder("tensorrt_rtx"))}


def load_runner(engine: Path) -> Loaded:
    builder = next(b for b in builders().values() if b.suffix == engine.suffix)
    if (missing := builder.missing()) is not None:
        return Loaded(why_not=missing)
    return builder.load(engine)
