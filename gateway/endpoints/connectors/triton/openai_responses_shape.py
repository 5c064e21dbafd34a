"""A generated text as an answer of the Responses API: one message with one text part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.core.reply import ServerEvent
from gateway.core.types import JsonDocument, Usage
from gateway.endpoints.connectors.response_document import (
    ResponseHead,
    message_item,
    text_part,
    usage_document,
)
from gateway.endpoints.connectors.triton.openai_text_shape import AnswerMetadata
from gateway.endpoints.connectors.triton.text_generation import Delta, GeneratedText
from gateway.protocols import strictjson


class ResponsesWriter:
    def __init__(self, answer: AnswerMetadata) -> None:
        self._head = ResponseHead(
            f"resp_{answer.id}", answer.created_s, answer.model, answer.document
        )
        self._events = 0
        self._written: list[str] = []
        self._outcome = GeneratedText()
        self._item_id = f"msg_{answer.id}"

    def delta(self, delta: Delta) -> list[ServerEvent]:
        events = [] if self._events else self._opening()
        if delta.text:
            self._written.append(delta.text)
            events.append(self._text("response.output_text.delta", delta=delta.text, logprobs=[]))
        if delta.end is not None:
            self._outcome = delta.end
            events += self._closing()
        return events

    def last(self, texts: Sequence[GeneratedText]) -> list[ServerEvent]:
        status = _status(self._outcome)
        response = self._response(status, [self._item(status)], self._outcome)
        return [self._event(f"response.{status}", response=response)]

    def whole(self, written: Sequence[str], texts: Sequence[GeneratedText]) -> bytes:
        self._written, outcome = list(written), texts[0]
        status = _status(outcome)
        return strictjson.dumps(self._response(status, [self._item(status)], outcome))

    def _opening(self) -> list[ServerEvent]:
        begun = self._response("in_progress", [], None)
        return [
            self._event("response.created", response=begun),
            self._event("response.in_progress", response=begun),
            self._event(
                "response.output_item.added",
                output_index=0,
                item=self._item("in_progress", content=[]),
            ),
            self._text("response.content_part.added", part=text_part("")),
        ]

    def _closing(self) -> list[ServerEvent]:
        text = "".join(self._written)
        return [
            self._text("response.output_text.done", text=text, logprobs=[]),
            self._text("response.content_part.done", part=text_part(text)),
            self._event(
                "response.output_item.done",
                output_index=0,
                item=self._item(_status(self._outcome)),
            ),
        ]

    def _text(self, kind: str, **content: Any) -> ServerEvent:
        place = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        return self._event(kind, **place, **content)

    def _event(self, kind: str, **content: Any) -> ServerEvent:
        document = {"type": kind, "sequence_number": self._events, **content}
        self._events += 1
        return ServerEvent(strictjson.dumps(document), kind)

    def _item(self, status: str, content: list[Any] | None = None) -> JsonDocument:
        if content is None:
            content = [text_part("".join(self._written))]
        return message_item(self._item_id, status, content)

    def _response(
        self, status: str, output: list[Any], outcome: GeneratedText | None
    ) -> JsonDocument:
        reason = "max_output_tokens" if status == "incomplete" else ""
        usage = None if outcome is None else _usage(outcome)
        return self._head.document(status, output, reason, usage)


def _status(outcome: GeneratedText) -> str:
    return "incomplete" if outcome.finish_reason == "length" else "completed"


def _usage(outcome: GeneratedText) -> JsonDocument:
    return usage_document(Usage(outcome.input_tokens, outcome.output_tokens))
