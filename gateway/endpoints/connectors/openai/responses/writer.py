"""The chunks of a chat as the events of a response, one by one.

A response has items, one after the other: what the model thought, what it says, the functions that
it calls. An item that begins ends the one before it. A whole answer is one chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from orjson import dumps

from gateway.core import ambient
from gateway.core.errors import UpstreamFailed
from gateway.core.types import JsonDocument, Usage
from gateway.endpoints.connectors.response_document import (
    ResponseHead,
    message_item,
    text_part,
    usage_document,
)
from gateway.protocols import strictjson

_LETTERS: Final = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
_THOUGHTS: Final = ("reasoning_content", "reasoning")  # the names that providers have for them
_SIGNED: Final = {"signature": "thinking", "data": "redacted_thinking"}
"""By the field that stands for a thought at its endpoint, the kind of the block."""
_NO_PART: Final = ""


def new_letters() -> str:
    """Of an id. Callers send ids back, where digits could be read as somebody's number."""
    return ambient.random_hex(16).translate(_LETTERS)


class ResponseWriter:
    """One response."""

    def __init__(self, call: JsonDocument, model: str, whole: bool = False) -> None:
        """`call`: as the caller states it; `model`: unless the answer names its own; `whole`:
        nobody takes its events."""
        self._call, self._model = call, model
        self._letters = new_letters()
        self._head: ResponseHead | None = None
        self._output: list[JsonDocument] = []  # items that have ended
        self._item: _OutputItem | None = None
        self._tool = -1  # the index of the last call
        self._thought = -1  # the index of the last thought
        self._status, self._reason = "completed", ""
        self.events = _NoEvents() if whole else ResponseEvents()

    def read(self, chunk: Mapping[str, Any]) -> None:
        """A chunk, or a whole answer. Raises UpstreamFailed for what a response has no words
        for."""
        if self._head is None:
            self._begin(chunk)
        for choice in _listed(chunk.get("choices")):
            if not isinstance(choice, dict):
                raise _unknown()
            piece = choice.get("delta") or choice.get("message")
            if isinstance(piece, dict):
                text = piece.get("content")
                if len(piece) == 1 and type(text) is str and text:  # as in most chunks
                    self._message().write("output_text", text)
                else:
                    self._read_piece(piece)
            if (reason := choice.get("finish_reason")) is not None:
                self._reason = _INCOMPLETE.get(reason, "") if isinstance(reason, str) else ""
                self._status = "incomplete" if self._reason else "completed"
                self._end_item(self._status)

    def end(self, usage: Usage | None, total_tokens: int | None) -> JsonDocument:
        """The response, which its last event has, too."""
        head = self._head or self._begin({})
        self._end_item(self._status)
        counts = None if usage is None else usage_document(usage, total_tokens)
        document = head.document(self._status, self._output, self._reason, counts)
        self.events.add(f"response.{self._status}", response=document)
        return document

    def _begin(self, chunk: Mapping[str, Any]) -> ResponseHead:
        model = chunk.get("model")
        if not isinstance(model, str) or not model:
            model = self._model
        now_s = int(ambient.wall_s())
        head = self._head = ResponseHead(f"resp_{self._letters}", now_s, model, self._call)
        begun = head.document("in_progress", [])
        self.events.add("response.created", response=begun)
        self.events.add("response.in_progress", response=begun)
        return head

    def _read_piece(self, piece: JsonDocument) -> None:
        """Thoughts, then texts, then calls, whatever their order in the piece."""
        if blocks := piece.get("thinking_blocks"):
            for block in _listed(blocks):
                self._think_block(block)
        else:
            for name in _THOUGHTS:
                if thought := piece.get(name):
                    self._thinking(None).write("reasoning_text", _text(thought))
                    break
        if content := piece.get("content"):
            if isinstance(content, str):
                self._message().write("output_text", content)
            else:
                self._say(_listed(content))
        if refusal := piece.get("refusal"):
            self._message().write("refusal", _text(refusal))
        for annotation in _listed(piece.get("annotations")):
            self._message().annotate(annotation)
        for call in _listed(piece.get("tool_calls")):
            self._call_tool(call)
        if piece.get("function_call") or piece.get("audio"):
            raise _unknown()

    def _say(self, parts: list[Any]) -> None:
        """Of providers that list what is thought and what is said."""
        for part in parts:
            match part:
                case {"type": "text", "text": str(text)}:
                    self._message().write("output_text", text)
                case {"type": "thinking", "thinking": [*thoughts]}:
                    for each in thoughts:
                        text = _text(each.get("text") if isinstance(each, dict) else each)
                        self._thinking(None).write("reasoning_text", text)
                case _:
                    raise _unknown()

    def _message(self) -> _OutputItem:
        item = self._item
        if item is None or item.kind != "message":
            item = self._begin_item("msg", message_item("", "in_progress", []))
        return item

    def _thinking(self, index: int | None) -> _OutputItem:
        """The thought of this index; None: the one that is being written, or else a new one."""
        item = self._item
        if item is None or item.kind != "reasoning" or index not in (None, self._thought):
            item = self._begin_item("rs", {"type": "reasoning", "summary": []})
            self._thought = -1 if index is None else index
        return item

    def _think_block(self, block: Any) -> None:
        """A piece of a block of thought, or in a whole answer all of it, without an index."""
        if not isinstance(block, dict):
            raise _unknown()
        index = block.get("index")
        item = self._thinking(index if type(index) is int else self._thought + 1)
        if text := block.get("thinking"):
            item.write("reasoning_text", _text(text))
        for name, kind in _SIGNED.items():
            if signature := block.get(name):
                item.sign(kind, _text(signature))

    def _call_tool(self, call: Any) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type", "function") != "function":
            raise _unknown()
        index, own, name = call.get("index"), call.get("id"), function.get("name")
        at = index if type(index) is int else None
        item = self._item
        if item is None or item.kind != "function_call" or self._is_another(item, at, own, name):
            if not name or (at is not None and at < self._tool):
                raise UpstreamFailed("the endpoint sent a piece of a call that has not begun")
            made = {"type": "function_call", "call_id": own or f"call_{new_letters()}"}
            item = self._begin_item("fc", made | {"name": _text(name), "arguments": ""})
            self._tool = self._tool if at is None else at
        if arguments := function.get("arguments"):
            given = arguments if isinstance(arguments, str) else strictjson.dumps(arguments)
            item.write("arguments", given if isinstance(given, str) else given.decode())

    def _is_another(self, item: _OutputItem, index: int | None, own: Any, name: Any) -> bool:
        """Whether a piece begins a call. Providers are there that give each call the same index,
        and others that give each piece an id of its own."""
        if index is not None and index != self._tool:
            return True
        return bool(name and own) and own != item.document["call_id"]

    def _begin_item(self, prefix: str, document: JsonDocument) -> _OutputItem:
        self._end_item("completed")
        at = len(self._output)
        document = {**document, "id": f"{prefix}_{self._letters}_{at}", "status": "in_progress"}
        item = self._item = _OutputItem(self.events, at, document)
        self.events.add("response.output_item.added", output_index=at, item=document)
        return item

    def _end_item(self, status: str) -> None:
        item, self._item = self._item, None
        if item is not None:
            document = item.end(status)
            self._output.append(document)
            self.events.add("response.output_item.done", output_index=item.at, item=document)


