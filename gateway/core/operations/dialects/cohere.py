"""What of a chat Cohere's own Chat API (v2) has no words for.

By its schema as published in November 2026, and what its documentation adds: a call's functions are
all held to their schemas or none is, answers in JSON go with no tools, thinking is on or off, and
schemas of answers are of a subset of JSON Schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.core.operations.capabilities import is_formatted, is_given, is_set, other_than
from gateway.core.operations.dialects.chats import (
    DATA_URL,
    SYSTEM,
    MessageWords,
    is_choosable,
    is_function,
    is_tool_call,
    named_choice,
    no_count,
    no_stops,
    no_stream_options,
    no_thinking,
    outside,
    thinks_twice,
)
from gateway.core.operations.json_schema import is_accepted
from gateway.core.operations.spec import CapabilityNeed, Row

OFFERED: Final = frozenset({"tools", "structured_output", "parts", "reasoning"})
"""Capabilities that it has words for, if not for all that each can hold."""
_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MOST_STOPS: Final = 5
_MOST_K: Final = 500
_MESSAGE_KEYS: Final = frozenset({"role", "content"})
_ROLE_KEYS: Final = {
    "user": _MESSAGE_KEYS,
    "system": _MESSAGE_KEYS,
    "developer": _MESSAGE_KEYS,
    "assistant": _MESSAGE_KEYS | {"tool_calls", "refusal", "reasoning_content"},
    "tool": _MESSAGE_KEYS | {"tool_call_id"},
}
_PART_KINDS: Final = {"user": ("text", "image_url"), "assistant": ("text", "refusal")}
_ONLY_TEXT: Final = ("text",)
_SCHEMA_KEYS: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
     "$ref", "$defs", "description", "title", "default", "format", "pattern")
)  # fmt: skip
_FORMATS: Final = ("date-time", "uuid", "date", "time")


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name != ""


def _no_tools(value: Any) -> bool:
    if value is None:
        return False
    if not isinstance(value, list) or not all(is_function(tool, _is_name) for tool in value):
        return True
    strict = [tool["function"] for tool in value if tool["function"].get("strict")]
    return (
        any(tool.get("cache_control") for tool in value)
        or len(strict) not in (0, len(value))
        or not all(_is_held(function.get("parameters")) for function in strict)
    )


def _is_held(schema: Any) -> bool:
    """Whether answers can be held to the whole schema: of an object that has a required field."""
    return is_accepted(schema, _holds) and schema.get("type") == "object" and bool(
        schema.get("required")
    )  # fmt: skip


def _holds(schema: Mapping[str, Any]) -> bool:
    return (
        schema.keys() <= _SCHEMA_KEYS
        and schema.get("additionalProperties", False) is False
        and schema.get("format", "uuid") in _FORMATS
    )


def _no_tool_choice(value: Any) -> bool:
    if value is None or value in ("none", "auto", "required"):
        return False
    return not _is_name(named_choice(value))


def _no_format(value: Any) -> bool:
    if not is_formatted(value):
        return False
    if not isinstance(value, Mapping):
        return True
    if value.get("type") != "json_schema":
        return value != {"type": "json_object"}
    stated = value.get("json_schema")
    return not (isinstance(stated, Mapping) and _is_held(stated.get("schema")))


_FIELDS: Final[Mapping[str, Row]] = {
    "temperature": ("sampling", outside(0, 2)),
    "top_p": ("sampling", outside(0.01, 0.99)),
    "top_k": ("sampling", no_count(-1, _MOST_K)),
    "min_p": ("sampling", other_than(0)),
    "presence_penalty": ("sampling", outside(0, 1)),
    "frequency_penalty": ("sampling", outside(0, 1)),
    "repetition_penalty": ("sampling", other_than(1)),
    "stop": ("sampling", no_stops(_MOST_STOPS)),
    "n": ("choices", other_than(1)),
    "store": ("state", is_set),
    "service_tier": ("other", other_than("auto", "default")),
    "stream_options": ("other", no_stream_options),
    "tools": ("other", _no_tools),
    "functions": ("other", is_set),
    "tool_choice": ("other", _no_tool_choice),
    "function_call": ("other", is_given),
    "parallel_tool_calls": ("other", other_than(True)),
    "max_tool_calls": ("other", is_given),
    "response_format": ("other", _no_format),
    "reasoning_effort": ("other", other_than("none", "high")),
    "thinking": ("other", no_thinking),
    "cache_control": ("other", is_given),
    "verbosity": ("other", other_than("medium")),
}
"""The capability that a field needs, and for which of its values."""


def needs(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    """What of a chat has no words there: each is a capability that the kind does not offer."""
    for key, value in document.items():
        row = _FIELDS.get(key)
        if row is not None and row[1](value):
            yield CapabilityNeed(row[0], key)
    if not is_choosable(document):
        yield CapabilityNeed("other", "tool_choice")
    if document.get("tools") and is_formatted(document.get("response_format")):
        yield CapabilityNeed("other", "response_format")
    if thinks_twice(document):
        yield CapabilityNeed("other", "thinking")
    yield from _message_needs(document.get("messages"))


def _message_needs(messages: Any) -> Iterator[CapabilityNeed]:
    """Instructions stand once, in front of the conversation, and an answer begins behind its last
    turn. Results are of calls."""
    begun, last, calls = False, "", set[str]()
    for at, message in enumerate(messages):
        role, where = message["role"], f"messages[{at}]"
        if role in SYSTEM:
            if begun:
                yield CapabilityNeed("other", where)
        else:
            begun, last = True, role
        content = message.get("content")
        if not (len(message) == 2 and role in _PART_KINDS and type(content) is str and content):
            yield from _WORDS.needs(message, where)
        if role == "assistant" and isinstance(stated := message.get("tool_calls"), list):
            calls.update(call["id"] for call in stated if _is_call(call))
        elif role == "tool":
            own = message.get("tool_call_id")
            if not isinstance(own, str) or own not in calls:
                yield CapabilityNeed("other", f"{where}.tool_call_id")
    if last in ("", "assistant"):
        yield CapabilityNeed("other", f"messages[{len(messages) - 1}]")


def _is_call(call: Any) -> bool:
    return is_tool_call(call, _is_name)


def _is_part(part: Any, role: str) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind not in _PART_KINDS.get(role, _ONLY_TEXT) or any(
        value and key not in ("type", kind) for key, value in part.items()
    ):
        return False
    value = part.get(kind)
    if kind != "image_url":
        return isinstance(value, str) and value != ""
    if not isinstance(value, Mapping) or not isinstance(url := value.get("url"), str):
        return False
    if value.get("detail") not in (None, "auto", "low", "high"):
        return False
    data = DATA_URL.match(url)
    known = url.startswith("https://") if data is None else data[1] in _IMAGES
    return known and value.keys() <= {"url", "detail"}


_WORDS: Final = MessageWords(_ROLE_KEYS, _is_call, _is_part)
