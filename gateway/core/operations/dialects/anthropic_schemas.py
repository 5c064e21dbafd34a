"""The subset of JSON Schema to which answers of the Anthropic Messages API can be held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.core.operations.json_schema import types

_KEYS: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
     "allOf", "$ref", "$defs", "definitions", "description", "title", "default", "format",
     "minItems")
)  # fmt: skip
_FORMATS: Final = (
    "date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid",
)  # fmt: skip


def is_enforced(schema: Mapping[str, Any]) -> bool:
    """Whether answers can be held to what the schema says, those within it apart."""
    objects = "properties" in schema or "object" in types(schema)
    return (
        schema.keys() <= _KEYS
        and not (objects and schema.get("additionalProperties") is not False)
        and schema.get("format", "uuid") in _FORMATS
        and schema.get("minItems", 0) in (0, 1)
    )
