"""The contents of a `generateContent` call as the messages of a chat.

A stream's parts come back as contents of their own: those of the model that follow one another are
one message. Calls and responses may have no ids: they belong together by their names and order.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.core.errors import MISSING, WRONG_TYPE, InvalidField
from gateway.core.operations.spec import CapabilityNeed
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.server.dialects.fields import check_keys, not_offered, text_field
from gateway.server.dialects.gemini import signatures
from gateway.server.dialects.gemini.names import camel

_SOUNDS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
_PDF: Final = "application/pdf"
_CONTENT: Final = frozenset({"role", "parts"})
_DATA: Final = ("text", "inlineData", "fileData", "functionCall", "functionResponse")
_SIGNED: Final = frozenset({"thought", "thoughtSignature"})
_CALL: Final = frozenset({"id", "name", "args"})
_RESPONSE: Final = frozenset({"id", "name", "response", "parts"})


class GeminiTurns:
    """The messages of one chat, as they are made."""

    def __init__(self) -> None:
        self.messages: list[JsonDocument] = []
        self.turns: list[int] = []  # of each, the caller's content
        self.unsaid: list[CapabilityNeed] = []
        self._at = -1
        self._answer: _Answer | None = None  # of the model, while contents of it follow
        self._open_calls: list[tuple[str, str]] = []  # id and name of those without a response

    def system(self, content: Any) -> None:
        """Instructions in front of the conversation; no text is none."""
        parts = [
            self._part(kind, part, where)
            for kind, part, where in _parts(content, "systemInstruction")
        ]
        for at, part in enumerate(parts):
            if part["type"] != "text":
                raise not_offered(f"systemInstruction.parts[{at}]")
        if any(part["text"] for part in parts):
            self._add("system", _plain(parts))

    def turn(self, at: int, content: Any) -> None:
        """Raises InvalidField."""
        where = f"contents[{at}]"
        parts = _parts(content, where)
        role = content.get("role") or "user"
        if role == "model":
            if self._answer is None:
                self._at = at
                self._answer = _Answer(at)
            for kind, part, place in parts:
                self._answer.add(kind, part, place)
            return
        self._end_answer()
        self._at = at
        if role not in ("user", "function"):
            raise InvalidField(f"{where}.role", "must be user or model")
        spoken: list[JsonDocument] = []
        for kind, part, place in parts:
            if kind != "functionResponse":
                spoken.append(self._part(kind, part, place))
            elif spoken:
                raise InvalidField(place, "responses of functions come first in their content")
            else:
                self._respond(part[kind], f"{place}.{kind}")
        if spoken:
            self._add("user", _plain(spoken))

    def end(self) -> None:
        """An answer that goes on with a turn of the model's has no words in a chat."""
        if self._answer is not None:
            self.unsaid.append(CapabilityNeed("other", f"contents[{self._at}]"))
            self._end_answer()

    def _add(self, role: str, content: Any, **more: Any) -> None:
        self.messages.append({"role": role, "content": content, **more})
        self.turns.append(self._at)

    def _end_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is None:
            return
        self.unsaid += answer.unsaid
        self.messages.append(answer.message())
        self.turns.append(self._at)
        self._open_calls = [(call["id"], call["function"]["name"]) for call in answer.calls]

    def _respond(self, response: Any, where: str) -> None:
        response = _object(response, where)
        response = {key: value for key, value in response.items() if value is not False}
        check_keys(response, _RESPONSE, where)
        name = text_field(response, "name", where)
        own = response.get("id") or ""
        for call in self._open_calls:
            if call[0] == own if own else call[1] == name:
                break
        else:
            raise InvalidField(where, "responds to no call of the content before it")
        self._open_calls.remove(call)
        given = response.get("response")
        if not isinstance(given, dict | None):
            raise InvalidField(f"{where}.response", "must be an object", WRONG_TYPE)
        text = _output(given or {})
        content: Any = text
        if parts := response.get("parts"):
            shown = [
                self._part(kind, part, place)
                for kind, part, place in _parts({"parts": parts}, where)
            ]
            self.unsaid.append(CapabilityNeed("parts", f"{where}.parts"))
            content = [{"type": "text", "text": text}, *shown]
        self._add("tool", content, tool_call_id=call[0])

    def _part(self, kind: str, part: JsonDocument, where: str) -> JsonDocument:
        """Of what is said to the model."""
        check_keys(part, frozenset({kind}), where)
        if kind == "text":
            return {"type": "text", "text": text_field(part, "text", where)}
        place = f"{where}.{kind}"
        if kind not in ("inlineData", "fileData"):
            raise not_offered(place)
        value = _object(part[kind], place)
        media = text_field(value, "mimeType", place)
        if kind == "inlineData":
            check_keys(value, frozenset({"mimeType", "data", "displayName"}), place)
            data = signatures.standard(text_field(value, "data", place))
            return _inline(media, data, value, place)
        check_keys(value, frozenset({"mimeType", "fileUri"}), place)
        uri = text_field(value, "fileUri", place)
        if not uri.startswith(("https://", "gs://")):
            raise InvalidField(f"{place}.fileUri", "must be an address of https or gs")
        if media.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": uri}}
        if media == _PDF and uri.startswith("https://"):
            self.unsaid.append(CapabilityNeed("parts", place))
            return {"type": "file", "file": {"file_url": uri}}
        raise InvalidField(f"{place}.mimeType", "is a media type that no chat has")


