"""Calls of gRPC with one message each on one connection to a server, many at once (gRPC over
HTTP/2)."""

from __future__ import annotations

import asyncio
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
from gateway.protocols.http2.calls import AnswerHead, Http2Call, StreamedCall
from gateway.protocols.http2.connection import Http2Connection
from gateway.protocols.http2.frame_handler import StreamEvents
from gateway.protocols.http2.hpack import Decoder, Field
from gateway.protocols.http2.message import GrpcStatusError
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
_CODES_BY_RESET = {
    Code.REFUSED_STREAM: "UNAVAILABLE",
    Code.CANCEL: "CANCELLED",
    Code.ENHANCE_YOUR_CALM: "RESOURCE_EXHAUSTED",
}
_CODES = frozenset(Code)


class Http2Client(Http2Connection):
    """`greeted` is done once calls can be made, with nothing; or with why they cannot."""

    def __init__(self, max_answer_bytes: int) -> None:
        super().__init__()
        self.greeted: asyncio.Future[str] = self.loop.create_future()
        self.calls = ClientCalls(self, max_answer_bytes)
        self._take_streams(self.calls)

    @property
    def takes_calls(self) -> bool:
        return not self.calls.leaving and not self.sender.lost

    @property
    def gone(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        """Whatever is going on."""
        self._end("the connection was closed")
        self._transport.abort()

    def retire(self) -> None:
        """Calls that have begun go on; then it closes."""
        self.calls.leaving = True
        if not self.calls.open and not self.sender.lost:
            self.give_up(Code.NO_ERROR, "the connection was closed")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            self._end("the endpoint does not speak HTTP/2")
            transport.close()
            return
        self.sender.write(_GREETING)
        self.watch.start(QUIET_S, PONG_S)  # guard: A8.ping-timeout

    def _end(self, why: str) -> None:
        if self.sender.lost:
            return
        super()._end(why)
        if not self.greeted.done():
            self.greeted.set_result(why)
        self.calls.end(why)

    def _awaits(self) -> bool:
        return bool(self.sender.streams)


class ClientCalls(StreamEvents):
    """The calls of one connection to a server: those that it has, and those that wait until it
    takes one more."""

    def __init__(self, connection: Http2Client, max_answer_bytes: int) -> None:
        self._connection = connection
        self._sender = connection.sender
        self._streams: dict[int, Http2Call] = connection.sender.streams
        self._most_bytes = max_answer_bytes
        self._decoder = Decoder(AnswerHead, HEAD_LIST_BYTES)
        self._known = self._decoder.known
        self._next_id = 1
        self._waiting: deque[tuple[Http2Call, Fields, bytes]] = deque()
        self.leaving = False  # no new calls

    @property
    def open(self) -> bool:
        """There are any."""
        return bool(self._streams or self._waiting)

    def call(
        self,
        begins: tuple[Field, ...],
        own: bytes,
        message: bytes,
        held: AnswerShare | None = None,
    ) -> Http2Call:
        """`begins` are header fields that all calls of a kind share, `own` is a block of this one's
        own. Its answer is counted in `held`, where it stays once it is whole."""
        call = Http2Call(self._connection.loop.create_future(), held, self._most_bytes)
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
        call = StreamedCall(self._connection.loop.create_future(), held, self._most_bytes, self)
        self._enter(call, (begins, own), message)
        return call

    def cancel(self, call: Http2Call) -> None:
        """Harmless for one that has ended."""
        if not call.id:
            for each in tuple(self._waiting):
                if each[0] is call:
                    self._waiting.remove(each)
        elif self._streams.get(call.id) is call:
            self._sender.reset(call.id, Code.CANCEL)
            self._ended(call)

    def give_up_on(self, call: Http2Call, why: GrpcStatusError) -> None:
        """Nothing more of it is taken."""
        call.fail(why)
        call.pieces.clear()
        self.cancel(call)

    def make_room(self, call: StreamedCall) -> None:
        if call.received >= STREAM_WINDOW // 2 and self._streams.get(call.id) is call:
            self._connection.handler.make_room(call)

    def end(self, why: str) -> None:
        """The connection has."""
        calls = (*self._streams.values(), *[call for call, _, _ in self._waiting])
        self._streams.clear()
        self._waiting.clear()
        for call in calls:  # guard: A8.connection-loss
            call.fail(GrpcStatusError("UNAVAILABLE", why))
            call.ended()

    # The beginning of a call

    def _enter(self, call: Http2Call, head: Fields, message: bytes) -> None:
        self._waiting.append((call, head, message))
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        sender, streams = self._sender, self._streams
        while self._waiting and len(streams) < sender.most_streams and not sender.lost:
            call, head, message = self._waiting.popleft()
            call.id = number = self._next_id
            self._next_id = number + 2
            if number >= _LAST_STREAM:
                self.leaving = True
            call.window = sender.stream_window
            streams[number] = call
            sender.send_message(call, head, message, None)

    # What the server says

    def on_settings(self) -> None:
        greeted = self._connection.greeted
        if not greeted.done():
            greeted.set_result("")
        self._begin_waiting()

    def on_head(self, stream: int, block: bytes, ended: bool) -> None:
        head = self._known.get(block) or self._decoder.decode(block)
        call = self._streams.get(stream)
        if call is None:
            self._connection.handler.check_in_transit(stream, ended)
            self._connection.controls.add()
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
            self._connection.controls.add()  # of interim answers there may be many
            if head.http[:1] != b"1":
                call.answering, call.length = True, head.length

    def on_data(self, call: Http2Call, data: bytes, ended: bool) -> None:
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

    def on_reset(self, call: Http2Call, code: int) -> None:
        status = _CODES_BY_RESET.get(Code(code), "INTERNAL") if code in _CODES else "INTERNAL"
        call.fail(GrpcStatusError(status, f"Received RST_STREAM with error code {code}"))
        self._ended(call)

    def on_bad(self, call: Http2Call, exc: BadStream) -> None:
        call.fail(GrpcStatusError("UNKNOWN", f"Stream removed: {exc.why}"))
        self._ended(call)

    def on_goaway(self, last: int, code: int) -> None:
        self.leaving = True
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
            self._connection.retire()

    def was_open(self, stream: int) -> bool:
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
                self._sender.write(frames.reset(call.id, Code.CANCEL))
            self._ended(call)

    def _close(self, call: Http2Call, status: str, details: str, ended: bool) -> None:
        call.fail(GrpcStatusError(status, details))
        if not ended:
            self._sender.reset(call.id, Code.CANCEL)
        elif call.unsent is not None:
            self._sender.write(frames.reset(call.id, Code.CANCEL))
        self._ended(call)

    def _ended(self, call: Http2Call) -> None:
        del self._streams[call.id]
        call.unsent = None
        call.ended()
        if self._waiting:
            self._begin_waiting()
        elif self.leaving and not self._streams:
            self._connection.retire()
