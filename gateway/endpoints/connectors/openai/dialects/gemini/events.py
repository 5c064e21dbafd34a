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
    usage_document,
)
from gateway.endpoints.connectors.openai.event_stream import Progress
from gateway.endpoints.connectors.openai.usage import token_counts

_FIRST = {"role": "assistant", "content": "", "refusal": None}


class CandidateEvents:
    """Reads one stream. It ends with its body, once each candidate has said why it has ended."""

    def __init__(self, usage_wanted: bool) -> None:
        self._usage_wanted = usage_wanted
        self._head = b""  # of every chunk
        self._calls: dict[int, int] = {}  # so far, of each candidate that has begun
        self._open: set[int] = set()  # candidates that have begun and not ended

    def read(self, event: ServerEvent, progress: Progress) -> Sequence[bytes]:
        document = event_document(event)
        if "error" in document:
            progress.failure = failures.in_document(document, progress.words)
            return ()
        if not self._head:
            own, model = document.get("responseId"), document.get("modelVersion")
            self._head = dumps(head("chat.completion.chunk", own, model))[:-1]
        stated = candidates(document)
        if len(stated) == 1 and (text := self._continued(stated[0])) is not None:
            progress.goes_on()
            return (chunk(self._head, b'{"content":%b}' % dumps(text)),) if text else ()
        choices = [self._choice(at, each) for at, each in enumerate(stated)]
        if (refusal := blocked(document)) is not None:
            delta = {**_FIRST, **({"refusal": refusal} if refusal else {})}
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

    def _continued(self, candidate: Any) -> str | None:
        """The text of a candidate 0 that goes on and says nothing else; None: it says more."""
        match candidate:
            case {"content": {"parts": [{"text": str(text), **more}]}, **rest}:
                if not more and 0 in self._open and rest.get("index", 0) == 0:
                    return None if rest.keys() - {"index"} else text
        return None

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
        delta |= pieces.spoken()
        for call in pieces.calls:
            call["index"] = self._calls[at]
            self._calls[at] += 1
        if (reason := candidate.get("finishReason")) is not None:
            self._open.discard(at)
            reason = finish(reason, self._calls[at] > 0)
        return _choice(at, delta, logprobs(candidate), reason)


def _choice(at: int, delta: JsonDocument, shown: JsonDocument | None, reason: Any) -> JsonDocument:
    return {"index": at, "delta": delta, "logprobs": shown, "finish_reason": reason}
