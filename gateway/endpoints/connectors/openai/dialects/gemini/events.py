"""The events of a stream of `generateContent` as chunks of a chat completion, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orjson import dumps

from gateway.core.errors import UpstreamFailed
from gateway.core.reply import ServerEvent
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.dialects.completions import (
    chunk,
    event_document,
    exact_document,
    head,
    usage_chunk,
)
from gateway.endpoints.connectors.openai.dialects.gemini.answer import (
    BLOCKED,
    Pieces,
    blocked,
    candidates,
    finish,
    index,
    logprobs,
    refusal,
    signed,
    usage_document,
)
from gateway.endpoints.connectors.openai.event_stream import Progress
from gateway.endpoints.connectors.openai.usage import token_counts

_FIRST = {"role": "assistant", "content": "", "refusal": None}


class CandidateEvents:
    """Reads one stream. It ends with its body, once each candidate has said why it has ended."""

    def __init__(self, usage_wanted: bool, model: str) -> None:
        self._usage_wanted = usage_wanted
        self._model = model
        self._head = b""  # of every chunk
        self._calls: dict[int, int] = {}  # so far, of each candidate that has begun
        self._open: set[int] = set()  # candidates that have begun and not ended
        self._signatures: dict[int, str] = {}  # of candidates, the last of each

    def read(self, event: ServerEvent, progress: Progress) -> Sequence[bytes]:
        called = b'"functionCall"' in event.data  # whose arguments are no text
        document = exact_document(event) if called else event_document(event)
        if "error" in document:
            progress.failure = failures.in_document(document, progress.words)
            return ()
        stated = candidates(document)
        if 0 in self._open and len(stated) == 1:
            text = _continued(stated[0])
            if text is not None:
                return (chunk(self._head, b'{"content":%b}' % dumps(text)),) if text else ()
        if not self._head:
            own, model = document.get("responseId"), document.get("modelVersion") or self._model
            self._head = dumps(head("chat.completion.chunk", own, model))[:-1]
        choices = [self._choice(at, each) for at, each in enumerate(stated)]
        if (refused := blocked(document)) is not None:
            delta = {**_FIRST, **({"refusal": refused} if refused else {})}
            choices = [_choice(0, delta, None, BLOCKED)]
        if not choices:
            return ()
        progress.note({"choices": choices})
        chunks = [b'%b,"choices":%b}' % (self._head, dumps(choices))]
        if not self._open:
            usage = usage_document(document.get("usageMetadata"))
            progress.total_tokens, progress.usage = token_counts(usage)
            if self._usage_wanted:
                chunks.append(usage_chunk(self._head, dumps(usage)))
        return chunks

    def _choice(self, at: int, candidate: Any) -> JsonDocument:
        if not isinstance(candidate, dict):
            raise UpstreamFailed("the endpoint sent an event that has no candidate")
        at, pieces = index(candidate, at), Pieces(candidate)
        delta: JsonDocument = {}
        if at not in self._calls:
            self._calls[at] = 0
            self._open.add(at)
            delta = dict(_FIRST)
        if pieces.text:
            delta["content"] = pieces.text
        if pieces.signature:  # callers join the pieces of a field
            self._signatures[at], pieces.signature = pieces.signature, None
        delta |= pieces.spoken()
        for call in pieces.calls:
            call["index"] = self._calls[at]
            self._calls[at] += 1
        if (reason := candidate.get("finishReason")) is not None:
            self._open.discard(at)
            if signature := self._signatures.get(at):
                delta["extra_content"] = signed(signature)
            reason = finish(reason, self._calls[at] > 0)
            if refused := refusal(candidate, reason):
                delta["refusal"] = refused
        return _choice(at, delta, logprobs(candidate), reason)


def _choice(at: int, delta: JsonDocument, shown: JsonDocument | None, reason: Any) -> JsonDocument:
    return {"index": at, "delta": delta, "logprobs": shown, "finish_reason": reason}


def _continued(candidate: Any) -> str | None:
    """The text of a candidate 0 that goes on and says nothing else; None: it says more."""
    if type(candidate) is not dict or len(candidate) - (candidate.get("index") == 0) != 1:
        return None
    content = candidate.get("content")
    parts = content.get("parts") if type(content) is dict else None
    part = parts[0] if type(parts) is list and len(parts) == 1 else None
    text = part.get("text") if type(part) is dict and len(part) == 1 else None
    return text if type(text) is str else None
