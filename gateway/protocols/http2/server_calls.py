"""The calls of one caller's connection: which are taken, and what comes of their messages.

As many streams are served at once as tasks run, whatever the caller has reset meanwhile: opening
and resetting them gains nothing (CVE-2023-44487). Until a credential of the caller's was good, the
connection has little room: what is sent to it without one is refused by its head, and thrown away.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol

from gateway.core import ambient
from gateway.core.errors import BodiesFull, DeadlineExceeded
from gateway.protocols.http2 import BadStream, Code, Http2Error, frames
from gateway.protocols.http2.bounds import (
    CONNECTION_WINDOW,
    HEAD_LIST_BYTES,
    STREAM_WINDOW,
    FloodLimit,
)
from gateway.protocols.http2.exchange import (
    HeldRequests,
    Http2Exchange,
    Http2ServerPort,
    status_fields,
)
from gateway.protocols.http2.frame_handler import FrameHandler, StreamEvents
from gateway.protocols.http2.hpack import Decoder
from gateway.protocols.http2.message import PREFIX_BYTES, too_large
from gateway.protocols.http2.request import Http2RequestHead
from gateway.protocols.http2.sender import FrameSender
from gateway.protocols.pieces import LARGE_BYTES, PieceBuffer

ARRIVALS_S: Final = 1.0  # between two looks at messages that have not come whole
_RESETS_PER_S: Final = 500
_MESSAGES_HELD: Final = 4  # of the largest, in calls that have not come whole
_SKIPPED_RANGES: Final = 16
_UNKNOWN_CALLS: Final = 32  # at once, of a caller without a credential


class CallerConnection(Protocol):
    """What its calls ask of it."""

    loop: asyncio.AbstractEventLoop
    sender: FrameSender
    handler: FrameHandler

    def close_if_done(self) -> None: ...


class ServerCalls(StreamEvents):
    def __init__(self, connection: CallerConnection, host: Http2ServerPort) -> None:
        self._connection = connection
        self.sender = self._sender = connection.sender
        self._streams: dict[int, Http2Exchange] = connection.sender.streams
        self.host = host
        self.loop = connection.loop
        self._now_s = ambient.loop_clock(self.loop)
        self.running: set[Http2Exchange] = set()  # with a task
        self.peer_names: Mapping[str, tuple[bytes, ...]] = {}
        self._decoder = Decoder(Http2RequestHead, HEAD_LIST_BYTES)
        self.known = self._decoder.known
        self.last_id = 0
        self._skipped: deque[range] = deque(maxlen=_SKIPPED_RANGES)  # streams below the last one
        self._trusted = False  # a credential that came over it was good
        self.arrivals: asyncio.TimerHandle | None = None
        self.stopping = False
        most_bytes = max(64 << 20, host.max_message_bytes * _MESSAGES_HELD)
        self.held = HeldRequests(host.held, most_bytes)
        # guard: A8.reset-limit -> self._resets = FloodLimit(10 ** 9, "", self._now_s)
        self._resets = FloodLimit(
            _RESETS_PER_S, "too many calls are reset, or refused", self._now_s
        )

    @property
    def _handler(self) -> FrameHandler:
        return self._connection.handler

    # What exchanges ask

    def answered(self, exchange: Http2Exchange) -> None:
        self.held.release(exchange)
        exchange.discards = True
        if exchange.unsent is not None or self._streams.pop(exchange.id, None) is None:
            return
        if not exchange.complete:
            self._sender.reset(exchange.id, Code.NO_ERROR)  # RFC 9113, section 8.1

    def was_sent(self, exchange: Http2Exchange) -> None:
        if exchange.open:
            exchange.sent()
        else:
            self.answered(exchange)
            exchange.sent()
            self._connection.close_if_done()

    def make_room(self, exchange: Http2Exchange) -> None:
        if exchange.received >= STREAM_WINDOW // 2 and not exchange.complete:
            self._handler.make_room(exchange)

    def served(self, exchange: Http2Exchange) -> None:
        self.running.discard(exchange)
        if exchange.open:  # it has said nothing: that is a bug, of which the caller must learn
            exchange.open = False
            if self._streams.pop(exchange.id, None) is not None:
                self.held.release(exchange)
                self._sender.reset(exchange.id, Code.INTERNAL_ERROR)
        self._connection.close_if_done()

    def give_up_on(self, exchange: Http2Exchange) -> None:
        exchange.unsent = None
        if self._streams.pop(exchange.id, None) is not None:
            self._sender.reset(exchange.id, Code.CANCEL)

    # What the caller sends

    def was_open(self, stream: int) -> bool:
        return stream % 2 == 1 and stream <= self.last_id

    def on_head(self, stream: int, block: bytes, ended: bool) -> None:
        head = self.known.get(block) or self._decoder.decode(block)
        if stream <= self.last_id:
            self._on_trailers(stream, head, ended)
            return
        if stream % 2 == 0:
            raise Http2Error(Code.PROTOCOL_ERROR, "a stream that only a server may open")
        if stream > self.last_id + 2:
            self._skipped.append(range(self.last_id + 1, stream))
        self.last_id = stream
        host, streams = self.host, self._streams
        busy = len(self.running) >= host.max_streams  # guard: A8.reset-slot -> busy = False
        if busy or len(streams) >= host.max_streams or self.stopping or head.malformed:
            self._refuse_call(stream, head, ended)
            return
        exchange = Http2Exchange(self, head, self._now_s())
        exchange.id, exchange.window = stream, self._sender.stream_window
        exchange.serving = serving = host.serving(exchange)
        if not self._trusted and not self._admits(exchange, len(streams)):
            return
        streams[stream] = exchange
        if serving.refuses:
            exchange.discards = True  # guard: A8.refused-body
            self._resets.add()  # guard: A8.refusal-count
        if serving.at_once:
            exchange.held = True
            exchange.begin()
        if ended:
            if exchange.length_left:  # guard: A8.missing-body
                raise BadStream(Code.PROTOCOL_ERROR, "no data where there should be some")
            self._complete(exchange)
        elif self.arrivals is None:
            self.arrivals = self.loop.call_later(ARRIVALS_S, self._end_late)

    def _admits(self, exchange: Http2Exchange, calls: int) -> bool:
        """The first call with a good credential gets the connection its room; without one a caller
        has a few calls at once."""
        if exchange.serving.known:
            self._trusted = True
            self._handler.room = CONNECTION_WINDOW
            self._sender.write(frames.window_update(0, CONNECTION_WINDOW - frames.USUAL_WINDOW))
        # guard: A8.stranger-calls -> if not exchange.serving.refuses and False:
        elif not exchange.serving.refuses and max(calls, len(self.running)) >= _UNKNOWN_CALLS:
            self._resets.add()
            self._sender.reset(exchange.id, Code.REFUSED_STREAM)
            return False
        return True

    def _end_late(self) -> None:
        """Messages that take too long to come are waited for no longer."""
        self.arrivals = None
        now_s, waits = self._now_s(), False
        for exchange in tuple(self._streams.values()):
            if exchange.is_late(now_s):  # guard: A8.message-time
                exchange.refuse(
                    DeadlineExceeded("the message did not arrive within the latency budget")
                )
            waits = waits or not exchange.complete
        if waits and not self._sender.lost:
            self.arrivals = self.loop.call_later(ARRIVALS_S, self._end_late)

    def _on_trailers(self, stream: int, head: Http2RequestHead, ended: bool) -> None:
        exchange = self._streams.get(stream)
        if exchange is None:
            if any(stream in skipped for skipped in self._skipped):
                raise Http2Error(Code.PROTOCOL_ERROR, "a stream that is lower than the one before")
            self._handler.check_in_transit(stream, ended)
            self._resets.add()
            return
        if exchange.complete:
            raise BadStream(Code.STREAM_CLOSED, "header fields behind a request")
        if not ended or exchange.length_left:
            raise BadStream(Code.PROTOCOL_ERROR, "header fields within a request")
        if not head.trailers:  # guard: A8.request-trailers
            raise BadStream(Code.PROTOCOL_ERROR, "fields that cannot stand behind a request")
        self._complete(exchange)  # gRPC has none in requests

    def _refuse_call(self, stream: int, head: Http2RequestHead, ended: bool) -> None:
        code = Code.PROTOCOL_ERROR if head.malformed else Code.REFUSED_STREAM
        if not self.stopping:  # behind the GOAWAY a caller knows that it was not begun
            self._resets.add()
        self._sender.reset(stream, code)
        if ended:
            self._sender.closed.discard(stream)

    def on_data(self, exchange: Http2Exchange, data: bytes, ended: bool) -> None:
        size = len(data)
        if exchange.complete:
            self._handler.reset(exchange, Code.STREAM_CLOSED)
            return
        if exchange.length_left is not None:
            exchange.length_left = left = exchange.length_left - size
            if left < 0 or (ended and left):  # guard: A8.content-length
                self._handler.reset(exchange, Code.PROTOCOL_ERROR)  # RFC 9113, section 8.1.1
                return
        pieces = exchange.pieces
        if ended and not pieces.size and exchange.task is None:
            exchange.complete = True
            exchange.message = data
            exchange.begin()
            return
        # guard: A8.shared-budget -> if self.held.take(exchange, size) is None:
        if not self.held.take(exchange, size):
            exchange.refuse(BodiesFull())
            return
        exchange.receive(data)
        if exchange.task is None:
            most = exchange.serving.max_bytes
            begins = pieces.first(PREFIX_BYTES)
            declared = frames.number(begins, 1) if len(begins) == PREFIX_BYTES else 0
            if pieces.size > most + PREFIX_BYTES or declared > most:  # guard: A8.message-size
                words = too_large(max(declared, pieces.size - PREFIX_BYTES), most)
                exchange.end(*status_fields("RESOURCE_EXHAUSTED", words))
                return
        if self.held.full:  # guard: A8.partial-requests
            words = "too much of requests that have not come whole; send fewer at once"
            exchange.refuse(BodiesFull(words))
            return
        if ended:
            self._complete(exchange)

    def on_discarded(self, exchange: Http2Exchange, ended: bool) -> None:
        if exchange.complete:
            self._handler.reset(exchange, Code.STREAM_CLOSED)
        elif ended:
            exchange.receive_end()

    def _complete(self, exchange: Http2Exchange) -> None:
        if exchange.task is None:
            exchange.complete = True
            size = exchange.pieces.size
            self.held.give_back(exchange, size)
            if size <= LARGE_BYTES:
                exchange.message = exchange.pieces.take()
            else:
                exchange.large, exchange.pieces = exchange.pieces, PieceBuffer()
            exchange.begin()
        else:
            exchange.receive_end()

    def on_reset(self, exchange: Http2Exchange, code: int) -> None:
        if self._streams.pop(exchange.id, None) is not None:
            self.held.release(exchange)
            exchange.go()
        self._resets.add()
        self._connection.close_if_done()

    def on_goaway(self, last: int, code: int) -> None:
        """The caller opens nothing more; it closes when it has its answers."""
