"""What of a chat the Anthropic Messages API has no words for (version 2023-06-01).

By its schema as published in August 2026, and what its documentation adds: sequences that stop an
answer are not blank, no text is blank, thinking does not go with a forced tool or with parameters
of sampling, and schemas of answers are of a subset of JSON Schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.core.operations.capabilities import (
    is_formatted,
    is_given,
    is_set,
    other_than,
)
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
    outside,
)
from gateway.core.operations.json_schema import is_accepted
from gateway.core.operations.spec import CapabilityNeed, Row

OFFERED: Final = frozenset({"tools", "structured_output", "parts", "reasoning"})
"""Capabilities that it has words for, if not for all that each can hold."""
IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
PDF: Final = "application/pdf"
THOUGHTS: Final = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}
"""The fields of blocks that tell what a model thought."""
_SPEAKERS: Final = frozenset({*SYSTEM, "user", "assistant"})
_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
_THINKING: Final[Mapping[str, tuple[str, ...]]] = {
    "adaptive": ("display",),
    "enabled": ("budget_tokens", "display"),
    "between_tools": (),
    "disabled": (),
}
_LEAST_BUDGET: Final = 1024
_FORCES: Final = ("required", "function")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_LONGEST_USER: Final = 256
_TEXTS: Final = frozenset({"text", "refusal"})
_KEYS: Final = {
    "text": frozenset({"type", "text", "cache_control", "document"}),
    "refusal": frozenset({"type", "refusal"}),
    "image_url": frozenset({"type", "image_url", "cache_control"}),
    "file": frozenset({"type", "file", "cache_control", "context"}),
}
_MARK: Final = frozenset({"cache_control"})
_MESSAGE_KEYS: Final = frozenset({"role", "content", "cache_control"})
_ROLE_KEYS: Final = {
    "user": _MESSAGE_KEYS,
    "system": _MESSAGE_KEYS,
    "developer": _MESSAGE_KEYS,
    "assistant": _MESSAGE_KEYS | {"tool_calls", "refusal", "reasoning_content", "thinking_blocks"},
    "tool": _MESSAGE_KEYS | {"tool_call_id", "is_error"},
}


def no_blank_stops(value: Any) -> bool:
    if value is None:
        return False
    stops = value if isinstance(value, list) else [value]
    return not all(isinstance(stop, str) and not is_blank(stop) for stop in stops)


def _no_user(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and len(value) <= _LONGEST_USER)


def _no_thinking(value: Any) -> bool:
    if value is None:
        return False
    kind = value.get("type") if isinstance(value, Mapping) else None
    keys = _THINKING.get(kind) if isinstance(kind, str) else None
    if keys is None or not value.keys() <= {"type", *keys}:
        return True
    budget = value.get("budget_tokens", None if kind == "enabled" else _LEAST_BUDGET)
    shown = value.get("display") in (None, "summarized", "omitted")
    return not shown or type(budget) is not int or budget < _LEAST_BUDGET


def _no_tools(value: Any) -> bool:
    return value is not None and not (isinstance(value, list) and all(map(_is_tool, value)))


def _is_tool(tool: Any) -> bool:
    if not is_function(tool, _is_name) or not is_cache_mark(tool.get("cache_control")):
        return False
    function = tool["function"]
    return not function.get("strict") or is_accepted(function.get("parameters"), is_enforced)


def _is_tool_call(call: Any) -> bool:
    return is_tool_call(call, _is_name, _MARK) and is_cache_mark(call.get("cache_control"))


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _no_cache_mark(value: Any) -> bool:
    return not is_cache_mark(value)


def is_cache_mark(value: Any) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, Mapping)
        and value.get("type") == "ephemeral"
        and value.get("ttl", "5m") in ("5m", "1h")
        and value.keys() <= {"type", "ttl"}
    )


def _no_tool_choice(value: Any) -> bool:
    if value is None or value in ("none", "auto", "required"):
        return False
    return not _is_name(named_choice(value))


def no_format(value: Any) -> bool:
    if not is_formatted(value):
        return False
    if not isinstance(value, Mapping) or value.get("type") != "json_schema":
        return True  # any JSON: it takes a schema
    stated = value.get("json_schema")
    schema = stated.get("schema") if isinstance(stated, Mapping) else None
    return not is_accepted(schema, is_enforced)


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
    "user": ("other", _no_user),
    "safety_identifier": ("other", _no_user),
    "store": ("state", is_set),
    "service_tier": ("other", other_than("auto", "default")),
    "stream_options": ("other", no_stream_options),
    "tools": ("other", _no_tools),
    "functions": ("other", is_set),
    "tool_choice": ("other", _no_tool_choice),
    "function_call": ("other", is_given),
    "parallel_tool_calls": ("other", other_than(True, False)),
    "max_tool_calls": ("other", is_given),
    "response_format": ("other", no_format),
    "reasoning_effort": ("other", other_than("none", *_EFFORTS)),
    "thinking": ("other", _no_thinking),
    "cache_control": ("other", _no_cache_mark),
    "verbosity": ("other", other_than("medium")),
}
"""The capability that a field needs, and for which of its values."""


def needs(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    """What of a chat has no words there: each is a capability that the kind does not offer."""
    for key, value in document.items():
        row = _FIELDS.get(key)
        if row is not None and row[1](value):
            yield CapabilityNeed(row[0], key)
    temperature, top_p = document.get("temperature"), document.get("top_p")
    if temperature not in (None, 1) and top_p not in (None, 1):
        yield CapabilityNeed("sampling", "top_p")  # one of both, say its models
    if thinks(document) and (
        temperature not in (None, 1)
        or top_p not in (None, 1)
        or is_limited(document.get("top_k"))
        or _forces_tool(document.get("tool_choice"))
    ):
        yield CapabilityNeed("other", "thinking" if "thinking" in document else "reasoning_effort")
    yield from _message_needs(document.get("messages"))


def thinks(document: Mapping[str, Any]) -> bool:
    """Whether the caller asks for thinking before the answer: by `thinking` where the call has it,
    which is then apart from the effort."""
    if "thinking" not in document:
        return document.get("reasoning_effort") in _EFFORTS
    stated = document["thinking"]
    return isinstance(stated, Mapping) and stated.get("type") in ("adaptive", "enabled")


def is_limited(top_k: Any) -> bool:
    """Whether it takes tokens away: -1 and 0 are words for all of them."""
    return top_k not in (None, 0, -1)


def _forces_tool(choice: Any) -> bool:
    return (choice.get("type") if isinstance(choice, Mapping) else choice) in _FORCES


def _message_needs(messages: Any) -> Iterator[CapabilityNeed]:
    """Instructions stand once, in front of the conversation; behind its last turn an answer begins,
    which goes on with it if that was the assistant's."""
    begun, last = False, ""
    for at, message in enumerate(messages):
        role, where = message["role"], f"messages[{at}]"
        if role in SYSTEM:
            if begun:
                yield CapabilityNeed("other", where)
        else:
            begun, last = True, role
        content = message.get("content")
        plain = len(message) == 2 and role in _SPEAKERS and type(content) is str
        if not plain or is_blank(content):
            yield from _one_message_needs(message, role, content, where)
    if last in ("", "assistant"):
        yield CapabilityNeed("other", f"messages[{len(messages) - 1}]")


