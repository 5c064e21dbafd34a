"""The chunks of a streamed chat as the events of a message, one by one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from orjson import dumps

from gateway.core.errors import GatewayError
from gateway.core.reply import ServerEvent
from gateway.core.types import JsonDocument
from gateway.server.dialects.anthropic.answers import ending, head, refused, usage
from gateway.server.dialects.anthropic.errors import error_body
from gateway.server.dialects.blocks import REDACTED, TEXT, THINKING, BlockWriter, OpenCall

_PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
_STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_DELTA: Final = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":'
)


class MessageWriter(BlockWriter):
    """Writes one streamed message."""

    def __init__(self, stops: Collection[str], call_id: str) -> None:
        super().__init__(stops)
        self._id = call_id
        self._piece = b""  # how a piece of the block that is open begins

    def start(self, document: JsonDocument) -> bytes:
        begun = {**head(document, []), "stop_reason": None, "stop_sequence": None}
        begun["usage"] = usage(None)
        return _event("message_start", {"type": "message_start", "message": begun}) + _PING

    def opening(self, kind: str, call: OpenCall | None, data: str) -> bytes:
        pieces = _DELTA % self.index
        fields: JsonDocument
        if kind == TEXT:
            self._piece, fields = pieces + b'"text_delta","text":', {"text": ""}
        elif kind == THINKING:
            self._piece = pieces + b'"thinking_delta","thinking":'
            fields = {"thinking": "", "signature": ""}
        elif kind == REDACTED or call is None:
            fields = {"data": data}
        else:
            self._piece = pieces + b'"input_json_delta","partial_json":'
            fields = {"id": call.id, "name": call.name, "input": {}}
        block = {"type": kind, **fields}
        begun = {"type": "content_block_start", "index": self.index, "content_block": block}
        return _event("content_block_start", begun)

    def piece(self, text: str) -> bytes:
        return self._piece + dumps(text) + b"}}\n\n"

    def signature(self, signature: str) -> bytes:
        delta = {"type": "signature_delta", "signature": signature}
        piece = {"type": "content_block_delta", "index": self.index, "delta": delta}
        return _event("content_block_delta", piece)

    def closing(self, kind: str) -> bytes:
        return _event("content_block_stop", {"type": "content_block_stop", "index": self.index})

    def ending(self) -> bytes:
        end = ending(self.end) | (refused(self.refusal) if self.refusal else {})
        closing = {"type": "message_delta", "delta": end, "usage": usage(self.usage)}
        return _event("message_delta", closing) + _STOP

    def broken_off(self, error: GatewayError) -> bytes:
        return ServerEvent(error_body(error, self._id), "error").framed()


def _event(name: str, document: JsonDocument) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), dumps(document))
