"""What of a chat Google's `generateContent` has no words for (Gemini API v1beta, Vertex AI v1).

By its schema as published in November 2026, and what its documentation adds: up to five sequences
stop an answer, up to eight answers come of one call, each call of a function has its response in
the next turn, and schemas of answers are of a subset of JSON Schema (beyond it they are ignored).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.core.operations.capabilities import is_formatted, is_given, is_set, other_than
from gateway.core.operations.dialects.chats import (
    DATA_URL,
    MOST,
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
from gateway.core.operations.json_schema import is_accepted, with_enums
from gateway.core.operations.spec import CapabilityNeed, Row

OFFERED: Final = frozenset({"tools", "structured_output", "logprobs", "parts", "reasoning"})
"""Capabilities that it has words for, if not for all that each can hold."""
PDF: Final = "application/pdf"
IMAGES: Final = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp",
    ".heic": "image/heic", ".heif": "image/heif",
}  # fmt: skip
"""Media types by the ends of names."""
SOUNDS: Final = {"wav": "audio/wav", "mp3": "audio/mp3"}
SIGNATURE: Final = "thought_signature"
"""Stands in `extra_content.google` of a call or a message, as in Google's own chats."""
EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh")
_MEDIA: Final = frozenset(IMAGES.values())
_RESULT_MEDIA: Final = frozenset({"image/png", "image/jpeg", "image/webp", PDF})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_MOST_STOPS: Final = 5
_MOST_ANSWERS: Final = 8
_MOST_LOGPROBS: Final = 20
_EXTRA: Final = frozenset({"extra_content"})
_MESSAGE_KEYS: Final = frozenset({"role", "content"})
_ROLE_KEYS: Final = {
    "user": _MESSAGE_KEYS,
    "system": _MESSAGE_KEYS,
    "developer": _MESSAGE_KEYS,
    "assistant": _MESSAGE_KEYS | _EXTRA | {"tool_calls", "refusal", "reasoning_content"},
    "tool": _MESSAGE_KEYS | {"tool_call_id"},
}
_PART_KEYS: Final = {
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "tool": frozenset({"text", "image_url", "file"}),
    "assistant": frozenset({"text", "refusal"}),
}
_ONLY_TEXT: Final = frozenset({"text"})
_SCHEMA_KEYS: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "prefixItems", "enum",
     "anyOf", "$ref", "$defs", "$id", "$anchor", "description", "title", "default",
     "format", "minItems", "maxItems", "minimum", "maximum", "propertyOrdering")
)  # fmt: skip
_FORMATS: Final = ("date-time", "date", "time", "float", "double", "int32", "int64")


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _no_tools(value: Any) -> bool:
    return value is not None and not (isinstance(value, list) and all(map(_is_tool, value)))


def _is_tool(tool: Any) -> bool:
    if not is_function(tool, _is_name) or tool.get("cache_control"):
        return False
    function = tool["function"]
    return not function.get("strict") or _is_held(function.get("parameters"))


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
    schema: Any = stated.get("schema") if isinstance(stated, Mapping) else None
    return not _is_held(schema) or "$ref" in schema  # beside which a title has no room


def _is_held(schema: Any) -> bool:
    return is_accepted(with_enums(schema), _holds)


def _holds(schema: Mapping[str, Any]) -> bool:
    """Whether answers can be held to what the schema says, those within it apart."""
    if "$ref" in schema and any(not key.startswith("$") for key in schema):
        return False
    values = schema.get("enum", [])
    return (
        schema.keys() <= _SCHEMA_KEYS
        and isinstance(values, list)
        and all(type(value) in (str, int, float) for value in values)
        and schema.get("format", "date") in _FORMATS
    )


