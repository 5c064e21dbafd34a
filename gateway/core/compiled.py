"""Whether this installation is compiled (docs/explanation/compiled.md)."""

from __future__ import annotations

import importlib.util
from importlib.machinery import EXTENSION_SUFFIXES

_ONE_OF_THEM = "gateway.core.types"  # all are, or none


def is_compiled() -> bool:
    found = importlib.util.find_spec(_ONE_OF_THEM)
    return found is not None and (found.origin or "").endswith(tuple(EXTENSION_SUFFIXES))


def told() -> str:
    """Behind the version."""
    return " (compiled)" if is_compiled() else ""
