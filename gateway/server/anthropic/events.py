"""The chunks of a streamed chat as the events of a message, one by one.

A block of a message is open from its first piece to the first piece of another. The reason why an
answer ends and what it took go out together behind the last chunk: chats tell the latter last.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from gateway.core.errors import GatewayError, InternalError, UpstreamFailed
from gateway.core.reply import Frame, FrameSource, Receiver, ServerEvent, ServerEvents
from gateway.core.types import JsonDocument
from gateway.protocols import strictjson
from gateway.protocols.http import ClientLeft
from gateway.server.anthropic.answers import ending, head, reasoning, refused, usage
from gateway.server.anthropic.errors import error_body

_log = logging.getLogger(__name__)

_PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
_STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_DELTA: Final = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":'
)
_READ_BYTES: Final = 128 * 1024  # of a chunk: more is measured before it is parsed
_TEXT, _THINKING, _TOOL = "text", "thinking", "tool_use"


class _OpenCall:
    """A call of a tool, as far as it has come."""

    __slots__ = ("arguments", "id", "name", "position", "written")

    def __init__(self, position: int, own: str, name: str) -> None:
        self.position, self.id, self.name = position, own, name
        self.arguments = ""
        self.written = 0  # characters of them

    def block(self) -> JsonDocument:
        return {"id": self.id, "name": self.name, "input": {}}

    def is_whole(self) -> bool:
        if not self.arguments.endswith("}"):
            return False
        try:
            loads(self.arguments)
        except JSONDecodeError:
            return False
        return True


class MessageWriter:
    """Writes one stream. Each call gives the bytes that follow, perhaps none."""

    def __init__(self, stops: Collection[str]) -> None:
        """`stops`: the sequences that may stop the answer."""
        self._stops = stops
        self._begun = False
        self._index = -1  # of the last block
        self._kind = ""  # of the block that is open
        self._piece = b""  # how a piece of its text begins
        self._block: Any = None  # what of the endpoint's is open: the number of a thought or call
        self._calls: dict[Any, _OpenCall] = {}
        self._ended = 0  # how many of them, in their order
        self._signed = False  # thoughts come in blocks, and need no second form
        self._refusal = ""
        self._end: JsonDocument = {"stop_reason": "end_turn", "stop_sequence": None}
        self._usage: Any = None

    def chunk(self, data: bytes) -> bytes:
        """Raises UpstreamFailed for one that a message has no words for."""
        if len(data) > _READ_BYTES and not strictjson.is_within(data, strictjson.BOUNDS):
            raise UpstreamFailed("the endpoint sent an event that is too large to be translated")
        try:
            document = loads(data)
            written = b"" if self._begun else self._start(document)
            if counts := document.get("usage"):
                self._usage = counts
            if choices := document.get("choices"):
                choice = choices[0]
                written += self._pieces(choice.get("delta") or {})
                if choice.get("finish_reason") is not None:
                    self._end = ending(choice, self._stops, bool(self._calls))
            return written
        except (JSONDecodeError, AttributeError, TypeError, KeyError, IndexError):
            failed = UpstreamFailed("the endpoint sent an event that is no chunk of a chat")
        raise failed

    def last(self) -> bytes:
        """What ends a whole stream."""
        end = self._end | (refused(self._refusal) if self._refusal else {})
        closing = {"type": "message_delta", "delta": end, "usage": usage(self._usage)}
        started = b"" if self._begun else self._start({})
        written = started + self._calls_written(last=True) + self._close()
        return written + _event("message_delta", closing) + _STOP

    def _start(self, document: JsonDocument) -> bytes:
        self._begun = True
        begun = {**head(document, []), "stop_reason": None, "stop_sequence": None}
        begun["usage"] = usage(None)
        return _event("message_start", {"type": "message_start", "message": begun}) + _PING

    def _pieces(self, delta: JsonDocument) -> bytes:
        text = delta.get("content")
        if len(delta) == 1 and text:
            return self._content(text)
        written = b""
        if thoughts := delta.get("thinking_blocks"):
            self._signed = True
            for thought in thoughts:
                written += self._thought(thought)
        elif not self._signed and (thought := reasoning(delta)):
            written += self._open(_THINKING, None, {"thinking": "", "signature": ""})
            written += self._text(thought)
        if text:
            written += self._content(text)
        if refusal := delta.get("refusal"):
            self._refusal += refusal
        for call in delta.get("tool_calls") or ():
            written += self._call(call)
        return written

    def _content(self, text: str) -> bytes:
        begun = b""
        if self._kind != _TEXT:
            self._ended += self._kind == _TOOL
            begun = self._open(_TEXT, None, {"text": ""})
        return begun + self._text(text)

    def _text(self, text: str) -> bytes:
        return self._piece + dumps(text) + b"}}\n\n"

    def _thought(self, thought: JsonDocument) -> bytes:
        at = thought.get("index", 0)
        if thought.get("type") == "redacted_thinking":
            return self._open("redacted_thinking", at, {"data": thought["data"]})
        written = self._open(_THINKING, at, {"thinking": "", "signature": ""})
        if text := thought.get("thinking"):
            written += self._text(text)
        if signature := thought.get("signature"):
            delta = {"type": "signature_delta", "signature": signature}
            piece = {"type": "content_block_delta", "index": self._index, "delta": delta}
            written += _event("content_block_delta", piece)
        return written

    def _call(self, piece: JsonDocument) -> bytes:
        """Of a call of a tool. One that begins waits until those before it are whole, as chats may
        write several side by side."""
        at, function = piece.get("index", 0), piece.get("function") or {}
        call = self._calls.get(at)
        if call is None:
            if not isinstance(name := function.get("name"), str) or not name:
                raise UpstreamFailed("the endpoint's answer has a call of a tool without its name")
            call = self._calls[at] = _OpenCall(
                len(self._calls), piece.get("id") or f"call_{at}", name
            )
        if arguments := function.get("arguments"):
            if call.position < self._ended:
                raise UpstreamFailed("the endpoint's answer goes on with a call that has ended")
            call.arguments += arguments
        return self._calls_written()

    def _calls_written(self, last: bool = False) -> bytes:
        """What may go of the calls that have not ended: all of the first, and the next once that is
        whole. `last`: no more comes of any."""
        written = b""
        for call in list(self._calls.values())[self._ended :]:
            written += self._open(_TOOL, call.position, call.block())
            if arguments := call.arguments[call.written :]:
                call.written = len(call.arguments)
                written += self._text(arguments)
            # guard: S13.one-block -> if False:
            if not last and (call.position + 1 == len(self._calls) or not call.is_whole()):
                break
            self._ended = call.position + 1
        return written

    def _open(self, kind: str, at: Any, fields: JsonDocument) -> bytes:
        """The beginning of a block, unless this one is open."""
        if self._kind == kind and self._block == at:
            return b""
        written = self._close()
        self._index, self._kind, self._block = self._index + 1, kind, at
        pieces = _DELTA % self._index
        if kind == _TEXT:
            self._piece = pieces + b'"text_delta","text":'
        elif kind == _THINKING:
            self._piece = pieces + b'"thinking_delta","thinking":'
        else:
            self._piece = pieces + b'"input_json_delta","partial_json":'
        block = {"type": kind, **fields}
        begun = {"type": "content_block_start", "index": self._index, "content_block": block}
        return written + _event("content_block_start", begun)

    def _close(self) -> bytes:
        if not self._kind:
            return b""
        self._kind = ""
        ended = {"type": "content_block_stop", "index": self._index}
        return _event("content_block_stop", ended)


def _event(name: str, document: JsonDocument) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), dumps(document))


class MessageBytes:
    """What a streamed message looks like on the wire; closing it closes the reply (A3, A4)."""

    def __init__(self, frames: FrameSource, stops: Collection[str], call_id: str) -> None:
        self._frames = frames
        self._writer = MessageWriter(stops)
        self._id = call_id
        self._caller: Receiver[bytes]

    async def deliver(self, receiver: Receiver[bytes]) -> None:
        self._caller = receiver
        try:
            await self._frames.deliver(self)
        except GatewayError as error:
            # guard: S13.in-band-error -> return
            last = self._broken_off(error)
        except ClientLeft:
            raise
        except Exception as exc:  # noqa: BLE001 - a front's: the caller must learn of the cut
            _log.error("a message stream failed: %s", type(exc).__name__)  # its text may be content
            last = self._broken_off(InternalError("the gateway failed while it streamed"))
        else:
            last = self._writer.last()
        receiver.put(last)

    # A receiver of frames

    def put(self, frame: Frame) -> bool:
        if isinstance(frame, ServerEvents):
            written = b"".join(map(self._writer.chunk, frame.datas()))
        elif isinstance(frame, ServerEvent):
            written = self._writer.chunk(frame.data)
        else:
            raise InternalError("an event stream has a frame of another protocol")
        return not written or self._caller.put(written)

    async def room(self) -> None:
        await self._caller.room()

    async def aclose(self) -> None:
        await self._frames.aclose()

    def _broken_off(self, error: GatewayError) -> bytes:
        """In-band, since the status line is long gone; and never `message_stop` behind it."""
        return ServerEvent(error_body(error, self._id), "error").framed()
