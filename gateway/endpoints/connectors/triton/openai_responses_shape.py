"""A generated text as an answer of the Responses API: one message with one text part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.core.reply import ServerEvent
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.triton.openai_text_shape import AnswerMetadata
from gateway.endpoints.connectors.triton.text_generation import Delta, GeneratedText
from gateway.protocols import strictjson

_ECHOED: tuple[tuple[str, Any], ...] = (
    ("instructions", None),
    ("max_output_tokens", None),
    ("metadata", {}),
    ("parallel_tool_calls", True),
    ("temperature", None),
    ("tool_choice", "auto"),
    ("tools", []),
    ("top_p", None),
)
"""What an answer repeats of the call, with what it says when the call said nothing."""


class ResponsesWriter:
    def __init__(self, answer: AnswerMetadata) -> None:
        self._answer = answer
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
            self._text("response.content_part.added", part=_part("")),
        ]

    def _closing(self) -> list[ServerEvent]:
        text = "".join(self._written)
        return [
            self._text("response.output_text.done", text=text, logprobs=[]),
            self._text("response.content_part.done", part=_part(text)),
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
        return {
            "id": self._item_id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [_part("".join(self._written))] if content is None else content,
        }

    def _response(
        self, status: str, output: list[Any], outcome: GeneratedText | None
    ) -> JsonDocument:
        full = status == "incomplete"
        return {
            "id": f"resp_{self._answer.id}",
            "object": "response",
            "created_at": self._answer.created_s,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if full else None,
            "model": self._answer.model,
            "output": output,
            "store": False,
            "text": {"format": {"type": "text"}},
            "usage": None if outcome is None else _usage(outcome),
            **{name: self._echoed(name, usual) for name, usual in _ECHOED},
        }

    def _echoed(self, name: str, usual: Any) -> Any:
        value = self._answer.document.get(name)
        return usual if value is None else value


def _status(outcome: GeneratedText) -> str:
    return "incomplete" if outcome.finish_reason == "length" else "completed"


def _part(text: str) -> JsonDocument:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(outcome: GeneratedText) -> JsonDocument:
    return {
        "input_tokens": outcome.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": outcome.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": outcome.input_tokens + outcome.output_tokens,
    }
