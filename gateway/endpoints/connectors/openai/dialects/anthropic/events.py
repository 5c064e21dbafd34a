"""The events of an Anthropic stream as the chunks of a chat completion, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orjson import dumps

from gateway.core.reply import ServerEvent
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.openai import failures
from gateway.endpoints.connectors.openai.dialects.anthropic.answer import (
    ending,
    refusal,
    usage_document,
)
from gateway.endpoints.connectors.openai.dialects.completions import (
    NOT_ENDED,
    chunk,
    event_document,
    head,
    no_beginning,
    unknown_block,
    usage_chunk,
)
from gateway.endpoints.connectors.openai.event_stream import Progress
from gateway.endpoints.connectors.openai.usage import token_counts

_TEXTS = {
    "text_delta": "text",
    "input_json_delta": "partial_json",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
}
"""The field of a piece that has its text."""


class MessageEvents:
    """Reads one stream. `message_stop` ends it, and nothing else does."""

    def __init__(self, usage_wanted: bool) -> None:
        self._usage_wanted = usage_wanted
        self._head = b""  # of every chunk
        self._usage: JsonDocument = {}
        self._calls = 0  # of tools, so far
        self._thoughts = 0  # blocks of them
        self._unwritten = False  # the call that is written has no arguments yet

    def read(self, event: ServerEvent, progress: Progress) -> Sequence[bytes]:
        data = self._data(event_document(event), progress)
        return (data,) if data else ()

    def _data(self, document: JsonDocument, progress: Progress) -> bytes:
        kind = document.get("type")
        if kind == "content_block_delta":
            return self._piece(document.get("delta"))
        if kind == "content_block_start":
            return self._start_block(document.get("content_block"))
        if kind == "content_block_stop":
            return self._stop_block()
        if kind == "message_start":
            return self._start(document.get("message"))
        if kind == "message_delta":
            return self._end(document, progress)
        if kind == "message_stop":
            progress.done()
            return self._usage_chunk() if self._usage_wanted else b""
        if kind == "error":
            progress.failure = failures.in_document(document, progress.words)
        return b""  # a ping, or an event of a later version, which is to be passed over

    def _start(self, message: Any) -> bytes:
        if not isinstance(message, dict):
            raise no_beginning()
        made = head("chat.completion.chunk", message.get("id"), message.get("model"))
        self._head = dumps(made)[:-1]
        self._note_usage(message.get("usage"))
        return self._chunk(dumps({"role": "assistant", "content": "", "refusal": None}))

    def _start_block(self, block: Any) -> bytes:
        match block:
            case {"type": "text", "text": str(text)}:
                return self._chunk(dumps({"content": text})) if text else b""
            case {"type": "thinking", "thinking": str(text)}:
                self._thoughts += 1
                return self._thought("thinking", text) if text else b""
            case {"type": "redacted_thinking", "data": str(data)}:
                self._thoughts += 1
                block = {"index": self._thoughts - 1, "type": "redacted_thinking", "data": data}
                return self._chunk(dumps({"thinking_blocks": [block]}))
            case {"type": "tool_use", "id": str(own), "name": str(name), "input": dict(given)}:
                self._calls += 1
                self._unwritten = not given
                arguments = dumps(given).decode() if given else ""
                function = {"name": name, "arguments": arguments}
                return self._call({"id": own, "type": "function", "function": function})
        raise unknown_block()

    def _piece(self, delta: Any) -> bytes:
        kind = delta.get("type") if isinstance(delta, dict) else None
        if kind == "citations_delta":  # of documents that the call has not marked for that
            return b""
        if kind not in _TEXTS or not isinstance(text := delta.get(_TEXTS[kind]), str):
            raise unknown_block()
        if kind == "text_delta":
            return self._chunk(b'{"content":%b}' % dumps(text))
        if kind in ("thinking_delta", "signature_delta"):
            return self._thought(_TEXTS[kind], text)
        self._unwritten = self._unwritten and not text
        return self._call({"function": {"arguments": text}}) if text else b""

    def _stop_block(self) -> bytes:
        """A call without arguments has an empty object, which a caller can read."""
        if not self._unwritten:
            return b""
        self._unwritten = False
        return self._call({"function": {"arguments": "{}"}})

    def _end(self, document: JsonDocument, progress: Progress) -> bytes:
        self._note_usage(document.get("usage"))
        counts = usage_document(self._usage)
        progress.total_tokens, progress.usage = token_counts(counts)
        end = document.get("delta")
        if not isinstance(end, dict) or end.get("stop_reason") is None:
            return b""
        text = refusal(end)
        delta = {"refusal": text} if text else {}
        return self._chunk(dumps(delta), dumps(ending(end))[1:-1])

    def _note_usage(self, usage: Any) -> None:
        """Later counts take the place of earlier ones."""
        if isinstance(usage, dict):
            self._usage.update({key: count for key, count in usage.items() if count is not None})

    def _usage_chunk(self) -> bytes:
        return usage_chunk(self._begun(), dumps(usage_document(self._usage)))

    def _thought(self, field: str, text: str) -> bytes:
        """A piece of a block that a caller can send back, and the text by itself."""
        block = {"index": self._thoughts - 1, "type": "thinking", "thinking": "", field: text}
        spoken = {"reasoning_content": text} if field == "thinking" else {}
        return self._chunk(dumps({**spoken, "thinking_blocks": [block]}))

    def _call(self, fields: JsonDocument) -> bytes:
        return self._chunk(dumps({"tool_calls": [{"index": self._calls - 1, **fields}]}))

    def _chunk(self, delta: bytes, end: bytes = NOT_ENDED) -> bytes:
        """Of both in JSON; `end`: members of the choice."""
        return chunk(self._begun(), delta, end)

    def _begun(self) -> bytes:
        if not self._head:
            raise no_beginning()
        return self._head