def _one_message_needs(
    message: Mapping[str, Any], role: str, content: Any, where: str
) -> Iterator[CapabilityNeed]:
    spoken = _ROLE_KEYS.get(role)
    if spoken is None:
        yield CapabilityNeed("other", where)
        return
    for key, value in message.items():
        if value and key not in spoken:
            yield CapabilityNeed("other", f"{where}.{key}")
    if not is_cache_mark(message.get("cache_control")):
        yield CapabilityNeed("other", f"{where}.cache_control")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield CapabilityNeed("other", f"{where}.tool_call_id")
    calls, refusal = message.get("tool_calls"), message.get("refusal")
    if calls and not (isinstance(calls, list) and all(map(_is_tool_call, calls))):
        yield CapabilityNeed("other", f"{where}.tool_calls")
    if refusal and (not isinstance(refusal, str) or is_blank(refusal)):
        yield CapabilityNeed("other", f"{where}.refusal")
    if role == "assistant" and not _are_signed(message):
        yield CapabilityNeed("other", f"{where}.reasoning_content")
    if not content:
        if not (calls or refusal or role == "tool" or message.get("thinking_blocks")):
            yield CapabilityNeed("other", f"{where}.content")
    elif isinstance(content, str):
        if is_blank(content):
            yield CapabilityNeed("other", f"{where}.content")
    else:
        for at, part in enumerate(content if isinstance(content, list) else (content,)):
            if not _is_part(part, role):
                yield CapabilityNeed("other", f"{where}.content[{at}]")


def _are_signed(message: Mapping[str, Any]) -> bool:
    """Whether the thoughts of an answer come back as they were signed: alone they say nothing."""
    blocks, thoughts = message.get("thinking_blocks") or [], message.get("reasoning_content") or ""
    if not isinstance(blocks, list) or not all(map(_is_thought, blocks)):
        return False
    return bool(thoughts == "" or thoughts == "".join([b.get("thinking", "") for b in blocks]))


def _is_thought(block: Any) -> bool:
    kind = block.get("type") if isinstance(block, Mapping) else None
    fields = THOUGHTS.get(kind) if isinstance(kind, str) else None
    if fields is None or not block.keys() <= {"type", "index", *fields}:
        return False
    return all(isinstance(block.get(name), str) for name in fields) and block[fields[-1]] != ""


def _is_part(part: Any, role: str) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in _KEYS:
        return False
    if any(v and key not in _KEYS[kind] for key, v in part.items()):
        return False
    if not is_cache_mark(part.get("cache_control")):
        return False
    if kind in _TEXTS:
        text = part.get(kind)
        spoken = kind == "text" or role == "assistant"
        return (
            spoken
            and isinstance(text, str)
            and not is_blank(text)
            and (not part.get("document") or _is_text_document(part["document"], role))
        )
    if role not in ("user", "tool"):
        return False
    if not isinstance(part.get("context"), str | None):
        return False
    return _is_image(part.get(kind)) if kind == "image_url" else _is_file(part.get(kind))


def _is_image(image: Any) -> bool:
    if not isinstance(image, Mapping) or not isinstance(url := image.get("url"), str):
        return False
    if image.get("detail") not in (None, "auto", "high") or not image.keys() <= {"url", "detail"}:
        return False
    data = DATA_URL.match(url)
    return url.startswith("https://") if data is None else data[1] in IMAGES


def _is_file(file: Any) -> bool:
    if not isinstance(file, Mapping) or not isinstance(file.get("filename"), str | None):
        return False
    url = file.get("file_url")
    if url is not None:
        keys = {"file_url", "filename"}
        return isinstance(url, str) and url.startswith("https://") and file.keys() <= keys
    url = file.get("file_data")
    data = DATA_URL.match(url) if isinstance(url, str) else None
    return data is not None and data[1] == PDF and file.keys() <= {"file_data", "filename"}


def _is_text_document(stated: Any, role: str) -> bool:
    """Of a text that is a document: its title and what it is, both if they are known."""
    return (
        role in ("user", "tool")
        and isinstance(stated, Mapping)
        and stated.keys() <= {"type", "title", "context"}
        and all(isinstance(value, str) for value in stated.values())
    )
