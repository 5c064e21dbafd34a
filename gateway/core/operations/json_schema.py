"""JSON Schemas of answers and of tools, as callers' libraries write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

DEEPEST: Final = 32
_SAFE: Final = 2**53 - 1
"""The largest integer that every reader of JSON reads exactly (RFC 8259, section 6)."""
_BOUNDS: Final = {"minimum": -_SAFE, "maximum": _SAFE}
_NAMED: Final = ("properties", "$defs", "definitions")
_LISTED: Final = ("anyOf", "allOf")


def plain(schema: Any, depth: int = 0) -> Any:
    """The schema without what holds an answer to nothing: `$schema`, and the bounds of exact
    integers. The openai SDK for Node writes both of every zod schema."""
    if not isinstance(schema, Mapping) or depth > DEEPEST:
        return schema
    made = {
        key: value
        for key, value in schema.items()
        if not (key == "$schema" and isinstance(value, str))
        and not (key in _BOUNDS and type(value) is int and value == _BOUNDS[key])
    }
    for key in _NAMED:
        if isinstance(value := made.get(key), Mapping):
            made[key] = {name: plain(each, depth + 1) for name, each in value.items()}
    for key in _LISTED:
        if isinstance(value := made.get(key), list):
            made[key] = [plain(each, depth + 1) for each in value]
    if "items" in made:
        made["items"] = plain(made["items"], depth + 1)
    return made
