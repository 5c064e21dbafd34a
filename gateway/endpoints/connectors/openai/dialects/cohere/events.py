"""The events of a stream of Cohere's Chat API as chunks of a chat completion, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orjson import dumps

from gateway.core.reply import ServerEvent
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.openai.dialects.cohere.answer import (
    finish,
    tool_call,
    usage_document,
)
from gateway.endpoints.connectors.openai.dialects.completions import (
    chunk,
    event_document,
    head,
    no_beginning,
    unknown_block,
    usage_chunk,
)
from gateway.endpoints.connectors.openai.event_stream import Progress
from gateway.endpoints.connectors.openai.usage import token_counts


class ChatEvents:
    """Reads one stream. `message-end` ends it, and nothing else does. Events of citations, which
    were not asked for, and of later versions say nothing."""

    def __init__(self, usage_wanted: bool, model: str) -> None:
        self._usage_wanted = usage_wanted
        self._model = model
        self._head = b""  # of every chunk
        self._calls = 0  # of tools, so far
        self._unwritten = False  # the call that is written has no arguments yet

    def read(self, event: ServerEvent, progress: Progress) -> Sequence[bytes]:
        document = event_document(event)
        kind, delta = document.get("type"), document.get("delta")
        message = delta.get("message") if type(delta) is dict else None
        if kind in ("content-delta", "content-start", "tool-plan-delta"):
            data = self._text(message)
        elif kind == "message-end":
            return self._end(delta, progress)
        elif kind == "message-start":
            made = head("chat.completion.chunk", document.get("id"), self._model)
            self._head = dumps(made)[:-1]
            data = self._chunk({"role": "assistant", "content": "", "refusal": None})
        else:
            data = self._called(kind, message)
        return (data,) if data else ()

    def _called(self, kind: Any, message: Any) -> bytes:
        if kind == "tool-call-start":
            return self._start_call(message)
        if kind == "tool-call-delta":
            return self._arguments(message)
        if kind == "tool-call-end" and self._unwritten:
            return self._call({"function": {"arguments": "{}"}})
        return b""

    def _text(self, message: Any) -> bytes:
        stated = message if type(message) is dict else {}
        content = stated.get("content")
        if type(content) is not dict:
            content = {"text": stated.get("tool_plan")}
        if type(text := content.get("text")) is str:
            return chunk(self._begun(), b'{"content":%b}' % dumps(text)) if text else b""
        if type(text := content.get("thinking")) is str:
            return self._chunk({"reasoning_content": text}) if text else b""
        raise unknown_block()

    def _start_call(self, message: Any) -> bytes:
        made = tool_call(message.get("tool_calls") if isinstance(message, dict) else None)
        self._calls += 1
        self._unwritten = made["function"]["arguments"] == "{}"
        if self._unwritten:
            made["function"]["arguments"] = ""
        return self._call(made)

    def _arguments(self, message: Any) -> bytes:
        match message:
            case {"tool_calls": {"function": {"arguments": str(text)}}}:
                self._unwritten = self._unwritten and not text
                return self._call({"function": {"arguments": text}}) if text else b""
        raise unknown_block()

    def _end(self, delta: Any, progress: Progress) -> Sequence[bytes]:
        stated: Mapping[str, Any] = delta if isinstance(delta, dict) else {}
        usage = usage_document(stated.get("usage"))
        progress.total_tokens, progress.usage = token_counts(usage)
        end = b'"finish_reason":%b' % dumps(finish(stated.get("finish_reason")))
        last = chunk(self._begun(), b"{}", end)
        progress.done()
        if not self._usage_wanted:
            return (last,)
        return (last, usage_chunk(self._head, dumps(usage)))

    def _call(self, fields: JsonDocument) -> bytes:
        return self._chunk({"tool_calls": [{"index": self._calls - 1, **fields}]})

    def _chunk(self, delta: JsonDocument) -> bytes:
        return chunk(self._begun(), dumps(delta))

    def _begun(self) -> bytes:
        if not self._head:
            raise no_beginning()
        return self._head
