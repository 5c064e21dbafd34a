"""The events of ConverseStream as the chunks of a chat completion, one by one."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from typing import Any

from orjson import dumps

from gateway.core.reply import ServerEvent
from gateway.core.types import JsonDocument
from gateway.endpoints.connectors.openai.dialects.bedrock.answer import (
    beginning,
    finish,
    usage_document,
)
from gateway.endpoints.connectors.openai.dialects.completions import (
    NOT_ENDED,
    chunk,
    event_document,
    no_beginning,
    unknown_block,
    usage_chunk,
)
from gateway.endpoints.connectors.openai.event_stream import Progress
from gateway.endpoints.connectors.openai.usage import token_counts


class ConverseEvents:
    """Reads one stream. It ends when both the reason of its end and what it took were told."""

    def __init__(self, usage_wanted: bool, model: str) -> None:
        self._usage_wanted = usage_wanted
        self._model = model
        self._head = b""  # of every chunk
        self._calls = 0  # of tools, so far
        self._thoughts = 0  # blocks of them
        self._thought_at: Any = None  # the index of the last of them among all blocks
        self._redacted = b""  # what has come of a block
        self._unwritten = False  # the call that is written has no arguments yet
        self._stopped = self._counted = False

    def read(self, event: ServerEvent, progress: Progress) -> Sequence[bytes]:
        data = self._data(event.event, event_document(event), progress)
        if self._stopped and self._counted:
            progress.done()
        return (data,) if data else ()

    def _data(self, kind: str, document: JsonDocument, progress: Progress) -> bytes:
        if kind == "contentBlockDelta":
            return self._piece(document.get("delta"), document.get("contentBlockIndex"))
        if kind == "contentBlockStart":
            return self._start_block(document.get("start"))
        if kind == "contentBlockStop":
            return self._stop_block()
        if kind == "messageStart":
            self._head = dumps(beginning("chat.completion.chunk", self._model))[:-1]
            return self._chunk(dumps({"role": "assistant", "content": "", "refusal": None}))
        if kind == "messageStop":
            self._stopped = True
            end = b'"finish_reason":%b' % dumps(finish(document.get("stopReason")))
            return self._chunk(b"{}", end)
        if kind == "metadata":
            return self._count(document.get("usage"), progress)
        return b""  # an event of a later version, which is to be passed over

    def _start_block(self, start: Any) -> bytes:
        match start:
            case {"toolUse": {"toolUseId": str(own), "name": str(name)}}:
                self._calls += 1
                self._unwritten = True
                function = {"name": name, "arguments": ""}
                return self._call({"id": own, "type": "function", "function": function})
        raise unknown_block()

    def _piece(self, delta: Any, at: Any) -> bytes:
        if isinstance(delta, dict) and isinstance(text := delta.get("text"), str):
            return self._chunk(b'{"content":%b}' % dumps(text))
        match delta:
            case {"toolUse": {"input": str(text)}}:
                self._unwritten = self._unwritten and not text
                return self._call({"function": {"arguments": text}}) if text else b""
            case {"reasoningContent": {"text": str(text)}}:
                return self._thought("thinking", text, at)
            case {"reasoningContent": {"signature": str(text)}}:
                return self._thought("signature", text, at)
            case {"reasoningContent": {"redactedContent": str(text)}}:
                try:
                    self._redacted += b64decode(text, validate=True)
                except NotBase64:
                    raise unknown_block() from None
                return b""
            case {"citation": dict()}:  # of documents that the call has not marked for that
                return b""
        raise unknown_block()

    def _stop_block(self) -> bytes:
        """A call without arguments has an empty object, which a caller can read."""
        if self._redacted:
            data, self._redacted = b64encode(self._redacted).decode(), b""
            self._thoughts += 1
            block = {"index": self._thoughts - 1, "type": "redacted_thinking", "data": data}
            return self._chunk(dumps({"thinking_blocks": [block]}))
        if not self._unwritten:
            return b""
        self._unwritten = False
        return self._call({"function": {"arguments": "{}"}})

    def _count(self, usage: Any, progress: Progress) -> bytes:
        self._counted = True
        counts = usage_document(usage)
        progress.total_tokens, progress.usage = token_counts(counts)
        return usage_chunk(self._begun(), dumps(counts)) if self._usage_wanted else b""

    def _thought(self, field: str, text: str, at: Any) -> bytes:
        """A piece of a block that a caller can send back, and the text by itself."""
        if at != self._thought_at:
            self._thought_at = at
            self._thoughts += 1
        block = {"index": self._thoughts - 1, "type": "thinking", "thinking": "", field: text}
        spoken = {"reasoning_content": text} if field == "thinking" else {}
        return self._chunk(dumps({**spoken, "thinking_blocks": [block]}))

    def _call(self, fields: JsonDocument) -> bytes:
        return self._chunk(dumps({"tool_calls": [{"index": self._calls - 1, **fields}]}))

    def _chunk(self, delta: bytes, end: bytes = NOT_ENDED) -> bytes:
        return chunk(self._begun(), delta, end)

    def _begun(self) -> bytes:
        if not self._head:
            raise no_beginning()
        return self._head
