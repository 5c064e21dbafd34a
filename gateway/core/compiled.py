"""Whether this installation is compiled (docs/explanation/compiled.md)."""

from __future__ import annotations

import importlib.util
from importlib.machinery import EXTENSION_SUFFIXES

_COMPILED_MODULE = "gateway.core.types"  # all are, or none


def is_compiled() -> bool:
    spec = importlib.util.find_spec(_COMPILED_MODULE)
    return spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))


def version_suffix() -> str:
    """Behind the version."""
    return " (compiled)" if is_compiled() else ""
