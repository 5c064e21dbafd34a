"""Typed reading of the JSON that a caller sent; each complaint names the field."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar, overload

from starlette.requests import Request

from gateway.demo.cloud.errors import InvalidRequest
from gateway.demo.cloud.provider import decompressed

Kind = TypeVar("Kind", str, int, float, bool, list[Any], dict[str, Any])


class JsonDocument:
    """A JSON object and its place, `messages[0]` say, in what the caller sent."""

    def __init__(self, fields: Mapping[str, Any], at: str = "") -> None:
        self.fields = fields
        self._at = at

    @overload
    def get(self, name: str, kind: type[Kind], default: Kind) -> Kind: ...
    @overload
    def get(self, name: str, kind: type[Kind], default: None = None) -> Kind | None: ...
    def get(self, name: str, kind: type[Kind], default: Kind | None = None) -> Kind | None:
        value = self.fields.get(name)
        if value is None:
            return default
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            where = self._at + name
            raise InvalidRequest(
                f"Invalid type for '{where}': expected {kind.__name__}, "
                f"but got {type(value).__name__} instead.",
                param=where,
            )
        return value

    def need(self, name: str, kind: type[Kind]) -> Kind:
        value = self.get(name, kind)
        if value is None:
            where = self._at + name
            raise InvalidRequest(f"Missing required parameter: '{where}'.", param=where)
        return value

    def items(self, name: str) -> "list[JsonDocument]":
        items = self.need(name, list)
        if not all(isinstance(item, dict) for item in items):
            raise InvalidRequest(f"'{self._at}{name}' must hold objects", param=self._at + name)
        return [JsonDocument(item, f"{self._at}{name}[{at}].") for at, item in enumerate(items)]


async def document(request: Request) -> JsonDocument:
    return parsed(decompressed(request.headers, await request.body()))


def parsed(body: bytes) -> JsonDocument:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise InvalidRequest("We could not parse the JSON body of your request.") from exc
    if not isinstance(fields, dict):
        raise InvalidRequest("The body of your request must be a JSON object.")
    return JsonDocument(fields)
