"""The chunks of a streamed chat as the messages of a ConverseStream, one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Final

from orjson import dumps

from gateway.core.errors import GatewayError
from gateway.core.types import JsonDocument
from gateway.protocols.aws.event_writer import headers, message
from gateway.server.dialects.bedrock.answers import hidden, stop_reason, usage
from gateway.server.dialects.bedrock.errors import exception
from gateway.server.dialects.blocks import REDACTED, TEXT, THINKING, BlockWriter, OpenCall

_JSON: Final = "application/json"


class ConverseWriter(BlockWriter):
    """Writes one streamed answer."""

    def __init__(self, stops: Collection[str], latency_ms: Callable[[], int]) -> None:
        super().__init__(stops)
        self._latency_ms = latency_ms
        self._before = self._after = b""  # around a piece of the block that is open

    def start(self, document: JsonDocument) -> bytes:
        return _event("messageStart", {"role": "assistant"})

    def opening(self, kind: str, call: OpenCall | None, data: str) -> bytes:
        """Blocks of calls alone have an event of their own."""
        self._after = b'},"contentBlockIndex":%d}' % self.index
        if kind == REDACTED:
            return self._delta({"reasoningContent": {"redactedContent": hidden(data)}})
        if kind == TEXT:
            self._before = b'{"delta":{"text":'
        else:
            self._after = b"}" + self._after
            field = b"text" if kind == THINKING else b"input"
            name = b"reasoningContent" if kind == THINKING else b"toolUse"
            self._before = b'{"delta":{"%b":{"%b":' % (name, field)
        if call is None:
            return b""
        start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        return _event("contentBlockStart", {"start": start, "contentBlockIndex": self.index})

    def piece(self, text: str) -> bytes:
        return message(_head("contentBlockDelta"), self._before + dumps(text) + self._after)

    def signature(self, signature: str) -> bytes:
        return self._delta({"reasoningContent": {"signature": signature}})

    def closing(self, kind: str) -> bytes:
        return _event("contentBlockStop", {"contentBlockIndex": self.index})

    def ending(self) -> bytes:
        refused = b""
        if self.refusal:
            self.index += 1
            refused = self.opening(TEXT, None, "") + self.piece(self.refusal) + self.closing(TEXT)
        reason = stop_reason(self.end[0], bool(self.refusal))
        spent = {"usage": usage(self.usage), "metrics": {"latencyMs": self._latency_ms()}}
        return refused + _event("messageStop", {"stopReason": reason}) + _event("metadata", spent)

    def broken_off(self, error: GatewayError) -> bytes:
        kind, body = exception(error)
        head = headers(exception_type=kind, content_type=_JSON, message_type="exception")
        return message(head, body)

    def _delta(self, delta: JsonDocument) -> bytes:
        return _event("contentBlockDelta", {"delta": delta, "contentBlockIndex": self.index})


@cache
def _head(kind: str) -> bytes:
    return headers(event_type=kind, content_type=_JSON, message_type="event")


def _event(kind: str, document: JsonDocument) -> bytes:
    return message(_head(kind), dumps(document))
