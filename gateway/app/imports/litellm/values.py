"""What stands in a section of a document that nobody has checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def stated(section: Any, key: str) -> Any:
    return section.get(key) if isinstance(section, Mapping) else None


def text(section: Any, key: str) -> str | None:
    its = stated(section, key)
    return its if isinstance(its, str) else None


def mapping(section: Any, key: str) -> Mapping[str, Any]:
    its = stated(section, key)
    return {str(k): v for k, v in its.items()} if isinstance(its, Mapping) else {}


def items(section: Any, key: str) -> Sequence[Any]:
    its = stated(section, key)
    return its if isinstance(its, list) else []
