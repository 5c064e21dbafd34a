"""Calls of gRPC with one message each on one connection to a server, many at once (gRPC over
HTTP/2)."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import Final

from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare
from gateway.protocols.http2 import BadStream, Code, frames
from gateway.protocols.http2.bounds import (
    CONNECTION_WINDOW,
    FRAME_BYTES,
    HEAD_LIST_BYTES,
    STREAM_WINDOW,
)
from gateway.protocols.http2.calls import Http2Call, StreamedCall
from gateway.protocols.http2.connection import Http2Connection
from gateway.protocols.http2.hpack import Decoder, Field
from gateway.protocols.http2.message import GrpcStatusError, code_name, decode_message, is_grpc
from gateway.protocols.http2.request import CONNECTION_FIELDS
from gateway.protocols.http2.sender import Fields

QUIET_S: Final = 30.0  # with calls on it, before the server is asked whether it is there
PONG_S: Final = 10.0

_LAST_STREAM: Final = frames.MOST_WINDOW - 2
_GREETING = (
    frames.PREFACE
    + frames.settings(
        {
            frames.ENABLE_PUSH: 0,
            frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            frames.MAX_FRAME_SIZE: FRAME_BYTES,
            frames.MAX_HEADER_LIST_SIZE: HEAD_LIST_BYTES,
        }
    )
    + frames.window_update(0, CONNECTION_WINDOW - frames.USUAL_WINDOW)
)
_CODES_BY_HTTP_STATUS = {  # of an answer that is not gRPC's (http-grpc-status-mapping.md)
    400: "INTERNAL",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "UNIMPLEMENTED",
    429: "UNAVAILABLE",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "UNAVAILABLE",
}
_CODES_BY_RESET = {
    Code.REFUSED_STREAM: "UNAVAILABLE",
    Code.CANCEL: "CANCELLED",
    Code.ENHANCE_YOUR_CALM: "RESOURCE_EXHAUSTED",
}


_CONTROLS = re.compile(rb"[\0\r\n]")  # RFC 9113, section 8.2.1


class AnswerHead:
    """What the header fields of an answer say: those before its message, or behind it."""

    __slots__ = ("details", "http", "length", "refused", "status")

    def __init__(self, fields: list[Field] | None) -> None:
        """Raises BadStream."""
        self.status: str | None = None  # of gRPC; there is one at the end
        self.refused: GrpcStatusError | None = None  # it is no answer of gRPC
        self.details = ""
        self.http = b""
        self.length: int | None = None
        if fields is None:
            self.refused = GrpcStatusError(
                "RESOURCE_EXHAUSTED", "received metadata size exceeds limit"
            )
            return
        http, kind, last = b"", b"", b""
        for name, value in fields:
            if name == b"grpc-status":
                self.status = code_name(value)
            elif name == b"grpc-message":
                self.details = decode_message(value)
            elif name == b":status" and not last:
                self.http = http = value
            elif name == b"content-type":
                kind = value
            elif name == b"content-length" and self.length is None and value.isdigit():
                self.length = int(value[:18])
            elif not _may_answer(name) or _CONTROLS.search(value):
                raise BadStream(Code.PROTOCOL_ERROR, "a header field that is none")
            last = name
        if http[:1] == b"1":  # an interim answer; the real one follows
            return
        if http and self.status is None and (http != b"200" or not is_grpc(kind)):
            code = _CODES_BY_HTTP_STATUS.get(int(http), "UNKNOWN") if http.isdigit() else "UNKNOWN"
            words = http.decode("ascii", "replace")
            self.refused = GrpcStatusError(
                code, f"the answer is not gRPC's; its HTTP status is {words}"
            )


def _may_answer(name: bytes) -> bool:
    """Whether a field may stand in an answer, and again where it did before."""
    if not name or name[0] == 0x3A or name != name.lower() or name == b"content-length":
        return False
    return name not in CONNECTION_FIELDS


class Http2Client(Http2Connection):
    """`greeted` is done once calls can be made, with nothing; or with why they cannot."""

    def __init__(self, max_answer_bytes: int) -> None:
        super().__init__()
        self._most_bytes = max_answer_bytes
        self._decoder = Decoder(AnswerHead, HEAD_LIST_BYTES)
        self._known = self._decoder.known
        self._next_id = 1
        self._most_calls = frames.MOST_WINDOW
        self._waiting: deque[tuple[Http2Call, Fields, bytes]] = (
            deque()
        )  # until the server takes one more
        self._leaving = False  # no new calls
        self.greeted: asyncio.Future[str] = self._loop.create_future()

    @property
    def takes_calls(self) -> bool:
        return not self._leaving and not self._lost

    def call(
        self,
        begins: tuple[Field, ...],
        own: bytes,
        message: bytes,
        held: AnswerShare | None = None,
    ) -> Http2Call:
        """`begins` are header fields that all calls of a kind share, `own` is a block of this one's
        own. Its answer is counted in `held`, where it stays once it is whole."""
        call = Http2Call(self._loop.create_future(), held, self._most_bytes)
        self._enter(call, (begins, own), message)
        return call

    def stream(
        self,
        begins: tuple[Field, ...],
        own: bytes,
        message: bytes,
        held: AnswerShare | None = None,
    ) -> StreamedCall:
        """The same, with any number of answers. Whoever has it closes it."""
        call = StreamedCall(self._loop.create_future(), held, self._most_bytes, self)
        self._enter(call, (begins, own), message)
        return call

    def _enter(self, call: Http2Call, head: Fields, message: bytes) -> None:
        if len(self._streams) < self._most_calls:
            self._begin(call, head, message)
        else:
            self._waiting.append((call, head, message))

    def cancel(self, call: Http2Call) -> None:
        """Harmless for one that has ended."""
        if not call.id:
            for each in tuple(self._waiting):
                if each[0] is call:
                    self._waiting.remove(each)
        elif self._streams.get(call.id) is call:
            self._write_reset(call.id, Code.CANCEL)
            self._ended(call)

    def give_up_on(self, call: Http2Call, why: GrpcStatusError) -> None:
        """Nothing more of it is taken."""
        call.fail(why)
        call.pieces.clear()
        self.cancel(call)

    def make_room(self, call: StreamedCall) -> None:
        if call.received >= STREAM_WINDOW // 2 and self._streams.get(call.id) is call:
            self._make_room(call)

    @property
    def gone(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        """Whatever is going on."""
        self._end("the connection was closed")
        self._transport.abort()

    def retire(self) -> None:
        """Calls that have begun go on; then it closes."""
        self._leaving = True
        if not self._streams and not self._waiting and not self._lost:
            self.give_up(Code.NO_ERROR, "the connection was closed")

    def _begin(self, call: Http2Call, head: Fields, message: bytes) -> None:
        call.id = number = self._next_id
        self._next_id = number + 2
        if number >= _LAST_STREAM:
            self._leaving = True
        call.window = self._peer_window
        self._streams[number] = call
        self._send_message(call, head, message, None)

    # Its server's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            self._end("the endpoint does not speak HTTP/2")
            transport.close()
            return
        self._transport.write(_GREETING)
        self._watch(QUIET_S, PONG_S)  # guard: A8.ping-timeout

    def _end(self, why: str) -> None:
        if self._lost:
            return
        super()._end(why)
        calls = (*self._streams.values(), *[call for call, _, _ in self._waiting])
        self._streams.clear()
        self._waiting.clear()
        self._unsent.clear()
        if not self.greeted.done():
            self.greeted.set_result(why)
        for call in calls:  # guard: A8.connection-loss
            call.fail(GrpcStatusError("UNAVAILABLE", why))
            call.ended()

    def _set(self, name: int, value: int) -> None:
        if name == frames.MAX_CONCURRENT_STREAMS:
            self._most_calls = value
        else:
            super()._set(name, value)

    def _on_settings(self) -> None:
        if not self.greeted.done():
            self.greeted.set_result("")
        self._begin_waiting()

    def _on_head(self, stream: int, block: bytes, ended: bool) -> None:
        head = self._known.get(block) or self._decoder.decode(block)
        call = self._streams.get(stream)
        if call is None:
            self._check_in_transit(stream, ended)
            self._count()
        elif head.http and call.answering:  # guard: A8.answer-trailers
            raise BadStream(Code.PROTOCOL_ERROR, "a pseudo-header behind an answer")
        elif head.refused is not None:
            self._close(call, head.refused.code, head.refused.details, ended)
        elif head.status is not None:
            self._finish(call, head.status, head.details, ended)
        elif ended:
            self._finish(call, "UNKNOWN", "Stream removed: it ended without a status", ended)
        else:
            # guard: A8.interim-count
            self._count()  # of interim answers there may be many
            if head.http[:1] != b"1":
                call.answering, call.length = True, head.length

    def _on_data(self, call: Http2Call, data: bytes, ended: bool) -> None:
        pieces = call.pieces
        pieces.add(data)
        call.received_bytes += len(data)
        # What is smaller neither counts nor is too large.
        large = pieces.size > UNCOUNTED_BYTES or pieces.size > self._most_bytes
        if large and (why := call.refused()) is not None:
            self.give_up_on(call, why)
        elif ended:
            self._finish(call, "UNKNOWN", "Stream removed: it ended without a status", ended)
        else:
            call.woken()

    def _on_reset(self, call: Http2Call, code: int) -> None:
        status = _CODES_BY_RESET.get(Code(code), "INTERNAL") if code in _CODES else "INTERNAL"
        call.fail(GrpcStatusError(status, f"Received RST_STREAM with error code {code}"))
        self._ended(call)

    def _on_bad(self, call: Http2Call, exc: BadStream) -> None:
        call.fail(GrpcStatusError("UNKNOWN", f"Stream removed: {exc.why}"))
        self._ended(call)

    def _on_goaway(self, last: int, code: int) -> None:
        self._leaving = True
        # guard: A8.goaway-retry -> for call in [call for call in self._streams.values() if call.id
        #   < 0]:
        for call in [call for call in self._streams.values() if call.id > last]:
            call.fail(GrpcStatusError("UNAVAILABLE", "the server is going away"))
            self._ended(call)
        while self._waiting:
            self._waiting.popleft()[0].fail(
                GrpcStatusError("UNAVAILABLE", "the server is going away")
            )
        if not self._streams:
            self.retire()

    def _awaits(self) -> bool:
        return bool(self._streams)

    def _was_open(self, stream: int) -> bool:
        return stream % 2 == 1 and stream < self._next_id

    # The end of a call

    def _finish(self, call: Http2Call, status: str, details: str, ended: bool) -> None:
        if status != "OK":
            self._close(call, status, details, ended)
            return
        if not ended:
            self._close(call, "INTERNAL", "the answer goes on behind its status", ended)
        elif call.length not in (None, call.received_bytes):  # guard: A8.answer-length
            self._close(call, "INTERNAL", "the answer is not as long as it says", ended)
        else:
            try:
                if not call.answer.done():
                    call.answer.set_result(call.whole())
            except GrpcStatusError as exc:
                call.fail(exc)
            if call.unsent is not None:
                self._transport.write(frames.reset(call.id, Code.CANCEL))
            self._ended(call)

    def _close(self, call: Http2Call, status: str, details: str, ended: bool) -> None:
        call.fail(GrpcStatusError(status, details))
        if not ended:
            self._write_reset(call.id, Code.CANCEL)
        elif call.unsent is not None:
            self._transport.write(frames.reset(call.id, Code.CANCEL))
        self._ended(call)

    def _ended(self, call: Http2Call) -> None:
        del self._streams[call.id]
        call.unsent = None
        call.ended()
        if self._waiting:
            self._begin_waiting()
        elif self._leaving and not self._streams:
            self.retire()

    def _begin_waiting(self) -> None:
        while self._waiting and len(self._streams) < self._most_calls and not self._lost:
            self._begin(*self._waiting.popleft())


_CODES = frozenset(Code)
