"""The turns of a Messages call as the messages of a chat.

What a chat has no words for stands in the words that `core.operations.dialects.anthropic` knows
(`thinking_blocks`, `cache_control`, `is_error` and others), and as an unsaid need where OpenAI's
API would lose it. Whatever neither knows is refused with its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.core.errors import WRONG_TYPE, InvalidField
from gateway.core.operations.dialects.anthropic import THOUGHTS
from gateway.core.operations.spec import CapabilityNeed
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects.fields import block_type, check_keys, not_offered, text_field

_PLAIN_TEXT: Final = frozenset({"type", "text"})
_EPHEMERAL: Final = frozenset({"type", "ttl"})
_HINTS: Final = frozenset({"type", "cache_control"})


class ChatTurns:
    """The messages of one chat, as they are made."""

    def __init__(self) -> None:
        self.messages: list[JsonDocument] = []
        self.turns: list[int] = []  # of each, the caller's
        self.unsaid: list[CapabilityNeed] = []
        self._at = -1

    def system(self, content: Any) -> None:
        """Instructions in front of the conversation; an empty text is none."""
        if content is not None and content not in ("", []):
            self._add({"role": "system", "content": self._texts(content, "system")})

    def turn(self, at: int, message: Any) -> None:
        """Raises InvalidField."""
        self._at, where = at, f"messages[{at}]"
        if not isinstance(message, dict):
            raise InvalidField(where, "must be an object", WRONG_TYPE)
        role, content = message.get("role"), message.get("content")
        if len(message) != 2:
            check_keys(message, frozenset({"role", "content"}), where)
        if role not in ("user", "assistant", "system"):
            raise InvalidField(f"{where}.role", "must be user, assistant or system")
        if type(content) is str:
            self._add(message)
            return
        if not isinstance(content, list):
            raise InvalidField(f"{where}.content", "must be a string or a list", WRONG_TYPE)
        if not content:
            raise InvalidField(f"{where}.content", "must not be empty")
        if role == "user":
            self._user(content, f"{where}.content")
        elif role == "assistant":
            self._assistant(content, f"{where}.content")
        else:
            self._add({"role": role, "content": self._texts(content, f"{where}.content")})

    def end(self) -> None:
        """An answer that goes on with a turn of the assistant's has no words in a chat."""
        if self.messages and self.messages[-1]["role"] == "assistant":
            self._lacks("other", f"messages[{self._at}]")

    def _add(self, message: JsonDocument) -> None:
        self.messages.append(message)
        self.turns.append(self._at)

    def _lacks(self, capability: str, name: str) -> None:
        self.unsaid.append(CapabilityNeed(capability, name))

    def _texts(self, content: Any, where: str) -> Any:
        if type(content) is str:
            return content
        if not isinstance(content, list):
            raise InvalidField(where, "must be a string or a list of text blocks", WRONG_TYPE)
        return [_text(block, f"{where}[{at}]") for at, block in enumerate(content)]

    def _user(self, content: list[Any], where: str) -> None:
        parts: list[JsonDocument] = []
        for at, block in enumerate(content):
            if block_type(block, f"{where}[{at}]") != "tool_result":
                parts.append(self._part(block, f"{where}[{at}]"))
            elif parts:
                raise InvalidField(f"{where}[{at}]", "results of tools come first in their turn")
            else:
                self._result(block, f"{where}[{at}]")
        if parts:
            self._add({"role": "user", "content": parts})

    def _result(self, block: JsonDocument, where: str) -> None:
        check_keys(block, _HINTS | {"tool_use_id", "content", "is_error"}, where)
        content = block.get("content")
        made: JsonDocument = {
            "role": "tool",
            "tool_call_id": text_field(block, "tool_use_id", where),
        }
        if content is None or type(content) is str:
            made["content"] = content or ""
        elif isinstance(content, list):
            made["content"] = [
                self._part(each, f"{where}.content[{at}]", "tool")
                for at, each in enumerate(content)
            ]
        else:
            raise InvalidField(f"{where}.content", "must be a string or a list", WRONG_TYPE)
        failed = block.get("is_error")
        if failed not in (None, True, False):
            raise InvalidField(f"{where}.is_error", "must be true or false", WRONG_TYPE)
        if failed:
            made["is_error"] = True
        self._add(_marked(made, block, where))

    def _part(self, block: Any, where: str, role: str = "user") -> JsonDocument:
        kind = block_type(block, where)
        if kind == "text":
            return _text(block, where)
        if role == "tool" and kind in ("image", "document"):
            self._lacks("parts", where)
        if kind == "image":
            check_keys(block, _HINTS | {"source"}, where)
            url = _url(block.get("source"), f"{where}.source", "image/")
            return _marked({"type": "image_url", "image_url": {"url": url}}, block, where)
        if kind == "document":
            return _marked(self._document(block, where), block, where)
        raise not_offered(where, kind)

    def _document(self, block: JsonDocument, where: str) -> JsonDocument:
        check_keys(block, _HINTS | {"source", "title", "context", "citations"}, where)
        check_no_citations(block, where)
        stated = {
            name: text_field(block, name, where)
            for name in ("title", "context")
            if block.get(name) is not None
        }
        source: Any = block.get("source")
        name = f"{where}.source"
        kind = block_type(source, name)
        if kind == "text":
            check_keys(source, frozenset({"type", "media_type", "data"}), name)
            if source.get("media_type") != "text/plain":
                raise InvalidField(f"{name}.media_type", "must be text/plain")
            if stated:
                self._lacks("other", f"{where}.{next(iter(stated))}")
            document = {"type": "document", **stated}
            return {"type": "text", "text": text_field(source, "data", name), "document": document}
        url = _url(source, name, "application/pdf")
        file = {"file_data" if url.startswith("data:") else "file_url": url}
        if "file_url" in file:
            self._lacks("parts", name)
        if "title" in stated:
            file["filename"] = stated["title"]
        made: JsonDocument = {"type": "file", "file": file}
        if "context" in stated:
            made["context"] = stated["context"]
            self._lacks("other", f"{where}.context")
        return made

    def _assistant(self, content: list[Any], where: str) -> None:
        """A message of a chat has what was thought, what was said, and calls, in this order. A turn
        in another order is several messages."""
        thoughts: list[JsonDocument] = []
        texts: list[JsonDocument] = []
        calls: list[JsonDocument] = []
        for at, block in enumerate(content):
            name = f"{where}[{at}]"
            kind = block_type(block, name)
            if calls and kind != "tool_use":
                self._lacks("other", name)  # a chat has the results of calls behind them
            if (calls and kind != "tool_use") or (texts and kind in THOUGHTS):
                self._add_answer(thoughts, texts, calls)
                thoughts, texts, calls = [], [], []
            if kind == "text":
                texts.append(_text(block, name))
            elif kind == "tool_use":
                calls.append(_call(block, name))
            elif kind in THOUGHTS:
                thoughts.append(self._thought(block, kind, name))
            else:
                raise not_offered(name, kind)
        self._add_answer(thoughts, texts, calls)

    def _add_answer(
        self, thoughts: list[JsonDocument], texts: list[JsonDocument], calls: list[JsonDocument]
    ) -> None:
        plain = len(texts) == 1 and texts[0].keys() == _PLAIN_TEXT
        made: JsonDocument = {
            "role": "assistant",
            "content": texts[0]["text"] if plain else texts or (None if calls else ""),
        }
        if thoughts:
            made["thinking_blocks"] = thoughts
        if calls:
            made["tool_calls"] = calls
        self._add(made)

    def _thought(self, block: JsonDocument, kind: str, where: str) -> JsonDocument:
        if kind == "redacted_thinking":
            self._lacks("reasoning", where)
            check_keys(block, frozenset({"type", "data"}), where)
            return {"type": kind, "data": text_field(block, "data", where)}
        check_keys(block, frozenset({"type", "thinking", "signature"}), where)
        signature = block.get("signature")
        return {
            "type": kind,
            "thinking": text_field(block, "thinking", where),
            "signature": "" if signature is None else text_field(block, "signature", where),
        }