class _Answer:
    """A message of the model's, of contents that follow one another. A message of a chat has what
    was thought, what was said, and calls, in this order."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.calls: list[JsonDocument] = []
        self.unsaid: list[CapabilityNeed] = []
        self._thoughts: list[JsonDocument] = []
        self._thought = ""  # that is not signed, or not yet
        self._text = ""
        self._signature = ""

    def add(self, kind: str, part: JsonDocument, where: str) -> None:
        """Raises InvalidField."""
        signature = part.get("thoughtSignature") or ""
        if not isinstance(signature, str):
            raise InvalidField(f"{where}.thoughtSignature", "must be a string", WRONG_TYPE)
        check_keys(part, _SIGNED | {kind}, where)
        if kind == "functionCall":
            self._call(part[kind], signature, where)
        elif kind not in ("", "text"):
            raise not_offered(f"{where}.{kind}")
        elif part.get("thought"):
            self._think(part.get("text") or "", signature, where)
        else:
            self._say(part.get("text") or "", signature, where)

    def message(self) -> JsonDocument:
        made: JsonDocument = {"role": "assistant", "content": self._text or None}
        if not self._text and not self.calls:
            made["content"] = ""
        if self._thoughts:
            if self._thought:
                self._sign("thinking", "")
            made["thinking_blocks"] = self._thoughts
        elif self._thought:
            made["reasoning_content"] = self._thought
        if self.calls:
            made["tool_calls"] = self.calls
        if self._signature:
            made["extra_content"] = signatures.extra(self._signature)
        return made

    def _say(self, text: Any, signature: str, where: str) -> None:
        if not isinstance(text, str):
            raise InvalidField(f"{where}.text", "must be a string", WRONG_TYPE)
        if text and self.calls:
            # guard: S19.text-before-calls -> pass
            raise InvalidField(where, "must stand before the calls of its turn")
        self._text += text
        if signature:
            self._keep(signature, where)

    def _keep(self, signature: str, where: str) -> None:
        if self._signature and self._signature != signatures.standard(signature):
            # guard: S19.one-signature -> pass
            raise InvalidField(f"{where}.thoughtSignature", "is the second of one answer's text")
        self._signature = signatures.standard(signature)

    def _think(self, text: Any, signature: str, where: str) -> None:
        if not isinstance(text, str):
            raise InvalidField(f"{where}.text", "must be a string", WRONG_TYPE)
        self._thought += text
        if not signature:
            return
        known = signatures.foreign(signature)
        if known is None:
            self._keep(signature, where)
            return
        if self.calls or self._text:
            raise InvalidField(where, "must stand before the text and the calls of its turn")
        if known[0] == "redacted_thinking":
            self.unsaid.append(CapabilityNeed("reasoning", where))
        self._sign(*known)

    def _sign(self, kind: str, signature: str) -> None:
        if kind == "thinking":
            block = {"type": kind, "thinking": self._thought, "signature": signature}
            self._thought = ""
        else:
            block = {"type": kind, "data": signature}
        self._thoughts.append(block)

    def _call(self, call: Any, signature: str, where: str) -> None:
        place = f"{where}.functionCall"
        call = _object(call, place)
        call = {key: value for key, value in call.items() if value is not False}
        check_keys(call, _CALL, place)
        given = call.get("args")
        if not isinstance(given, dict | None):
            raise InvalidField(f"{place}.args", "must be an object", WRONG_TYPE)
        function = {
            "name": text_field(call, "name", place),
            "arguments": strictjson.dumps(given or {}).decode(),
        }
        own = call.get("id") or f"call_{self._at}_{len(self.calls)}"
        if not isinstance(own, str):
            raise InvalidField(f"{place}.id", "must be a string", WRONG_TYPE)
        made: JsonDocument = {"id": own, "type": "function", "function": function}
        if signature:
            made["extra_content"] = signatures.extra(signatures.standard(signature))
        self.calls.append(made)


def _parts(content: Any, where: str) -> list[tuple[str, JsonDocument, str]]:
    """Each part with the field that has its data, and its place. Raises InvalidField."""
    content = _object(content, where)
    check_keys(content, _CONTENT, where)
    parts = content.get("parts")
    if not isinstance(parts, list) or not parts:
        code = MISSING if parts is None else WRONG_TYPE
        raise InvalidField(f"{where}.parts", "must be a list of parts", code)
    made = []
    for at, part in enumerate(parts):
        place = f"{where}.parts[{at}]"
        part = _object(part, place)
        kinds = [name for name in _DATA if part.get(name) is not None]
        if len(kinds) > 1:
            raise InvalidField(place, "must have data of one kind")
        if not kinds and not part.get("thoughtSignature"):
            check_keys(part, _SIGNED, place)
            raise InvalidField(place, f"must have one of {', '.join(_DATA)}", MISSING)
        made.append((kinds[0] if kinds else "", part, place))
    return made


def _object(value: Any, where: str) -> JsonDocument:
    if not isinstance(value, dict):
        raise InvalidField(where, "must be an object", WRONG_TYPE)
    return camel(value, where)


def _plain(parts: list[JsonDocument]) -> Any:
    """Content that is one text is a string."""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _inline(media: str, data: str, value: JsonDocument, where: str) -> JsonDocument:
    if sound := _SOUNDS.get(media):
        return {"type": "input_audio", "input_audio": {"data": data, "format": sound}}
    url = f"data:{media};base64,{data}"
    if media == _PDF:
        name = value.get("displayName")
        file = {"filename": text_field(value, "displayName", where)} if name else {}
        return {"type": "file", "file": {"file_data": url, **file}}
    check_keys(value, frozenset({"mimeType", "data"}), where)
    if not media.startswith("image/") or not media.isprintable() or ";" in media or "," in media:
        raise InvalidField(f"{where}.mimeType", "is a media type that no chat has")
    return {"type": "image_url", "image_url": {"url": url}}


def _output(response: JsonDocument) -> str:
    """`output` is a response's field for what a function gives; any other stays under its name."""
    if response.keys() == {"output"} and isinstance(output := response["output"], str):
        return output
    return strictjson.dumps(response).decode()
