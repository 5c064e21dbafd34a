"""The items of a response as they are written, and the events that tell them."""

from __future__ import annotations

from typing import Any, Final

from orjson import dumps

from gateway.core.errors import UpstreamFailed
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.response_document import text_part
from gateway.protocols import strictjson

_NO_PART: Final = ""


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


class NoEvents(ResponseEvents):
    """Of an answer that is not streamed."""

    def add(self, kind: str, **content: Any) -> None: ...

    def add_piece(self, head: bytes, text: str) -> None: ...


class OutputItem:
    """One item, as far as it has come."""

    def __init__(self, events: ResponseEvents, at: int, document: JsonDocument) -> None:
        self.kind, self.at, self.document = document["type"], at, document
        self._events = events
        self._part = _NO_PART  # the kind of the part that is being written
        self._head = b""  # of its pieces
        self._texts: list[str] = []
        self._parts: list[JsonDocument] = []  # parts that have ended
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
                raise unknown_part()
        if self._part != "output_text":
            self._begin_part("output_text")
        place = {**self._place("output_text"), "annotation_index": len(self._annotations)}
        self._annotations.append(made)
        self._events.add("response.output_text.annotation.added", **place, annotation=made)

    def sign(self, kind: str, piece: str) -> None:
        self._signature.append(piece if self._signature else f"{kind}:{piece}")

    def end(self, status: str) -> JsonDocument:
        """The whole item."""
        self._end_part()
        self.document = {**self.document, "status": status}
        if self.kind != "function_call":
            summary = bool(self._parts) and self._parts[0]["type"] == "summary_text"
            self.document["summary" if summary else "content"] = self._parts
        if self._signature:
            self.document["encrypted_content"] = "".join(self._signature)
        return self.document

    def _begin_part(self, part: str) -> None:
        self._end_part()
        self._part, self._texts, self._annotations = part, [], []
        (text_event, part_event, _), place = _EVENTS[part], self._place(part)
        if part_event:
            self._events.add(f"{part_event}.added", **place, part=_part(part, "", []))
        if part == "output_text":
            place["logprobs"] = []
        head = strictjson.dumps({"type": f"{text_event}.delta", **place})[:-1]
        self._head = b'event: %b.delta\ndata: %b,"sequence_number":' % (text_event.encode(), head)

    def _end_part(self) -> None:
        part, self._part = self._part, _NO_PART
        if part == _NO_PART:
            return
        (text_event, part_event, _), place = _EVENTS[part], self._place(part)
        done, text = f"{text_event}.done", "".join(self._texts)
        if not part_event:
            self.document = {**self.document, part: text}
            self._events.add(done, **place, name=self.document["name"], arguments=text)
            return
        whole = _part(part, text, self._annotations)
        texts = {key: whole[key] for key in ("text", "refusal", "logprobs") if key in whole}
        self._events.add(done, **place, **texts)
        self._events.add(f"{part_event}.done", **place, part=whole)
        self._parts.append(whole)

    def _place(self, part: str) -> JsonDocument:
        place = {"item_id": self.document["id"], "output_index": self.at}
        if index := _EVENTS[part][2]:
            place[index] = len(self._parts)
        return place


_CONTENT: Final = ("response.content_part", "content_index")
_EVENTS: Final = {
    "output_text": ("response.output_text", *_CONTENT),
    "refusal": ("response.refusal", *_CONTENT),
    "reasoning_text": ("response.reasoning_text", *_CONTENT),
    "summary_text": (
        "response.reasoning_summary_text", "response.reasoning_summary_part", "summary_index",
    ),
    "arguments": ("response.function_call_arguments", "", ""),
}  # fmt: skip
"""By the part of an item, what the events of its text and its own are of, and their index."""


def _part(kind: str, text: str, annotations: list[JsonDocument]) -> JsonDocument:
    if kind == "output_text":
        return text_part(text, annotations)
    return {"type": kind, "refusal" if kind == "refusal" else "text": text}


def text_in(value: Any) -> str:
    if not isinstance(value, str):
        raise unknown_part()
    return value


def list_in(value: Any) -> list[Any]:
    if not isinstance(value, list | None):
        raise unknown_part()
    return value or []


def unknown_part() -> UpstreamFailed:
    return UpstreamFailed("the endpoint's answer has a part that a response has no words for")
