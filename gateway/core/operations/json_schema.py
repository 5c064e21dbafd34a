"""JSON Schemas of answers and of tools, as callers' libraries write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

DEEPEST: Final = 32
_SAFE: Final = 2**53 - 1
"""The largest integer that every reader of JSON reads exactly (RFC 8259, section 6)."""
_BOUNDS: Final = {"minimum": -_SAFE, "maximum": _SAFE}
_NAMED: Final = ("properties", "$defs", "definitions")
_LISTED: Final = ("anyOf", "allOf", "prefixItems")
_SINGLE: Final = ("items", "additionalProperties")

Accepts = Callable[[Mapping[str, Any]], bool]


def plain(schema: Any) -> Any:
    """The schema without what holds an answer to nothing: `$schema`, and the bounds of exact
    integers. The openai SDK for Node writes both of every zod schema."""
    return _mapped(schema, _without_idle, 0)


def with_enums(schema: Any) -> Any:
    """The schema with an `enum` of one value in the place of each `const`."""
    return _mapped(schema, _without_const, 0)


def _without_idle(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in schema.items()
        if not (key == "$schema" and isinstance(value, str))
        and not (key in _BOUNDS and type(value) is int and value == _BOUNDS[key])
    }


def _without_const(schema: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(schema)
    if "const" in made:
        made["enum"] = [made.pop("const")]
    return made


def _mapped(schema: Any, change: Callable[[Mapping[str, Any]], dict[str, Any]], depth: int) -> Any:
    """The schema and all within it, each changed."""
    if not isinstance(schema, Mapping) or depth > DEEPEST:
        return schema
    made = change(schema)
    for key in _NAMED:
        if isinstance(value := made.get(key), Mapping):
            made[key] = {name: _mapped(each, change, depth + 1) for name, each in value.items()}
    for key in _LISTED:
        if isinstance(value := made.get(key), list):
            made[key] = [_mapped(each, change, depth + 1) for each in value]
    for key in _SINGLE:
        if key in made:
            made[key] = _mapped(made[key], change, depth + 1)
    return made


def is_accepted(schema: Any, accepts: Accepts) -> bool:
    """Whether an API can hold answers to all that a schema says, by whether it `accepts` each
    plain schema in it, without those within."""
    return _are_accepted(plain(schema), accepts, 0)


def _are_accepted(schema: Any, accepts: Accepts, depth: int) -> bool:
    if not isinstance(schema, Mapping) or depth > DEEPEST or not accepts(schema):
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
    return all(_are_accepted(each, accepts, depth + 1) for each in inner)


def types(schema: Mapping[str, Any]) -> list[Any]:
    """What a schema says that a value may be; nothing where it leaves that open."""
    stated = schema.get("type", [])
    return stated if isinstance(stated, list) else [stated]


def titled(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a `response_format` with its name and its description, for an API that has no
    fields of their own for them."""
    schema, words = plain(stated["schema"]), stated.get("description")
    made = {"title": name, **schema} if (name := stated.get("name")) else dict(schema)
    if words:
        own = schema.get("description")
        made["description"] = f"{words}\n\n{own}" if own else words
    return made
