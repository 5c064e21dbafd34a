"""The messages of a Converse call as those of a chat.

What a chat has no words for stands in the words that the Messages API has for it
(`thinking_blocks`, `cache_control`, `is_error`), and as an unsaid need where OpenAI's API would
lose it.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any, Final

from gateway.core.errors import WRONG_TYPE, InvalidField
from gateway.core.operations.spec import CapabilityNeed
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects.fields import check_keys, check_object, not_offered, text_field, word

_MESSAGE: Final = frozenset({"role", "content"})
_IMAGES: Final = {each: f"image/{each}" for each in ("png", "jpeg", "gif", "webp")}
_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_DOCUMENTS: Final = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
    "doc": "application/msword",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
}
_DOCUMENT: Final = frozenset({"format", "name", "source", "context", "citations"})
_RESULT: Final = frozenset({"toolUseId", "content", "status"})


class ConverseTurns:
    """The messages of one chat, as they are made."""

    def __init__(self) -> None:
        self.messages: list[JsonDocument] = []
        self.turns: list[int] = []  # of each, the caller's
        self.unsaid: list[CapabilityNeed] = []
        self._at = -1

    def system(self, content: Any) -> None:
        """Instructions in front of the conversation."""
        if content:
            self._instruct(content, "system")

    def turn(self, at: int, message: Any) -> None:
        """Raises InvalidField."""
        self._at, where = at, f"messages[{at}]"
        check_object(message, where, _MESSAGE)
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant", "system"):
            raise InvalidField(f"{where}.role", "must be user or assistant")
        where = f"{where}.content"
        if not isinstance(content, list) or not content:
            raise InvalidField(where, "must be a list of blocks", WRONG_TYPE)
        if role == "user":
            self._user(content, where)
        elif role == "assistant":
            self._assistant(content, where)
        else:
            self._instruct(content, where)

    def end(self) -> None:
        """An answer that goes on with a turn of the assistant's has no words in a chat."""
        if self.messages[-1]["role"] == "assistant":
            self._lacks("other", f"messages[{self._at}]")

    def _add(self, message: JsonDocument) -> None:
        self.messages.append(message)
        self.turns.append(self._at)

    def _lacks(self, capability: str, name: str) -> None:
        self.unsaid.append(CapabilityNeed(capability, name))

    def _instruct(self, content: Any, where: str) -> None:
        if not isinstance(content, list):
            raise InvalidField(where, "must be a list of blocks", WRONG_TYPE)
        parts: list[JsonDocument] = []
        for at, block in enumerate(content):
            name = f"{where}[{at}]"
            kind, value = _block(block, name)
            if kind == "cachePoint":
                _mark(parts, value, name)
            elif kind == "text":
                parts.append({"type": "text", "text": text_field(block, kind, name)})
            else:
                raise not_offered(f"{name}.{kind}")
        self._add({"role": "system", "content": _plain(parts)})

    def _user(self, content: list[Any], where: str) -> None:
        parts: list[JsonDocument] = []
        results: list[JsonDocument] = []
        for at, block in enumerate(content):
            name = f"{where}[{at}]"
            kind, value = _block(block, name)
            if kind == "cachePoint":
                _mark(parts or results, value, name)
            elif kind != "toolResult":
                parts.append(self._part(kind, value, name))
            elif parts:
                raise InvalidField(name, "results of tools come first in their message")
            else:
                results.append(self._result(value, f"{name}.{kind}"))
        for result in results:
            self._add(result)
        if parts:
            self._add({"role": "user", "content": _plain(parts)})

    def _result(self, result: Any, where: str) -> JsonDocument:
        check_object(result, where, _RESULT)
        content = result.get("content")
        if not isinstance(content, list):
            raise InvalidField(f"{where}.content", "must be a list of blocks", WRONG_TYPE)
        parts: list[JsonDocument] = []
        for at, block in enumerate(content):
            name = f"{where}.content[{at}]"
            kind, value = _block(block, name)
            if kind == "json":
                parts.append({"type": "text", "text": strictjson.dumps(value).decode()})
                continue
            if kind != "text":
                self._lacks("parts", name)
            parts.append(self._part(kind, value, name))
        made: JsonDocument = {
            "role": "tool",
            "tool_call_id": text_field(result, "toolUseId", where),
            "content": _plain(parts) if parts else "",
        }
        states = {"success": "", "error": "error"}
        if word(result.get("status") or "success", states, f"{where}.status"):
            made["is_error"] = True
        return made

    def _part(self, kind: str, value: Any, where: str) -> JsonDocument:
        name = f"{where}.{kind}"
        if kind == "text":
            return {"type": "text", "text": text_field({kind: value}, kind, where)}
        if kind == "image":
            check_object(value, name, frozenset({"format", "source"}))
            media = word(value.get("format"), _IMAGES, f"{name}.format")
            return {"type": "image_url", "image_url": {"url": _data_url(value, media, name)}}
        if kind == "document":
            return self._document(value, name)
        raise not_offered(name)

    def _document(self, value: Any, where: str) -> JsonDocument:
        check_object(value, where, _DOCUMENT)
        if value.get("citations") not in (None, {"enabled": False}):
            raise not_offered(f"{where}.citations")
        title, source = text_field(value, "name", where), value.get("source")
        context = text_field(value, "context", where) if value.get("context") else ""
        if context:
            self._lacks("other", f"{where}.context")
        if isinstance(source, dict) and source.get("text") is not None:
            check_keys(source, frozenset({"text"}), f"{where}.source")
            self._lacks("other", f"{where}.name")
            stated: JsonDocument = {"type": "document", "title": title}
            if context:
                stated["context"] = context
            text = text_field(source, "text", f"{where}.source")
            return {"type": "text", "text": text, "document": stated}
        media = word(value.get("format"), _DOCUMENTS, f"{where}.format")
        if media != _DOCUMENTS["pdf"]:
            self._lacks("parts", f"{where}.format")
        file = {"file_data": _data_url(value, media, where), "filename": title}
        made: JsonDocument = {"type": "file", "file": file}
        return {**made, "context": context} if context else made

    def _assistant(self, content: list[Any], where: str) -> None:
        """A message of a chat has what was thought, what was said, and calls, in this order."""
        thoughts: list[JsonDocument] = []
        texts: list[JsonDocument] = []
        calls: list[JsonDocument] = []
        for at, block in enumerate(content):
            name = f"{where}[{at}]"
            kind, value = _block(block, name)
            if kind == "cachePoint":
                _mark(calls or texts, value, name)
            elif kind == "toolUse":
                calls.append(_call(value, f"{name}.{kind}"))
            elif kind == "text" and not calls:
                texts.append({"type": "text", "text": text_field(block, kind, name)})
            elif kind == "reasoningContent" and not calls and not texts:
                thoughts.append(self._thought(value, f"{name}.{kind}"))
            elif kind in ("text", "reasoningContent"):
                raise InvalidField(name, "must stand in front of text and calls, in this order")
            else:
                raise not_offered(f"{name}.{kind}")
        spoken = _plain(texts) if texts else None if calls else ""
        made: JsonDocument = {"role": "assistant", "content": spoken}
        if thoughts:
            made["thinking_blocks"] = thoughts
        if calls:
            made["tool_calls"] = calls
        self._add(made)

    def _thought(self, value: Any, where: str) -> JsonDocument:
        check_object(value, where, frozenset({"reasoningText", "redactedContent"}))
        if value.get("redactedContent") is not None:
            self._lacks("reasoning", where)
            data = text_field(value, "redactedContent", where)
            try:
                return {
                    "type": "redacted_thinking", "data": b64decode(data, validate=True).decode(),
                }  # fmt: skip
            except (binascii.Error, UnicodeDecodeError):
                raise InvalidField(f"{where}.redactedContent", "is of no answer here") from None
        where = f"{where}.reasoningText"
        stated = value.get("reasoningText")
        check_object(stated, where, frozenset({"text", "signature"}))
        signature = text_field(stated, "signature", where) if stated.get("signature") else ""
        text = text_field(stated, "text", where)
        return {"type": "thinking", "thinking": text, "signature": signature}


