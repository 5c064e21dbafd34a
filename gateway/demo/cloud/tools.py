"""Tool calls: which one a request forces, and arguments that fit its schema."""

import dataclasses
import json
import uuid
from collections.abc import Mapping
from typing import Any

from gateway.demo.cloud.documents import JsonDocument
from gateway.demo.cloud.errors import InvalidRequest

_MOST_DEPTH = 8


@dataclasses.dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str
    finish_reason: str


def forced(body: JsonDocument) -> ToolCall | None:
    """`tool_choice: required` takes the first tool; a named one is called and ends with `stop`."""
    tools = [JsonDocument(tool.need("function", dict), "function.") for tool in _tools(body)]
    choice = body.fields.get("tool_choice")
    if not tools and choice not in (None, "none"):
        raise InvalidRequest(
            "'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice"
        )
    if choice == "required":
        return _call(tools[0], "tool_calls")
    if isinstance(choice, dict):
        name = JsonDocument(JsonDocument(choice).need("function", dict)).need("name", str)
        for tool in tools:
            if tool.need("name", str) == name:
                return _call(tool, "stop")
        raise InvalidRequest(f"Tool choice '{name}' not found in 'tools'.", param="tool_choice")
    return None


def _tools(body: JsonDocument) -> list[JsonDocument]:
    return body.items("tools") if body.fields.get("tools") is not None else []


def _call(tool: JsonDocument, finish_reason: str) -> ToolCall:
    schema = tool.get("parameters", dict, {})
    return ToolCall(
        id=f"call_{uuid.uuid4().hex[:24]}",
        name=tool.need("name", str),
        arguments=json.dumps(_sample(schema | {"type": "object"}, 0)),
        finish_reason=finish_reason,
    )


def _sample(schema: Mapping[str, Any], depth: int) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object" and depth < _MOST_DEPTH:
        properties = schema.get("properties") or {}
        return {
            name: _sample(properties.get(name) or {}, depth + 1)
            for name in schema.get("required") or properties
        }
    samples = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    return samples.get(kind if isinstance(kind, str) else "", "sample")
