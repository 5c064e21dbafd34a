"""What of a chat the Converse operations of Amazon Bedrock have no words for.

By the schema of `bedrock-runtime` (2023-09-30) as published in November 2026, and what its
documentation adds: a conversation begins and ends with the user, documents stand beside a text, no
text is blank, who used tools has them offered still, and schemas of answers are of a subset of JSON
Schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.core.operations.capabilities import is_given, is_set, other_than
from gateway.core.operations.dialects.anthropic import is_cache_mark, no_blank_stops, no_format
from gateway.core.operations.dialects.anthropic_schemas import is_enforced
from gateway.core.operations.dialects.chats import (
    DATA_URL,
    MOST,
    SYSTEM,
    is_blank,
    is_function,
    is_tool_call,
    named_choice,
    no_count,
    no_stream_options,
    no_thinking,
    outside,
)
from gateway.core.operations.json_schema import is_accepted
from gateway.core.operations.spec import CapabilityNeed, Row

OFFERED: Final = frozenset({"tools", "structured_output", "parts", "reasoning"})
"""Capabilities that it has words for, if not for all that each can hold."""
IMAGES: Final = {
    "image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp",
}  # fmt: skip
DOCUMENTS: Final = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
"""Formats by media type."""
EFFORTS: Final = ("low", "medium", "high")
"""Beyond them, it says, an effort counts as high where a model does not think before it answers."""
_SPEAKERS: Final = frozenset({*SYSTEM, "user", "assistant"})
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LABEL: Final = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,.-]{0,256}")
_MOST_LABELS: Final = 16
_MOST_IN_TURN: Final = {"image_url": 20, "file": 5}
_TEXTS: Final = frozenset({"text", "refusal"})
_PART_KINDS: Final = {
    "user": frozenset({"text", "image_url", "file"}),
    "tool": frozenset({"text", "image_url", "file"}),
    "assistant": _TEXTS,
}
_ONLY_TEXT: Final = frozenset({"text"})
_MESSAGE_KEYS: Final = frozenset({"role", "content", "cache_control"})
_ROLE_KEYS: Final = {
    "user": _MESSAGE_KEYS,
    "system": _MESSAGE_KEYS,
    "developer": _MESSAGE_KEYS,
    "assistant": _MESSAGE_KEYS | {"tool_calls", "refusal", "reasoning_content", "thinking_blocks"},
    "tool": _MESSAGE_KEYS | {"tool_call_id"},
}


def _no_tools(value: Any) -> bool:
    return value is not None and not (isinstance(value, list) and all(map(_is_tool, value)))


def _is_tool(tool: Any) -> bool:
    if not is_function(tool, _is_name) or not is_cache_mark(tool.get("cache_control")):
        return False
    function = tool["function"]
    return not function.get("strict") or is_accepted(function.get("parameters"), is_enforced)


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _no_tool_choice(value: Any) -> bool:
    if value is None or value in ("none", "auto", "required"):
        return False
    return not _is_name(named_choice(value))


_FIELDS: Final[Mapping[str, Row]] = {
    "temperature": ("sampling", outside(0, 1)),
    "top_p": ("sampling", outside(0, 1)),
    "top_k": ("sampling", no_count(-1, MOST)),
    "min_p": ("sampling", other_than(0)),
    "presence_penalty": ("sampling", other_than(0)),
    "frequency_penalty": ("sampling", other_than(0)),
    "repetition_penalty": ("sampling", other_than(1)),
    "seed": ("sampling", is_given),
    "stop": ("sampling", no_blank_stops),
    "n": ("choices", other_than(1)),
    "store": ("state", is_set),
    "service_tier": ("other", other_than("auto", "default", "flex", "priority")),
    "stream_options": ("other", no_stream_options),
    "tools": ("other", _no_tools),
    "functions": ("other", is_set),
    "tool_choice": ("other", _no_tool_choice),
    "function_call": ("other", is_given),
    "parallel_tool_calls": ("other", other_than(True)),
    "max_tool_calls": ("other", is_given),
    "response_format": ("other", no_format),
    "reasoning_effort": ("other", other_than(*EFFORTS)),
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
    offered, choice = bool(document.get("tools")), document.get("tool_choice")
    if (choice == "none") if offered else choice not in (None, "none", "auto"):
        yield CapabilityNeed("other", "tool_choice")
    if not _are_labels(labels(document)):
        yield CapabilityNeed("other", "metadata" if document.get("metadata") else "user")
    yield from _message_needs(document.get("messages"), offered)


def labels(document: Mapping[str, Any]) -> Mapping[Any, Any]:
    """What the caller says of a call for those who look at logs."""
    metadata = document.get("metadata") or {}
    user = document.get("safety_identifier") or document.get("user")
    if not isinstance(metadata, Mapping):
        return {"metadata": metadata}
    return metadata if user is None else {**metadata, "user": user}


def _are_labels(made: Mapping[Any, Any]) -> bool:
    return len(made) <= _MOST_LABELS and all(
        name and isinstance(value, str) and _LABEL.fullmatch(name) and _LABEL.fullmatch(value)
        for name, value in made.items()
    )


def _message_needs(messages: Any, offered: bool) -> Iterator[CapabilityNeed]:
    """Instructions stand once, in front of the conversation. `offered`: there are tools."""
    last, counted = "", dict.fromkeys(_MOST_IN_TURN, 0)
    for at, message in enumerate(messages):
        role, where = message["role"], f"messages[{at}]"
        if (last if role in SYSTEM else role == "assistant" and not last) or (
            not offered and (role == "tool" or message.get("tool_calls"))
        ):
            yield CapabilityNeed("other", where)
        content = message.get("content")
        plain = len(message) == 2 and role in _SPEAKERS and type(content) is str
        if not plain or is_blank(content):
            yield from _one_message_needs(message, role, content, where)
        if role == "assistant":
            counted = dict.fromkeys(_MOST_IN_TURN, 0)
        elif isinstance(content, list):
            yield from _part_needs(content, role, counted, where)
        last = "" if role in SYSTEM else role
    if last in ("", "assistant"):
        yield CapabilityNeed("other", f"messages[{len(messages) - 1}]")


def _part_needs(
    parts: list[Any], role: str, counted: dict[str, int], where: str
) -> Iterator[CapabilityNeed]:
    """What depends on the other parts of a message, and on those of its turn."""
    kinds = [part.get("type") for part in parts if isinstance(part, Mapping)]
    if role == "user" and "file" in kinds and "text" not in kinds:
        yield CapabilityNeed("parts", f"{where}.content")
    for kind, most in _MOST_IN_TURN.items():
        counted[kind] += kinds.count(kind)
        if counted[kind] > most:
            yield CapabilityNeed("parts", f"{where}.content")
    if role == "tool" and any(
        isinstance(p, Mapping) and p.get("cache_control") for p in parts[:-1]
    ):
        yield CapabilityNeed("other", f"{where}.content")  # a result is marked as a whole


def _one_message_needs(
    message: Mapping[str, Any], role: str, content: Any, where: str
) -> Iterator[CapabilityNeed]:
    keys = _ROLE_KEYS.get(role)
    if keys is None:
        yield CapabilityNeed("other", where)
        return
    for key, value in message.items():
        if value and key not in keys:
            yield CapabilityNeed("other", f"{where}.{key}")
    if not is_cache_mark(message.get("cache_control")):
        yield CapabilityNeed("other", f"{where}.cache_control")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield CapabilityNeed("other", f"{where}.tool_call_id")
    calls, refusal = message.get("tool_calls"), message.get("refusal")
    if calls and not (isinstance(calls, list) and all(is_tool_call(c, _is_name) for c in calls)):
        yield CapabilityNeed("other", f"{where}.tool_calls")
    if refusal and (not isinstance(refusal, str) or is_blank(refusal)):
        yield CapabilityNeed("other", f"{where}.refusal")
    if role == "assistant" and not _are_thoughts(message):
        yield CapabilityNeed("other", f"{where}.reasoning_content")
    if not content:
        if not (calls or refusal or role == "tool"):
            yield CapabilityNeed("other", f"{where}.content")
    elif isinstance(content, str):
        if is_blank(content):
            yield CapabilityNeed("other", f"{where}.content")
    else:
        kinds = _PART_KINDS.get(role, _ONLY_TEXT)
        for at, part in enumerate(content if isinstance(content, list) else (content,)):
            if not _is_part(part, kinds):
                yield CapabilityNeed("other", f"{where}.content[{at}]")


def _are_thoughts(message: Mapping[str, Any]) -> bool:
    """Whether the thoughts of an answer come back in the blocks in which they came."""
    blocks, thoughts = message.get("thinking_blocks") or [], message.get("reasoning_content") or ""
    if not isinstance(blocks, list) or not all(map(_is_thought, blocks)):
        return False
    return bool(thoughts == "" or thoughts == "".join([b.get("thinking", "") for b in blocks]))


def _is_thought(block: Any) -> bool:
    """Not all models sign what they thought."""
    if not isinstance(block, Mapping):
        return False
    if block.get("type") == "redacted_thinking":
        data = block.get("data")
        return (
            block.keys() <= {"type", "index", "data"}
            and isinstance(data, str)
            and len(data) % 4 == 0
            and _BASE64.fullmatch(data) is not None
        )
    return (
        block.get("type") == "thinking"
        and block.keys() <= {"type", "index", "thinking", "signature"}
        and isinstance(block.get("thinking"), str)
        and isinstance(block.get("signature", ""), str)
    )


def _is_part(part: Any, kinds: frozenset[str]) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in kinds:
        return False
    if any(value and key not in ("type", kind, "cache_control") for key, value in part.items()):
        return False
    if not is_cache_mark(part.get("cache_control")):
        return False
    value = part.get(kind)
    if kind in _TEXTS:
        return isinstance(value, str) and not is_blank(value)
    if not isinstance(value, Mapping):
        return False
    if kind == "image_url":
        detail = value.get("detail") in (None, "auto", "high")
        return detail and value.keys() <= {"url", "detail"} and _has_data(value.get("url"), IMAGES)
    return (
        isinstance(value.get("filename"), str | None)
        and value.keys() <= {"file_data", "filename"}
        and _has_data(value.get("file_data"), DOCUMENTS)
    )


def _has_data(url: Any, media: Mapping[str, str]) -> bool:
    data = DATA_URL.match(url) if isinstance(url, str) else None
    return data is not None and data[1] in media and data.end() < len(url)