def check_no_citations(block: Mapping[str, Any], where: str) -> None:
    """A chat has no words for them. Raises InvalidField."""
    stated = block.get("citations")
    if stated and stated != {"enabled": False}:
        raise not_offered(f"{where}.citations")


def check_mark(value: Any, where: str) -> None:
    """Raises InvalidField."""
    if value is None:
        return
    if not isinstance(value, dict) or not value.keys() <= _EPHEMERAL:
        raise InvalidField(where, "must be an object with a type and a ttl", WRONG_TYPE)


def _marked(made: JsonDocument, block: Mapping[str, Any], where: str) -> JsonDocument:
    if mark := block.get("cache_control"):
        check_mark(mark, f"{where}.cache_control")
        made["cache_control"] = mark
    return made


def _text(block: Any, where: str) -> JsonDocument:
    if block_type(block, where) != "text":
        raise not_offered(where, block["type"])
    text = text_field(block, "text", where)
    if len(block) == 2:
        return block  # type: ignore[no-any-return]
    check_keys(block, _HINTS | {"text", "citations", "parsed_output"}, where)
    check_no_citations(block, where)
    return _marked({"type": "text", "text": text}, block, where)


def _url(source: Any, where: str, media: str) -> str:
    kind = block_type(source, where)
    if kind == "url":
        check_keys(source, frozenset({"type", "url"}), where)
        return text_field(source, "url", where)
    if kind != "base64":
        raise not_offered(where, kind)
    check_keys(source, frozenset({"type", "media_type", "data"}), where)
    own = text_field(source, "media_type", where)
    if not own.startswith(media) or not own.isprintable() or ";" in own or "," in own:
        raise InvalidField(f"{where}.media_type", f"must begin with {media}")
    return f"data:{own};base64,{text_field(source, 'data', where)}"


def _call(block: JsonDocument, where: str) -> JsonDocument:
    check_keys(block, _HINTS | {"id", "name", "input", "caller"}, where)
    given = block.get("input")
    if not isinstance(given, dict):
        raise InvalidField(f"{where}.input", "must be an object", WRONG_TYPE)
    if block.get("caller") not in (None, {"type": "direct"}):
        raise not_offered(f"{where}.caller")
    function = {
        "name": text_field(block, "name", where),
        "arguments": strictjson.dumps(given).decode(),
    }
    made: JsonDocument = {"id": text_field(block, "id", where), "type": "function"}
    return _marked({**made, "function": function}, block, where)
