"""The chunks of a streamed chat as the events of Cohere's Chat, one by one."""

from __future__ import annotations

from collections.abc import Collection

from orjson import dumps

from gateway.core.errors import GatewayError
from gateway.core.types import JsonDocument
from gateway.server.dialects.blocks import REDACTED, TEXT, THINKING, TOOL, BlockWriter, OpenCall
from gateway.server.dialects.cohere.answers import finish, usage
from gateway.server.dialects.failures import words


class ChatWriter(BlockWriter):
    """Writes one streamed answer. Texts and calls are counted each for themselves."""

    def __init__(self, stops: Collection[str]) -> None:
        super().__init__(stops)
        self._texts = -1  # the number of the last one
        self._at = 0  # the number of the block that is open, among those of its kind
        self._before = self._after = b""  # around a piece of it

    def start(self, document: JsonDocument) -> bytes:
        message = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
        own = document.get("id") or "chat"
        return _event("message-start", id=own, delta={"message": message})

    def opening(self, kind: str, call: OpenCall | None, data: str) -> bytes:
        if kind == REDACTED:
            return b""  # nobody reads it, and no field has it
        self._after = b"}}}}\n\n"
        if call is not None:
            self._at = call.position
            function = {"name": call.name, "arguments": ""}
            stated = {"id": call.id, "type": "function", "function": function}
            self._before = (
                b'event: tool-call-delta\ndata: {"type":"tool-call-delta","index":%d,"delta":'
                b'{"message":{"tool_calls":{"function":{"arguments":' % self._at
            )
            self._after = b"}" + self._after
            delta = {"message": {"tool_calls": stated}}
            return _event("tool-call-start", index=self._at, delta=delta)
        self._texts += 1
        self._at = self._texts
        name = THINKING if kind == THINKING else TEXT
        self._before = (
            b'event: content-delta\ndata: {"type":"content-delta","index":%d,"delta":{"message":'
            b'{"content":{"%b":' % (self._at, name.encode())
        )
        delta = {"message": {"content": {"type": name, name: ""}}}
        return _event("content-start", index=self._at, delta=delta)

    def piece(self, text: str) -> bytes:
        return self._before + dumps(text) + self._after

    def signature(self, signature: str) -> bytes:
        return b""  # no field has it

    def closing(self, kind: str) -> bytes:
        if kind == REDACTED:
            return b""
        return _event("tool-call-end" if kind == TOOL else "content-end", index=self._at)

    def ending(self) -> bytes:
        refused = b""
        if self.refusal:
            refused = self.opening(TEXT, None, "") + self.piece(self.refusal) + self.closing(TEXT)
        reason = finish(self.end[0], bool(self.refusal))
        delta = {"finish_reason": reason, "usage": usage(self.usage)}
        return refused + _event("message-end", delta=delta)

    def broken_off(self, error: GatewayError) -> bytes:
        delta = {"finish_reason": "ERROR", "error": words(error), "usage": usage(self.usage)}
        return _event("message-end", delta=delta)


def _event(kind: str, **fields: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), dumps({"type": kind, **fields}))
