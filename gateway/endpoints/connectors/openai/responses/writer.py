"""The chunks of a chat as the events of a response, one by one.

A response has items, one after the other: what the model thought, what it says, the functions that
it calls. An item that begins ends the one before it. A whole answer is one chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.core import ambient
from gateway.core.errors import UpstreamFailed
from gateway.core.types import JsonDocument, Usage
from gateway.endpoints.connectors.openai.responses.items import (
    NoEvents,
    OutputItem,
    ResponseEvents,
    list_in,
    text_in,
    unknown_part,
)
from gateway.endpoints.connectors.response_document import (
    ResponseHead,
    message_item,
    usage_document,
)
from gateway.protocols import strictjson

_LETTERS: Final = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
_THOUGHTS: Final = ("reasoning_content", "reasoning")  # the names that providers have for them
_SIGNED: Final = {"signature": "thinking", "data": "redacted_thinking"}
"""By the field that stands for a thought at its endpoint, the kind of the block."""


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
        self._item: OutputItem | None = None
        self._tool = -1  # the index of the last call
        self._thought = -1  # the index of the last thought
        summary = (call.get("reasoning") or {}).get("summary")
        self._thoughts = "summary_text" if summary else "reasoning_text"
        self._status, self._reason = "completed", ""
        self.events = NoEvents() if whole else ResponseEvents()

    def read(self, chunk: Mapping[str, Any]) -> None:
        """A chunk, or a whole answer. Raises UpstreamFailed for what a response has no words
        for."""
        if self._head is None:
            self._begin(chunk)
        for choice in list_in(chunk.get("choices")):
            if not isinstance(choice, dict):
                raise unknown_part()
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
            for block in list_in(blocks):
                self._think_block(block)
        else:
            for name in _THOUGHTS:
                if thought := piece.get(name):
                    self._thinking(None).write(self._thoughts, text_in(thought))
                    break
        if content := piece.get("content"):
            if isinstance(content, str):
                self._message().write("output_text", content)
            else:
                self._say(list_in(content))
        if refusal := piece.get("refusal"):
            self._message().write("refusal", text_in(refusal))
        for annotation in list_in(piece.get("annotations")):
            self._message().annotate(annotation)
        for call in list_in(piece.get("tool_calls")):
            self._call_tool(call)
        if piece.get("function_call") or piece.get("audio"):
            raise unknown_part()

    def _say(self, parts: list[Any]) -> None:
        """Of providers that list what is thought and what is said."""
        for part in parts:
            match part:
                case {"type": "text", "text": str(text)}:
                    self._message().write("output_text", text)
                case {"type": "thinking", "thinking": [*thoughts]}:
                    for each in thoughts:
                        text = text_in(each.get("text") if isinstance(each, dict) else each)
                        self._thinking(None).write(self._thoughts, text)
                case _:
                    raise unknown_part()

    def _message(self) -> OutputItem:
        item = self._item
        if item is None or item.kind != "message":
            item = self._begin_item("msg", message_item("", "in_progress", []))
        return item

    def _thinking(self, index: int | None) -> OutputItem:
        """The thought of this index; None: the one that is being written, or else a new one."""
        item = self._item
        if item is None or item.kind != "reasoning" or index not in (None, self._thought):
            item = self._begin_item("rs", {"type": "reasoning", "summary": []})
            self._thought = -1 if index is None else index
        return item

    def _think_block(self, block: Any) -> None:
        """A piece of a block of thought, or in a whole answer all of it, without an index."""
        if not isinstance(block, dict):
            raise unknown_part()
        index = block.get("index")
        item = self._thinking(index if type(index) is int else self._thought + 1)
        if text := block.get("thinking"):
            item.write(self._thoughts, text_in(text))
        for name, kind in _SIGNED.items():
            if signature := block.get(name):
                item.sign(kind, text_in(signature))

    def _call_tool(self, call: Any) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type", "function") != "function":
            raise unknown_part()
        index, own, name = call.get("index"), call.get("id"), function.get("name")
        at = index if type(index) is int else None
        item = self._item
        if item is None or item.kind != "function_call" or self._is_another(item, at, own, name):
            if not name or (at is not None and at < self._tool):
                raise UpstreamFailed("the endpoint sent a piece of a call that has not begun")
            made = {"type": "function_call", "call_id": own or f"call_{new_letters()}"}
            item = self._begin_item("fc", made | {"name": text_in(name), "arguments": ""})
            self._tool = self._tool if at is None else at
        if arguments := function.get("arguments"):
            given = arguments if isinstance(arguments, str) else strictjson.dumps(arguments)
            item.write("arguments", given if isinstance(given, str) else given.decode())

    def _is_another(self, item: OutputItem, index: int | None, own: Any, name: Any) -> bool:
        """Whether a piece begins a call. Providers are there that give each call the same index,
        and others that give each piece an id of its own."""
        if index is not None and index != self._tool:
            return True
        return bool(name and own) and own != item.document["call_id"]

    def _begin_item(self, prefix: str, document: JsonDocument) -> OutputItem:
        self._end_item("completed")
        at = len(self._output)
        document = {**document, "id": f"{prefix}_{self._letters}_{at}", "status": "in_progress"}
        item = self._item = OutputItem(self.events, at, document)
        self.events.add("response.output_item.added", output_index=at, item=document)
        return item

    def _end_item(self, status: str) -> None:
        item, self._item = self._item, None
        if item is not None:
            document = item.end(status)
            self._output.append(document)
            self.events.add("response.output_item.done", output_index=item.at, item=document)
