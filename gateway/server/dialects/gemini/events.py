"""The chunks of a streamed chat as answers of `streamGenerateContent`, one by one.

A call of a function goes out whole, and why each candidate ends behind the last chunk, with what
the answer took: chats tell that last.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from orjson import dumps

from gateway.core.errors import GatewayError, UpstreamFailed
from gateway.core.types import JsonDocument
from gateway.server.dialects.answers import END, ending, given, reasoning
from gateway.server.dialects.gemini import answers, signatures
from gateway.server.dialects.gemini.errors import error_body
from gateway.server.dialects.stream import StreamWriter

_NEXT: Final = b",\r\n"


class _Candidate:
    """One answer, as far as it has come."""

    __slots__ = ("calls", "end", "refusal", "signed")

    def __init__(self) -> None:
        self.calls: dict[Any, JsonDocument] = {}  # by their numbers, that have not gone out
        self.end = END
        self.refusal = ""
        self.signed = False  # thoughts come in blocks, and need no second form


class GenerateWriter(StreamWriter):
    """Writes one stream of answers, as events or as the items of a JSON array."""

    def __init__(self, stops: Collection[str], events: bool) -> None:
        """`stops`: the sequences that may stop the answer."""
        self._stops, self._events = stops, events
        self._begun = False
        self._candidates: dict[int, _Candidate] = {}
        self._head: JsonDocument = {}
        self._before = self._after = b""  # of an answer with one text
        self._usage: Any = None

    def _chunk(self, document: Any) -> bytes:
        if not self._head:
            self._head = answers.head(document)
            self._after = b'}],"role":"model"},"index":0}],' + dumps(self._head)[1:]
            self._before = b'{"candidates":[{"content":{"parts":[{"text":'
        if counts := document.get("usage"):
            self._usage = counts
        choices: list[Any] = document.get("choices") or []
        if len(choices) == 1 and (text := _only_text(choices[0])):
            self._candidates.setdefault(0, _Candidate())
            return self._framed(self._before + dumps(text) + self._after)
        made = [each for choice in choices if (each := self._candidate(choice))]
        return self._framed(dumps({"candidates": made, **self._head})) if made else b""

    def last(self) -> bytes:
        ended = []
        for at, state in sorted(self._candidates.items()):
            parts = [_call(number, call) for number, call in enumerate(state.calls.values())]
            ended.append(answers.candidate(at, parts) | answers.finish(state.end, state.refusal))
        usage = answers.usage(self._usage)
        made = {"candidates": ended, "usageMetadata": usage, **self._head}
        return self._framed(dumps(made)) + (b"" if self._events else b"]")

    def broken_off(self, error: GatewayError) -> bytes:
        return self._framed(error_body(error)) + (b"" if self._events else b"]")

    def _framed(self, data: bytes) -> bytes:
        if self._events:
            return b"data: " + data + b"\r\n\r\n"
        begun, self._begun = self._begun, True
        return (_NEXT if begun else b"[") + data

    def _candidate(self, choice: JsonDocument) -> JsonDocument | None:
        at = answers.index(choice)
        state = self._candidates.setdefault(at, _Candidate())
        delta = choice.get("delta") or {}
        parts = _thoughts(delta, state)
        text, signature = delta.get("content") or "", signatures.googles(delta)
        if text or signature:
            parts.append(answers.text_part(text, signature))
        if refusal := delta.get("refusal"):
            state.refusal += refusal
        for piece in delta.get("tool_calls") or ():
            _add_call(state, piece)
        if choice.get("finish_reason") is not None:
            state.end = ending(choice, self._stops, bool(state.calls))[0]
        shown = answers.logprobs(choice)
        if not parts and shown is None:
            return None
        made = answers.candidate(at, parts)
        return made if shown is None else {**made, "logprobsResult": shown}


def _only_text(choice: JsonDocument) -> str:
    """Of the first candidate, of which nothing else comes; empty: something does."""
    delta = choice.get("delta")
    if not delta or len(delta) != 1 or choice.get("index") or choice.get("logprobs"):
        return ""
    return "" if choice.get("finish_reason") else delta.get("content") or ""


def _thoughts(delta: JsonDocument, state: _Candidate) -> list[JsonDocument]:
    if blocks := delta.get("thinking_blocks"):
        state.signed = True
        return [answers.thought(block) for block in blocks]
    if not state.signed and (thought := reasoning(delta)):
        return [answers.thought({"thinking": thought})]
    return []


def _add_call(state: _Candidate, piece: JsonDocument) -> None:
    """Raises UpstreamFailed for a call without its name."""
    at, function = piece.get("index", 0), piece.get("function") or {}
    call = state.calls.get(at)
    if call is None:
        if not isinstance(name := function.get("name"), str) or not name:
            raise UpstreamFailed("the endpoint's answer has a call of a tool without its name")
        call = state.calls[at] = {"id": piece.get("id"), "name": name, "arguments": ""}
    call["arguments"] += function.get("arguments") or ""
    if signature := signatures.googles(piece):
        call["signature"] = signature


def _call(at: int, call: JsonDocument) -> JsonDocument:
    arguments = given(call["arguments"])
    own = call["id"] or f"call_{at}"
    return answers.called(own, call["name"], arguments, call.get("signature", ""))
