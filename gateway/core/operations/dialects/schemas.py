"""JSON Schemas, of which each API knows a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

_DEEPEST: Final = 32
_NAMED: Final = ("properties", "$defs", "definitions")
_LISTED: Final = ("anyOf", "allOf", "prefixItems")

Accepts = Callable[[Mapping[str, Any]], bool]


def is_accepted(schema: Any, accepts: Accepts, depth: int = 0) -> bool:
    """Whether an API can hold answers to all that the schema says, by whether it `accepts` each
    schema in it, without those within."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST or not accepts(schema):
        return False
    inner: list[Any] = []
    for key in _NAMED:
        value = schema.get(key, {})
        if not isinstance(value, Mapping):
            return False
        inner.extend(value.values())
    for key in _LISTED:
        value = schema.get(key, [])
        if not isinstance(value, list):
            return False
        inner.extend(value)
    if "items" in schema:
        inner.append(schema["items"])
    if not isinstance(schema.get("additionalProperties", True), bool):
        inner.append(schema["additionalProperties"])
    return all(is_accepted(each, accepts, depth + 1) for each in inner)


def types(schema: Mapping[str, Any]) -> list[Any]:
    """What a schema says that a value may be; nothing where it leaves that open."""
    stated = schema.get("type", [])
    return stated if isinstance(stated, list) else [stated]


def titled(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a `response_format` with its name and its description, for an API that has no
    fields of their own for them."""
    schema, words = stated["schema"], stated.get("description")
    made = {"title": name, **schema} if (name := stated.get("name")) else dict(schema)
    if words:
        own = schema.get("description")
        made["description"] = f"{words}\n\n{own}" if own else words
    return made
