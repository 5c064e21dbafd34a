"""Generated texts as answers of chat completions and of completions, whole or as events.

Token counts are the model's own; 0 where it does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.core.operations.chat import CHAT
from gateway.core.operations.spec import OperationSpec
from gateway.core.reply import ServerEvent
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.triton.text_generation import Delta, GeneratedText
from gateway.protocols import strictjson


@dataclass(frozen=True, slots=True)
class AnswerMetadata:
    """What an answer says beside its texts."""

    id: str  # of the call: letters and digits
    created_s: int
    model: str  # the name that the caller used
    document: JsonDocument = field(default_factory=dict, repr=False)
    prompts: tuple[str, ...] = field(default=(), repr=False)  # to be repeated: `echo`
    n: int = 1  # choices of one prompt
    include_usage: bool = False


class AnswerWriter(Protocol):
    """One operation's way to write an answer."""

    def delta(self, delta: Delta) -> list[ServerEvent]: ...
    def last(self, texts: Sequence[GeneratedText]) -> list[ServerEvent]: ...
    def whole(self, written: Sequence[str], texts: Sequence[GeneratedText]) -> bytes: ...


class ChoicesWriter:
    """What chat completions and completions share."""

    def __init__(self, answer: AnswerMetadata, operation: OperationSpec) -> None:
        self._answer = answer
        self._chat = operation is CHAT
        self._begun: set[int] = set()

    def delta(self, delta: Delta) -> list[ServerEvent]:
        events = []
        if delta.index not in self._begun:
            self._begun.add(delta.index)
            events += self._opening(delta.index)
        if delta.text:
            events.append(self._event([self._piece(delta.index, delta.text)]))
        if delta.end is not None:
            reason = delta.end.finish_reason
            events.append(self._event([self._piece(delta.index, None, reason)]))
        return events

    def last(self, texts: Sequence[GeneratedText]) -> list[ServerEvent]:
        if not self._answer.include_usage:
            return []
        return [self._event([], self._usage(texts))]

    def whole(self, written: Sequence[str], texts: Sequence[GeneratedText]) -> bytes:
        choices = [
            self._choice(at, self._echo(at) + text, outcome.finish_reason)
            for at, (text, outcome) in enumerate(zip(written, texts, strict=True))
        ]
        kind = "chat.completion" if self._chat else "text_completion"
        return strictjson.dumps(self._head(kind, choices) | {"usage": self._usage(texts)})

    def _opening(self, index: int) -> list[ServerEvent]:
        if self._chat:
            return [self._event([_choice(index, delta={"role": "assistant", "content": ""})])]
        echo = self._echo(index)
        return [self._event([self._piece(index, echo)])] if echo else []

    def _piece(self, index: int, text: str | None, finish_reason: str | None = None) -> Any:
        if self._chat:
            delta = {} if text is None else {"content": text}
            return _choice(index, finish_reason, delta=delta)
        return _choice(index, finish_reason, text=text or "")

    def _choice(self, index: int, text: str, finish_reason: str) -> Any:
        if self._chat:
            message = {"role": "assistant", "content": text, "refusal": None}
            return _choice(index, finish_reason, message=message)
        return _choice(index, finish_reason, text=text)

    def _echo(self, index: int) -> str:
        prompts = self._answer.prompts
        return prompts[index // self._answer.n] if prompts else ""

    def _event(self, choices: list[Any], usage: JsonDocument | None = None) -> ServerEvent:
        event = self._head("chat.completion.chunk" if self._chat else "text_completion", choices)
        if self._answer.include_usage:
            event["usage"] = usage
        return ServerEvent(strictjson.dumps(event))

    def _head(self, kind: str, choices: list[Any]) -> JsonDocument:
        return {
            "id": ("chatcmpl-" if self._chat else "cmpl-") + self._answer.id,
            "object": kind,
            "created": self._answer.created_s,
            "model": self._answer.model,
            "choices": choices,
        }

    def _usage(self, texts: Sequence[GeneratedText]) -> JsonDocument:
        # A prompt with several choices is counted once.
        given = sum(text.input_tokens for text in texts[:: self._answer.n])
        written = sum(text.output_tokens for text in texts)
        return {
            "prompt_tokens": given,
            "completion_tokens": written,
            "total_tokens": given + written,
        }


def _choice(index: int, finish_reason: str | None = None, **content: Any) -> JsonDocument:
    return {"index": index, **content, "logprobs": None, "finish_reason": finish_reason}