def cache_mark(point: Any, where: str) -> JsonDocument:
    """What stands in front of a point is kept. Raises InvalidField."""
    check_object(point, where, frozenset({"type", "ttl"}))
    word(point.get("type"), {"default": ""}, f"{where}.type")
    made: JsonDocument = {"type": "ephemeral"}
    if point.get("ttl") is not None:
        made["ttl"] = text_field(point, "ttl", where)
    return made


def _mark(blocks: list[JsonDocument], point: Any, where: str) -> None:
    if not blocks:
        raise InvalidField(f"{where}.cachePoint", "must stand behind a block that can be kept")
    blocks[-1]["cache_control"] = cache_mark(point, f"{where}.cachePoint")


def _block(block: Any, where: str) -> tuple[str, Any]:
    """A block's one field, which is its kind. Raises InvalidField."""
    if not isinstance(block, dict):
        raise InvalidField(where, "must be an object", WRONG_TYPE)
    stated = [(name, value) for name, value in block.items() if value is not None]
    if len(stated) != 1:
        raise InvalidField(where, "must have one kind of content")
    return stated[0]


def _plain(parts: list[JsonDocument]) -> Any:
    """Content that is one text is a string."""
    return parts[0]["text"] if len(parts) == 1 and parts[0].keys() == {"type", "text"} else parts


def _data_url(value: JsonDocument, media: str, where: str) -> str:
    source = value.get("source")
    check_object(source, f"{where}.source", frozenset({"bytes"}))
    data = text_field(source, "bytes", f"{where}.source")  # type: ignore[arg-type] # an object
    return f"data:{media};base64,{data}"


def _call(value: Any, where: str) -> JsonDocument:
    check_object(value, where, frozenset({"toolUseId", "name", "input"}))
    given = value.get("input")
    if not isinstance(given, dict):
        raise InvalidField(f"{where}.input", "must be an object", WRONG_TYPE)
    function = {
        "name": text_field(value, "name", where),
        "arguments": strictjson.dumps(given).decode(),
    }
    return {"id": text_field(value, "toolUseId", where), "type": "function", "function": function}
