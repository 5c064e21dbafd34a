"""What of a Responses call a chat has no words for (OpenAI's API as published in November 2026)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.core.operations.capabilities import PLAIN, is_set, other_than
from gateway.core.operations.dialects.responses.chat import (
    ROLES,
    SAME_FIELDS,
    TEXTS,
    is_own_item,
    signed_thought,
)
from gateway.core.operations.spec import CapabilityNeed, Row

_NOTED: Final = frozenset({"id", "status", "type"})
_MESSAGE_KEYS: Final = _NOTED | {"role", "content"}
_CALL_KEYS: Final = _NOTED | {"call_id", "name", "arguments", "parsed_arguments"}
"""With what the openai SDK adds to a call that it has read, as below to a text."""
_OUTPUT_KEYS: Final = _NOTED | {"call_id", "name", "output"}
_THOUGHT_KEYS: Final = _NOTED | {"summary", "content", "encrypted_content"}
_PART_KEYS: Final = {
    **dict.fromkeys(TEXTS, frozenset({"type", "text", "annotations", "logprobs", "parsed"})),
    "refusal": frozenset({"type", "refusal"}),
    "input_image": frozenset({"type", "image_url", "detail"}),
    "input_file": frozenset({"type", "file_data", "filename", "detail"}),
    "input_audio": frozenset({"type", "input_audio"}),
}
_TOOL_KEYS: Final = frozenset({"type", "name", "description", "parameters", "strict"})
_SHAPE_KEYS: Final = {
    "text": frozenset({"type"}),
    "json_object": frozenset({"type"}),
    "json_schema": frozenset({"type", "name", "schema", "strict", "description"}),
}
_SUMMARIES: Final = {"summary": ("auto", "detailed")}  # all that was thought is the longest
_DIRECT: Final = {"type": "direct"}  # a call by the model itself, as all are in chats


def _has(value: Any, keys: frozenset[str]) -> bool:
    """Whether an object has values under these keys alone."""
    return isinstance(value, Mapping) and all(
        key in keys or each in (None, _DIRECT, False, []) for key, each in value.items()
    )


def _no_text(value: Any) -> bool:
    return value is not None and not isinstance(value, str)


def _no_stream_options(value: Any) -> bool:
    return value is not None and not _has(value, frozenset())


def _no_tools(value: Any) -> bool:
    return value is not None and not (isinstance(value, list) and all(map(_is_tool, value)))


def _is_tool(tool: Any) -> bool:
    return (
        _has(tool, _TOOL_KEYS)
        and tool.get("type") == "function"
        and isinstance(tool.get("name"), str)
    )


def _no_tool_choice(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return value not in (None, "none", "auto", "required")
    named = isinstance(value, Mapping) and value.keys() == {"type", "name"}
    return not (named and value["type"] == "function" and isinstance(value["name"], str))


def _no_wording(value: Any) -> bool:
    return value is not None and not _has(value, frozenset({"format", "verbosity"}))


def _no_shape(value: Any) -> bool:
    kind = value.get("type") if isinstance(value, Mapping) else value
    if value is None or not isinstance(kind, str):
        return value is not None
    return kind not in _SHAPE_KEYS or not _has(value, _SHAPE_KEYS[kind])


_FIELDS: Final[Mapping[str, Row]] = {
    "input": PLAIN,  # each by itself
    "instructions": ("other", _no_text),
    "store": ("state", is_set),
    "previous_response_id": ("state", is_set),
    "conversation": ("state", is_set),
    "prompt": ("state", is_set),
    "background": ("state", is_set),
    "include": ("other", other_than([], ["reasoning.encrypted_content"])),
    "truncation": ("truncation", other_than("disabled")),
    "top_logprobs": ("logprobs", is_set),
    "n": ("choices", other_than(1)),
    "tools": ("tools", _no_tools),
    "tool_choice": ("tools", _no_tool_choice),
    "parallel_tool_calls": ("other", other_than(True, False)),
    "max_tool_calls": PLAIN,  # a bound of tools that an endpoint has
    "max_output_tokens": PLAIN,
    "metadata": PLAIN,  # the answer repeats it
    "stream_options": ("other", _no_stream_options),
    "text": ("other", _no_wording),
    "reasoning": ("reasoning", lambda value: value is not None and not isinstance(value, Mapping)),
}
"""The capability that a field needs, and for which of its values."""


def needs(document: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    """What no chat says, in whatever dialect."""
    for key, value in document.items():
        row = _FIELDS.get(key)
        if row is None:
            if key not in SAME_FIELDS and value is not None:
                yield CapabilityNeed("other", key)
        elif row[1](value):
            yield CapabilityNeed(row[0], key)
    wording, reasoning = document.get("text"), document.get("reasoning")
    if isinstance(wording, Mapping) and _no_shape(wording.get("format")):
        yield CapabilityNeed("structured_output", "text.format")
    if isinstance(reasoning, Mapping):
        for key, value in reasoning.items():
            if value is not None and key != "effort" and value not in _SUMMARIES.get(key, ()):
                yield CapabilityNeed("reasoning", f"reasoning.{key}")
    given = document.get("input")
    items = given if isinstance(given, list) else ()
    if not isinstance(given, str) and not any(map(_has_words, items)):
        yield CapabilityNeed("other", "input")
    calls: set[str] = set()  # whose outputs are still to come
    for at, item in enumerate(items):
        field = _unsaid(item)
        if field is None and _breaks_turn(item, calls):
            field = ""
        if field is not None:
            capability = "state" if item.get("type") == "item_reference" else "other"
            yield CapabilityNeed(capability, f"input[{at}]{field}")


def _unsaid(item: Mapping[str, Any]) -> str | None:
    """Where an item says something that a chat cannot; None: nowhere."""
    kind = item.get("type") or "message"
    if kind == "message":
        role = item.get("role")
        if not isinstance(role, str) or role not in ROLES or not _has(item, _MESSAGE_KEYS):
            return ""
        return _unsaid_parts(item.get("content"), role, ".content")
    if kind == "function_call":
        texts = (item.get("call_id"), item.get("name"), item.get("arguments"))
        strings = all(isinstance(text, str) for text in texts)
        return None if strings and _has(item, _CALL_KEYS) else ""
    if kind == "function_call_output":
        if not isinstance(item.get("call_id"), str) or not _has(item, _OUTPUT_KEYS):
            return ""
        return _unsaid_parts(item.get("output"), "tool", ".output")
    return None if kind == "reasoning" and _is_thought(item) else ""


def _breaks_turn(item: Mapping[str, Any], calls: set[str]) -> bool:
    """Whether it comes where no chat has it: there, the outputs of all calls follow the turn that
    calls, before anybody else speaks."""
    kind = item.get("type")
    if kind == "function_call":
        calls.add(item["call_id"])
    elif kind == "function_call_output":
        if item["call_id"] not in calls:
            return True
        calls.remove(item["call_id"])
    elif kind != "reasoning" and calls:
        return bool(item["role"] != "assistant")
    return False


def _has_words(item: Mapping[str, Any]) -> bool:
    """Whether there is anything to be made a message of."""
    if item.get("type") != "reasoning":
        return True
    return any(item.get(key) for key in ("summary", "content", "encrypted_content"))


def _is_thought(item: Mapping[str, Any]) -> bool:
    """Whether it is told in full, or signed by an endpoint of chats. No words there have summaries
    of others, what they have encrypted, and what only stands for a thought that they keep."""
    summary, content = item.get("summary") or [], item.get("content") or []
    if not (_has(item, _THOUGHT_KEYS) and isinstance(summary, list) and isinstance(content, list)):
        return False
    if not all(map(_is_text, (*summary, *content))):
        return False
    own_id, encrypted = item.get("id"), item.get("encrypted_content")
    if encrypted and signed_thought(encrypted) is None:
        return False
    return is_own_item(own_id) or bool(not summary and (content or encrypted or own_id is None))


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)


def _unsaid_parts(content: Any, role: str, field: str) -> str | None:
    if isinstance(content, str):
        return None
    if not isinstance(content, list):
        return field
    for at, part in enumerate(content):
        if not _is_part(part, role):
            return f"{field}[{at}]"
    return None


def _is_part(part: Any, role: str) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    keys = _PART_KEYS.get(kind) if isinstance(kind, str) else None
    if keys is None or not _has(part, keys):
        return False
    if kind in TEXTS:
        return isinstance(part.get("text"), str)
    if kind == "refusal":
        return role == "assistant" and isinstance(part.get("refusal"), str)
    if role == "assistant":
        return False
    if kind == "input_image":
        detail = part.get("detail")
        return isinstance(part.get("image_url"), str) and detail in (None, "auto", "low", "high")
    if kind == "input_file":
        return isinstance(part.get("file_data"), str) and part.get("detail") in (None, "auto")
    return isinstance(part.get("input_audio"), Mapping)


def chat_needs(chat: Mapping[str, Any]) -> Iterator[CapabilityNeed]:
    """What of a chat so made OpenAI's own API has no words for; other APIs may."""
    for at, message in enumerate(chat["messages"]):
        content = message["content"]
        if "thinking_blocks" in message:
            yield CapabilityNeed("reasoning", f"messages[{at}].thinking_blocks")
        textual = message["role"] in ("tool", "system")
        if textual and isinstance(content, list) and any(p["type"] != "text" for p in content):
            yield CapabilityNeed("parts", f"messages[{at}].content")
