"""The subset of JSON Schema to which answers of the Anthropic Messages API can be held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.core.operations import json_schema

_SCHEMA_KEYS: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
     "allOf", "$ref", "$defs", "definitions", "description", "title", "default", "format",
     "minItems")
)  # fmt: skip
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
)


def is_schema(schema: Any, depth: int) -> bool:
    """Whether answers can be held to all that the schema says."""
    if (
        not isinstance(schema, Mapping)
        or depth > json_schema.DEEPEST
        or not schema.keys() <= _SCHEMA_KEYS
    ):
        return False
    kinds = schema.get("type")
    objects = "properties" in schema or "object" in (kinds if isinstance(kinds, list) else [kinds])
    if objects and schema.get("additionalProperties") is not False:
        return False
    if schema.get("format", "uuid") not in _FORMATS or schema.get("minItems", 0) not in (0, 1):
        return False
    inner: list[Any] = []
    for key in ("properties", "$defs", "definitions"):
        value = schema.get(key, {})
        if not isinstance(value, Mapping):
            return False
        inner.extend(value.values())
    for key in ("anyOf", "allOf"):
        value = schema.get(key, [])
        if not isinstance(value, list):
            return False
        inner.extend(value)
    if "items" in schema:
        inner.append(schema["items"])
    return all(is_schema(each, depth + 1) for each in inner)