_FIELDS: Final[Mapping[str, Row]] = {
    "temperature": ("sampling", outside(0, 2)),
    "top_p": ("sampling", outside(0, 1)),
    "top_k": ("sampling", no_count(-1, MOST)),
    "min_p": ("sampling", other_than(0)),
    "presence_penalty": ("sampling", outside(-2, 1.999)),
    "frequency_penalty": ("sampling", outside(-2, 1.999)),
    "repetition_penalty": ("sampling", other_than(1)),
    "seed": ("sampling", no_count(0, MOST)),
    "stop": ("sampling", no_stops(_MOST_STOPS)),
    "n": ("choices", no_count(1, _MOST_ANSWERS)),
    "top_logprobs": ("logprobs", no_count(0, _MOST_LOGPROBS)),
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
    "reasoning_effort": ("other", other_than("none", *EFFORTS)),
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
    if thinks_twice(document):
        yield CapabilityNeed("other", "thinking")
    yield from _message_needs(document.get("messages"))


def _message_needs(messages: Any) -> Iterator[CapabilityNeed]:
    """Instructions stand once, in front of the conversation. What the model calls follows
    something, and is responded to next, call by call. An answer begins behind the last turn."""
    last, calls = "", list[str]()
    for at, message in enumerate(messages):
        role, where = message["role"], f"messages[{at}]"
        if role == "tool":
            if (own := message.get("tool_call_id")) in calls:
                calls.remove(own)
            else:
                yield CapabilityNeed("other", f"{where}.tool_call_id")
        elif calls or (role in SYSTEM and last):  # guard: S16.open-call
            yield CapabilityNeed("other", where)
        content = message.get("content")
        if not (len(message) == 2 and role in _PART_KEYS and type(content) is str and content):
            yield from _WORDS.needs(message, where)
            if not _is_signed(message):
                yield CapabilityNeed("other", f"{where}.extra_content")
            if role == "assistant" and isinstance(stated := message.get("tool_calls"), list):
                calls = [call["id"] for call in stated if _is_call(call)]
                if stated and (not last or len(set(calls)) < len(stated)):
                    yield CapabilityNeed("other", f"{where}.tool_calls")
        last = "" if role in SYSTEM else role
    if calls or last in ("", "assistant"):
        yield CapabilityNeed("other", f"messages[{len(messages) - 1}]")


def _is_call(call: Any) -> bool:
    return is_tool_call(call, _is_name, _EXTRA) and _is_signed(call)


def _is_signed(holder: Mapping[str, Any]) -> bool:
    """Whether what it has in addition is a signature of what the model thought, or nothing."""
    extra = holder.get("extra_content")
    if not extra:
        return True
    google = extra.get("google") if isinstance(extra, Mapping) and len(extra) == 1 else None
    return (
        isinstance(google, Mapping) and google.keys() == {SIGNATURE}
        and isinstance(google[SIGNATURE], str) and google[SIGNATURE] != ""
    )  # fmt: skip


def _is_part(part: Any, role: str) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in _PART_KEYS.get(role, _ONLY_TEXT):
        return False
    if any(value and key not in ("type", kind) for key, value in part.items()):
        return False
    value = part.get(kind)
    if kind in ("text", "refusal"):
        return isinstance(value, str) and value != ""
    if not isinstance(value, Mapping):
        return False
    if kind == "input_audio":
        return (
            value.keys() == {"data", "format"}
            and isinstance(value["format"], str)
            and value["format"] in SOUNDS
            and isinstance(value["data"], str)
        )
    if kind == "image_url":
        return _is_image(value, _RESULT_MEDIA if role == "tool" else None)
    url = value.get("file_data")
    data = DATA_URL.match(url) if isinstance(url, str) else None
    return (
        data is not None
        and data[1] == PDF
        and isinstance(value.get("filename"), str | None)
        and value.keys() <= {"file_data", "filename"}
    )


def _is_image(image: Mapping[str, Any], result_media: frozenset[str] | None) -> bool:
    """`result_media`: what the result of a tool may hold; None: it is of no result."""
    url = image.get("url")
    if not isinstance(url, str) or not image.keys() <= {"url", "detail"}:
        return False
    if image.get("detail") not in (None, "auto", "high"):
        return False
    if data := DATA_URL.match(url):
        return data[1] in (result_media or _MEDIA)
    return result_media is None and url.startswith(("https://", "gs://")) and media_type(url) != ""


def media_type(url: str) -> str:
    """Of the picture at an address, by the end of its path; empty: it says none."""
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    return IMAGES.get(path[path.rfind(".") :].lower(), "") if "." in path else ""


_WORDS: Final = MessageWords(_ROLE_KEYS, _is_call, _is_part)
