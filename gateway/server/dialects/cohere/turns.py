"""The messages of Cohere's Chat as those of a chat, which are nearly the same."""

from __future__ import annotations

from typing import Any, Final

from gateway.core.errors import WRONG_TYPE, InvalidField
from gateway.core.operations.spec import CapabilityNeed
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects.fields import block_type, check_object, not_offered, text_field, word

_KEYS: Final = {
    "system": frozenset({"role", "content"}),
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content", "tool_calls", "tool_plan"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
_CALL: Final = frozenset({"id", "type", "function"})


class CohereTurns:
    """The messages of one chat, one for each of the caller's."""

    def __init__(self) -> None:
        self.messages: list[JsonDocument] = []
        self.unsaid: list[CapabilityNeed] = []

    def turn(self, at: int, message: Any) -> None:
        """Raises InvalidField."""
        where = f"messages[{at}]"
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _KEYS:
            raise InvalidField(f"{where}.role", f"must be one of {', '.join(sorted(_KEYS))}")
        if role == "assistant" and not message.get("citations"):
            message = {key: each for key, each in message.items() if key != "citations"}
        check_object(message, where, _KEYS[role])
        content = message.get("content")
        if role == "assistant":
            self.messages.append(_answer(message, where))
            return
        made: JsonDocument = {"role": role}
        if role == "tool":
            made["tool_call_id"] = text_field(message, "tool_call_id", where)
        if isinstance(content, str):
            made["content"] = content
        else:
            made["content"] = [
                _part(part, role, f"{where}.content[{number}]")
                for number, part in enumerate(_list(content, f"{where}.content"))
            ]
        self.messages.append(made)

    def end(self) -> None:
        """An answer that goes on with a turn of the assistant's has no words in a chat."""
        if self.messages[-1]["role"] == "assistant":
            self.unsaid.append(CapabilityNeed("other", f"messages[{len(self.messages) - 1}]"))


def _list(content: Any, where: str) -> list[Any]:
    if not isinstance(content, list) or not content:
        raise InvalidField(where, "must be a string or a list", WRONG_TYPE)
    return content


def _part(part: Any, role: str, where: str) -> JsonDocument:
    kind = block_type(part, where)
    if kind == "text":
        return _text(part, where)
    if kind == "image_url" and role == "user":
        check_object(part, where, frozenset({"type", kind}))
        check_object(part.get(kind), f"{where}.{kind}", frozenset({"url", "detail"}))
        image = {key: each for key, each in part[kind].items() if each is not None}
        text_field(image, "url", f"{where}.{kind}")
        return {"type": kind, kind: image}
    if kind == "document" and role == "tool":
        check_object(part, where, frozenset({"type", kind}))
        check_object(part.get(kind), f"{where}.{kind}", frozenset({"id", "data"}))
        return {"type": "text", "text": strictjson.dumps(part[kind]).decode()}
    raise not_offered(where, kind)


def _text(part: Any, where: str) -> JsonDocument:
    check_object(part, where, frozenset({"type", "text"}))
    return {"type": "text", "text": text_field(part, "text", where)}


def _answer(message: JsonDocument, where: str) -> JsonDocument:
    """What the model planned to do with tools is what it said before it called them."""
    texts: list[JsonDocument] = []
    thought, content = "", message.get("content")
    if message.get("tool_plan"):
        texts.append({"type": "text", "text": text_field(message, "tool_plan", where)})
    if isinstance(content, str):
        texts += [{"type": "text", "text": content}] if content else []
    elif content:
        for at, part in enumerate(_list(content, f"{where}.content")):
            place = f"{where}.content[{at}]"
            kind = block_type(part, place)
            if kind == "thinking":
                check_object(part, place, frozenset({"type", kind}))
                thought += text_field(part, kind, place)
            elif kind == "text":
                texts.append(_text(part, place))
            else:
                raise not_offered(place, kind)
    calls = [
        _call(call, f"{where}.tool_calls[{at}]")
        for at, call in enumerate(message.get("tool_calls") or ())
    ]
    spoken: Any = texts[0]["text"] if len(texts) == 1 else texts or (None if calls else "")
    made: JsonDocument = {"role": "assistant", "content": spoken}
    if thought:
        made["reasoning_content"] = thought
    if calls:
        made["tool_calls"] = calls
    return made


def _call(call: Any, where: str) -> JsonDocument:
    check_object(call, where, _CALL)
    word(call.get("type") or "function", {"function": ""}, f"{where}.type")
    stated = call.get("function")
    place = f"{where}.function"
    check_object(stated, place, frozenset({"name", "arguments"}))
    arguments = text_field(stated, "arguments", place) if stated.get("arguments") else "{}"
    function = {"name": text_field(stated, "name", place), "arguments": arguments}
    return {"id": text_field(call, "id", where), "type": "function", "function": function}
