"""Google's schemas, a form of OpenAPI's, as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.core.errors import WRONG_TYPE, InvalidField
from gateway.core.types import JsonDocument
from gateway.server.dialects.fields import not_offered
from gateway.server.dialects.gemini.names import camel

_AS_IT_IS: Final = frozenset(
    {"title", "description", "default", "enum", "required", "pattern", "minimum", "maximum"}
)
_COUNTS: Final = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_DEEPEST: Final = 64


def json_schema(schema: Any, where: str, depth: int = 0) -> JsonDocument:
    """Raises InvalidField for what JSON Schema has no words for."""
    if not isinstance(schema, dict):
        raise InvalidField(where, "must be an object", WRONG_TYPE)
    if depth > _DEEPEST:
        raise InvalidField(where, "is nested too deeply")
    made: JsonDocument = {}
    schema = camel(schema, where)
    for name, value in schema.items():
        if value is not None:
            _add(made, name, value, f"{where}.{name}", depth)
    if order := schema.get("propertyOrdering"):
        made["properties"] = _ordered(made.get("properties"), order, where)
    if schema.get("nullable") is True:
        return _nullable(made)
    return made


def _add(made: JsonDocument, name: str, value: Any, where: str, depth: int) -> None:
    if name in _AS_IT_IS:
        made[name] = value
    elif name == "type":
        kind = value.lower() if isinstance(value, str) else ""
        if kind not in _TYPES:
            raise InvalidField(where, f"must be one of {', '.join(sorted(_TYPES)).upper()}")
        made[name] = kind
    elif name in _COUNTS:
        made[name] = _count(value, where)
    elif name == "format":
        if value != "enum":  # says no more than `enum` itself
            made[name] = value
    elif name == "example":
        made["examples"] = [value]
    elif name == "items":
        made[name] = json_schema(value, where, depth + 1)
    elif name == "properties":
        made[name] = _schemas(value, where, depth)
    elif name in ("$defs", "defs"):
        made["$defs"] = _schemas(value, where, depth)
    elif name in ("$ref", "ref"):
        made["$ref"] = value
    elif name == "anyOf":
        if not isinstance(value, list):
            raise InvalidField(where, "must be a list of schemas", WRONG_TYPE)
        made[name] = [
            json_schema(each, f"{where}[{at}]", depth + 1) for at, each in enumerate(value)
        ]
    elif name == "additionalProperties":
        made[name] = value if isinstance(value, bool) else json_schema(value, where, depth + 1)
    elif name not in ("nullable", "propertyOrdering"):
        raise not_offered(where)


def _schemas(value: Any, where: str, depth: int) -> JsonDocument:
    if not isinstance(value, dict):
        raise InvalidField(where, "must be an object", WRONG_TYPE)
    return {
        key: json_schema(each, f"{where}[{at}]", depth + 1)  # a key may be anything
        for at, (key, each) in enumerate(value.items())
    }


def _count(value: Any, where: str) -> int:
    """Large integers are strings in Google's JSON."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    if type(value) is not int:
        raise InvalidField(where, "must be a whole number", WRONG_TYPE)
    return value


def _ordered(properties: Any, order: Any, where: str) -> JsonDocument:
    """Answers have fields in the order of their schema."""
    if not isinstance(order, list) or not isinstance(properties, dict):
        raise InvalidField(f"{where}.propertyOrdering", "must name properties", WRONG_TYPE)
    names = [name for name in order if isinstance(name, str) and name in properties]
    return {name: properties[name] for name in [*names, *properties]}


def _nullable(schema: JsonDocument) -> JsonDocument:
    if isinstance(kind := schema.get("type"), str):
        values = {"enum": [*schema["enum"], None]} if isinstance(schema.get("enum"), list) else {}
        return {**schema, "type": [kind, "null"], **values}
    return {"anyOf": [schema, {"type": "null"}]}


def closed(schema: Any, depth: int = 0) -> Any:
    """A schema whose objects have the properties that it names and no others, as answers of Gemini
    do; what it says of others stays."""
    if isinstance(schema, list):
        return [closed(each, depth + 1) for each in schema]
    if not isinstance(schema, Mapping) or depth > 2 * _DEEPEST:
        return schema
    made = {**schema}
    for key in ("properties", "$defs", "definitions"):
        if isinstance(named := schema.get(key), Mapping):
            made[key] = {name: closed(each, depth + 1) for name, each in named.items()}
    for key in ("items", "anyOf", "oneOf", "allOf", "prefixItems"):
        if key in schema:
            made[key] = closed(schema[key], depth + 1)
    if isinstance(schema.get("properties"), Mapping):
        made.setdefault("additionalProperties", False)
    return made


def is_strict(schema: Any) -> bool:
    """Whether OpenAI's API can hold answers to it: each object requires all that it has."""
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    named = schema.get("properties")
    if isinstance(named, Mapping):
        required = schema.get("required")
        if not isinstance(required, list) or set(named) != set(required):
            return False
        if schema.get("additionalProperties") is not False:
            return False
        if not all(map(is_strict, named.values())):
            return False
    defined = schema.get("$defs")
    inner = [schema[key] for key in ("items", "anyOf") if key in schema]
    return all(
        map(is_strict, [*inner, *(defined.values() if isinstance(defined, Mapping) else ())])
    )
