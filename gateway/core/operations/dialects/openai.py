"""A chat that a front of another API has made, in the words of OpenAI's API alone.

What changes an answer and has no words there is in the call's `Translation.unsaid`, so that it does
not come this far.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_EXTENSIONS: Final = ("cache_control", "thinking")
_FILE: Final = "document.pdf"


def spoken(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A chat with extensions of other APIs as OpenAI's API takes it, and the fields left out, which
    change nothing of an answer: marks for a cache, signatures, how much of a thought is shown.
    What a model thought is `reasoning_content`, and the error of a tool is said in its result."""
    omitted: dict[str, None] = {}
    made = {key: value for key, value in document.items() if key not in _EXTENSIONS}
    omitted.update(dict.fromkeys(key for key in _EXTENSIONS if document.get(key) is not None))
    made["messages"] = [_message(each, omitted) for each in document["messages"]]
    if "tools" in document:
        made["tools"] = [_without_mark(each, omitted) for each in document["tools"]]
    shape = document.get("response_format")
    if isinstance(shape, Mapping) and "json_schema" in shape:
        made["response_format"] = {
            **shape, "json_schema": {"name": "answer", **shape["json_schema"]},
        }  # fmt: skip
    return made, list(omitted)


def _without_mark(value: Mapping[str, Any], omitted: dict[str, None]) -> Mapping[str, Any]:
    if "cache_control" not in value:
        return value
    omitted["cache_control"] = None
    return {key: item for key, item in value.items() if key != "cache_control"}


def _message(message: Mapping[str, Any], omitted: dict[str, None]) -> Mapping[str, Any]:
    content = message.get("content")
    if len(message) == 2 and type(content) is str:
        return message
    made = {**_without_mark(message, omitted)}
    if isinstance(content, list):
        made["content"] = [_part(each, omitted) for each in content]
    if blocks := made.pop("thinking_blocks", None):
        made["reasoning_content"] = "".join([each.get("thinking", "") for each in blocks])
        omitted["thinking.signature"] = None
    if made.pop("extra_content", None):
        omitted["thought_signature"] = None
    if "tool_calls" in made:
        made["tool_calls"] = [_call(each, omitted) for each in made["tool_calls"]]
    if made.pop("is_error", False):
        made["content"] = _failed(made.get("content"))
    return made


def _call(call: Mapping[str, Any], omitted: dict[str, None]) -> Mapping[str, Any]:
    if "extra_content" in call:
        omitted["thought_signature"] = None
        call = {key: value for key, value in call.items() if key != "extra_content"}
    return _without_mark(call, omitted)


def _part(part: Mapping[str, Any], omitted: dict[str, None]) -> Mapping[str, Any]:
    part = _without_mark(part, omitted)
    kind = part["type"]
    if kind == "file":
        return {"type": kind, kind: {"filename": _FILE, **part[kind]}}
    return {"type": kind, kind: part[kind]}


def _failed(content: Any) -> Any:
    """A result of a tool in words that say that it is an error."""
    if isinstance(content, list):
        return [{"type": "text", "text": "Error:"}, *content]
    return f"Error: {content}" if content else "Error"