class ResponseEvents:
    """The events of one response, as they stand in a stream."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []  # that nobody has taken
        self._number = 0  # of the next
        self.characters = 0  # of all pieces

    def add(self, kind: str, **content: Any) -> None:
        document = {"type": kind, "sequence_number": self._number, **content}
        self._texts.append(b"event: %b\ndata: %b\n\n" % (kind.encode(), strictjson.dumps(document)))
        self._number += 1

    def add_piece(self, head: bytes, text: str) -> None:
        """One of which all but its number and its text is known."""
        self._texts.append(b'%b%d,"delta":%b}\n\n' % (head, self._number, dumps(text)))
        self._number += 1
        self.characters += len(text)

    def taken(self) -> tuple[bytes, int]:
        """Those that were added since the last call, and how many they are."""
        texts, self._texts = self._texts, []
        return (texts[0] if len(texts) == 1 else b"".join(texts)), len(texts)


class _NoEvents(ResponseEvents):
    """Of an answer that is not streamed."""

    def add(self, kind: str, **content: Any) -> None: ...

    def add_piece(self, head: bytes, text: str) -> None: ...


class _OutputItem:
    """One item, as far as it has come."""

    def __init__(self, events: ResponseEvents, at: int, document: JsonDocument) -> None:
        self.kind, self.at, self.document = document["type"], at, document
        self._events = events
        self._part = _NO_PART  # the kind of the part that is being written
        self._head = b""  # of its pieces
        self._texts: list[str] = []
        self._content: list[JsonDocument] = []  # parts that have ended
        self._annotations: list[JsonDocument] = []  # of the part
        self._signature: list[str] = []

    def write(self, part: str, text: str) -> None:
        if part != self._part:
            self._begin_part(part)
        self._texts.append(text)
        self._events.add_piece(self._head, text)

    def annotate(self, annotation: Any) -> None:
        match annotation:
            case {"type": "url_citation", "url_citation": dict(cited)}:
                made = {"type": "url_citation", **cited}
            case _:
                raise _unknown()
        if self._part != "output_text":
            self._begin_part("output_text")
        place = {**self._place(), "annotation_index": len(self._annotations)}
        self._annotations.append(made)
        self._events.add("response.output_text.annotation.added", **place, annotation=made)

    def sign(self, kind: str, piece: str) -> None:
        self._signature.append(piece if self._signature else f"{kind}:{piece}")

    def end(self, status: str) -> JsonDocument:
        """The whole item."""
        self._end_part()
        self.document = {**self.document, "status": status}
        if self.kind != "function_call":
            self.document["content"] = self._content
        if self._signature:
            self.document["encrypted_content"] = "".join(self._signature)
        return self.document

    def _begin_part(self, part: str) -> None:
        self._end_part()
        self._part, self._texts, self._annotations = part, [], []
        event, place = _EVENTS[part], self._place()
        if part != "arguments":
            self._events.add("response.content_part.added", **place, part=_part(part, "", []))
        if part == "output_text":
            place["logprobs"] = []
        head = strictjson.dumps({"type": f"{event}.delta", **place})[:-1]
        self._head = b'event: %b.delta\ndata: %b,"sequence_number":' % (event.encode(), head)

    def _end_part(self) -> None:
        part, self._part = self._part, _NO_PART
        if part == _NO_PART:
            return
        done, place, text = f"{_EVENTS[part]}.done", self._place(), "".join(self._texts)
        if part == "arguments":
            self.document = {**self.document, "arguments": text}
            self._events.add(done, **place, name=self.document["name"], arguments=text)
            return
        whole = _part(part, text, self._annotations)
        texts = {key: whole[key] for key in ("text", "refusal", "logprobs") if key in whole}
        self._events.add(done, **place, **texts)
        self._events.add("response.content_part.done", **place, part=whole)
        self._content.append(whole)

    def _place(self) -> JsonDocument:
        place = {"item_id": self.document["id"], "output_index": self.at}
        return (
            place if self.kind == "function_call" else place | {"content_index": len(self._content)}
        )


_EVENTS: Final = {
    "output_text": "response.output_text",
    "refusal": "response.refusal",
    "reasoning_text": "response.reasoning_text",
    "arguments": "response.function_call_arguments",
}
"""By the part of an item, what its events are of."""


def _part(kind: str, text: str, annotations: list[JsonDocument]) -> JsonDocument:
    if kind == "output_text":
        return text_part(text, annotations)
    return {"type": kind, "refusal" if kind == "refusal" else "text": text}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _unknown()
    return value


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list | None):
        raise _unknown()
    return value or []


def _unknown() -> UpstreamFailed:
    return UpstreamFailed("the endpoint's answer has a part that a response has no words for")
