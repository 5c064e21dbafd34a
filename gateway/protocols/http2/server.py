"""The connection of one caller: calls of gRPC and their answers (gRPC over HTTP/2).

As many streams are served at once as tasks run, whatever the caller has reset meanwhile: opening
and resetting them gains nothing (CVE-2023-44487). Until a credential of the caller's was good, the
connection has little room: what is sent to it without one is refused by its head, and thrown away.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from gateway.core.errors import BodiesFull, DeadlineExceeded
from gateway.protocols.http2 import BadStream, Code, Http2Error, frames
from gateway.protocols.http2.bounds import (
    CONNECTION_WINDOW,
    FRAME_BYTES,
    HEAD_LIST_BYTES,
    STREAM_WINDOW,
)
from gateway.protocols.http2.connection import Http2Connection
from gateway.protocols.http2.exchange import ANSWER, Http2Exchange, Http2ServerPort, status_fields
from gateway.protocols.http2.hpack import Decoder, Field
from gateway.protocols.http2.message import PREFIX_BYTES, too_large
from gateway.protocols.http2.request import Http2RequestHead
from gateway.protocols.http2.sender import Fields
from gateway.protocols.pieces import LARGE_BYTES, PieceBuffer

GREETS_S: Final = 20.0  # what the preface may take
QUIET_S: Final = 60.0  # before a caller is asked whether it is there
PONG_S: Final = 20.0
ARRIVALS_S: Final = 1.0  # between two looks at messages that have not come whole
_RESETS_PER_S: Final = 500
_MESSAGES_HELD: Final = 4  # of the largest, in calls that have not come whole
_SKIPPED_RANGES: Final = 16
_ENDS_AT_ONCE: Final = 64  # calls, when their connection does
_UNKNOWN_CALLS: Final = 32  # at once, of a caller without a credential

_HEAD: Final[Fields] = (ANSWER, b"")


class Http2Server(Http2Connection):
    def __init__(self, host: Http2ServerPort) -> None:
        super().__init__()
        self.host = host
        self.loop = self._loop
        self.running: set[Http2Exchange] = set()  # with a task
        self.peer_names: Mapping[str, tuple[bytes, ...]] = {}
        self._decoder = Decoder(Http2RequestHead, HEAD_LIST_BYTES)
        self._known = self._decoder.known
        self._last_id = 0
        self._skipped: deque[range] = deque(maxlen=_SKIPPED_RANGES)  # streams below the last one
        self._room = frames.USUAL_WINDOW
        self._trusted = False  # a credential that came over it was good
        self._arrivals: asyncio.TimerHandle | None = None
        self._preface: bytes | None = b""  # what has come of it; None when it has
        self._stopping = False
        self._held_bytes = 0  # of requests that have not come whole
        self._most_held_bytes = max(64 << 20, host.max_message_bytes * _MESSAGES_HELD)
        self._resets, self._resets_since_s = 0, 0.0

    # What its exchanges ask

    def parse_head(
        self,
        exchange: Http2Exchange,
        fields: tuple[Field, ...],
        own: bytes = b"",
        ends: bool = False,
    ) -> bytes:
        """To be sent at once."""
        flags = frames.END_STREAM if ends else 0
        return self._headers(exchange.id, self._encoder.begin(fields) + own, flags)

    def answer(self, exchange: Http2Exchange, message: bytes, tail: Fields) -> None:
        """All of an answer."""
        if not self._lost:
            self._send_message(exchange, _HEAD, message, tail)
        self.answered(exchange)

    def send(self, exchange: Http2Exchange, before: bytes, data: bytes) -> None:
        """Some of one, behind `before`, which are frames."""
        if not self._lost:
            self._send(exchange, before, data, None, ends=False)

    def send_tail(self, exchange: Http2Exchange, tail: Fields) -> None:
        self.write(self._tail(exchange.id, tail))

    def write(self, data: bytes) -> None:
        if not self._lost:
            self._transport.write(data)

    def reset(self, stream: int, code: Code) -> None:
        if not self._lost:
            self._write_reset(stream, code)

    def answered(self, exchange: Http2Exchange) -> None:
        """Nothing more is said on it, but perhaps waits for room."""
        self._release(exchange)
        exchange.discards = True
        if exchange.unsent is not None or self._streams.pop(exchange.id, None) is None:
            return
        if not exchange.complete:
            self.reset(exchange.id, Code.NO_ERROR)  # RFC 9113, section 8.1

    def taken(self, exchange: Http2Exchange, size: int) -> None:
        self._held_bytes -= size
        self.host.held.give_back(exchange.caller, size)
        self.make_room(exchange)

    def make_room(self, exchange: Http2Exchange) -> None:
        if exchange.received >= STREAM_WINDOW // 2 and not exchange.complete and not self._lost:
            self._make_room(exchange)

    def _release(self, exchange: Http2Exchange) -> None:
        """What has come of it is wanted no more."""
        size = exchange.pieces.size
        if size:
            self._held_bytes -= size
            self.host.held.give_back(exchange.caller, size)
            exchange.pieces.clear()

    def served(self, exchange: Http2Exchange) -> None:
        """Its task has ended."""
        self.running.discard(exchange)
        if exchange.open:  # it has said nothing: that is a bug, of which the caller must learn
            exchange.open = False
            if self._streams.pop(exchange.id, None) is not None:
                self._release(exchange)
                self.reset(exchange.id, Code.INTERNAL_ERROR)
        self._close_if_done()

    # What the server asks

    def stop(self) -> None:
        """Calls that have begun go on; then it closes."""
        self._stopping = True
        if not self._lost:
            self._transport.write(frames.goaway(self._last_id, Code.NO_ERROR))
            self._close_if_done()

    def forget(self) -> None:
        """What is known of heads was made of what is not in use any more."""
        self._known.clear()

    def cut(self) -> None:
        for exchange in tuple(self._streams.values()):
            exchange.go()
        if not self._lost:
            self._transport.abort()

    def _close_if_done(self) -> None:
        if self._stopping and not self._streams and not self.running and not self._lost:
            self.give_up(Code.NO_ERROR, "the server stops")

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.host.opened(self)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            self._end("a caller that does not speak HTTP/2")
            transport.close()
            return
        self.peer_names = _names_in(transport.get_extra_info("peercert") or {})
        ours = {
            frames.MAX_CONCURRENT_STREAMS: self.host.max_streams,
            frames.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            frames.MAX_FRAME_SIZE: FRAME_BYTES,
            frames.MAX_HEADER_LIST_SIZE: HEAD_LIST_BYTES,
        }
        self._transport.write(frames.settings(ours))
        self._looks = self._loop.call_later(GREETS_S, self._check_preface)

    def data_received(self, data: bytes) -> None:
        if self._preface is not None and not self._lost:
            data = self._preface + data
            size = len(frames.PREFACE)
            if not (frames.PREFACE.startswith(data) or data.startswith(frames.PREFACE)):
                self.give_up(Code.PROTOCOL_ERROR, "what speaks here is not HTTP/2")
                return
            if len(data) < size:
                self._preface = data
                return
            self._preface = None
            data = data[size:]
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.host.closed(self)

    def _check_preface(self) -> None:
        if self._greeted:
            self._watch(QUIET_S, PONG_S)
        else:
            self.give_up(Code.SETTINGS_TIMEOUT, "no SETTINGS came")

    def _awaits(self) -> bool:
        return True

    def _end(self, why: str) -> None:
        if self._lost:
            return
        super()._end(why)
        if self._arrivals is not None:
            self._arrivals.cancel()
        left = [*self._streams.values()]
        self._streams.clear()
        self._unsent.clear()
        for exchange in left:
            self._release(exchange)
        self._dismiss(left)

    def _dismiss(self, left: list[Http2Exchange]) -> None:
        """What ends a thousand calls at once leaves others their turn."""
        for exchange in left[:_ENDS_AT_ONCE]:
            exchange.go()
        if len(left) > _ENDS_AT_ONCE:
            self._loop.call_soon(self._dismiss, left[_ENDS_AT_ONCE:])

    # Its caller's

    def _last_taken(self) -> int:
        return self._last_id

    def _was_open(self, stream: int) -> bool:
        return stream % 2 == 1 and stream <= self._last_id

    def _on_head(self, stream: int, block: bytes, ended: bool) -> None:
        head = self._known.get(block) or self._decoder.decode(block)
        if stream <= self._last_id:
            self._on_trailers(stream, head, ended)
            return
        if stream % 2 == 0:
            raise Http2Error(Code.PROTOCOL_ERROR, "a stream that only a server may open")
        if stream > self._last_id + 2:
            self._skipped.append(range(self._last_id + 1, stream))
        self._last_id = stream
        host, streams = self.host, self._streams
        busy = len(self.running) >= host.max_streams  # guard: A8.reset-slot -> busy = False
        if busy or len(streams) >= host.max_streams or self._stopping or head.malformed:
            self._refuse_call(stream, head, ended)
            return
        exchange = Http2Exchange(self, head, self._now_s())
        exchange.id, exchange.window = stream, self._peer_window
        exchange.serving = serving = host.serving(exchange)
        if not self._trusted and not self._admits(exchange, len(streams)):
            return
        streams[stream] = exchange
        if serving.refuses:
            exchange.discards = True  # guard: A8.refused-body
            self._count_reset()  # guard: A8.refusal-count
        if serving.at_once:
            exchange.held = True
            exchange.begin()
        if ended:
            if exchange.length_left:  # guard: A8.missing-body
                raise BadStream(Code.PROTOCOL_ERROR, "no data where there should be some")
            self._complete(exchange)
        elif self._arrivals is None:
            self._arrivals = self._loop.call_later(ARRIVALS_S, self._end_late)

    def _admits(self, exchange: Http2Exchange, calls: int) -> bool:
        """The first call with a good credential gets the connection its room; without one a caller
        has a few calls at once."""
        if exchange.serving.known:
            self._trusted = True
            self._room = CONNECTION_WINDOW
            self.write(frames.window_update(0, CONNECTION_WINDOW - frames.USUAL_WINDOW))
        # guard: A8.stranger-calls -> if not exchange.serving.refuses and False:
        elif not exchange.serving.refuses and max(calls, len(self.running)) >= _UNKNOWN_CALLS:
            self._count_reset()
            self._write_reset(exchange.id, Code.REFUSED_STREAM)
            return False
        return True

    def _end_late(self) -> None:
        """Messages that take too long to come are waited for no longer."""
        self._arrivals = None
        now_s, waits = self._now_s(), False
        for exchange in tuple(self._streams.values()):
            if exchange.is_late(now_s):  # guard: A8.message-time
                exchange.refuse(
                    DeadlineExceeded("the message did not arrive within the latency budget")
                )
            waits = waits or not exchange.complete
        if waits and not self._lost:
            self._arrivals = self._loop.call_later(ARRIVALS_S, self._end_late)

    def _on_trailers(self, stream: int, head: Http2RequestHead, ended: bool) -> None:
        exchange = self._streams.get(stream)
        if exchange is None:
            if any(stream in skipped for skipped in self._skipped):
                raise Http2Error(Code.PROTOCOL_ERROR, "a stream that is lower than the one before")
            self._check_in_transit(stream, ended)
            self._count_reset()
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
        if not self._stopping:  # behind the GOAWAY a caller knows that it was not begun
            self._count_reset()
        self._write_reset(stream, code)
        if ended:
            self._closed_streams.pop(stream, None)

    def _on_data(self, exchange: Http2Exchange, data: bytes, ended: bool) -> None:
        size = len(data)
        if exchange.complete:
            self._reset(exchange, Code.STREAM_CLOSED)
            return
        if exchange.length_left is not None:
            exchange.length_left = left = exchange.length_left - size
            if left < 0 or (ended and left):  # guard: A8.content-length
                self._reset(exchange, Code.PROTOCOL_ERROR)  # RFC 9113, section 8.1.1
                return
        pieces = exchange.pieces
        if ended and not pieces.size and exchange.task is None:
            exchange.complete = True
            exchange.message = data
            exchange.begin()
            return
        # guard: A8.shared-budget -> if self.host.held.take(exchange.caller, size) is None:
        if not self.host.held.take(exchange.caller, size):
            exchange.refuse(BodiesFull())
            return
        self._held_bytes += size
        exchange.receive(data)
        if exchange.task is None:
            most = exchange.serving.max_bytes
            begins = pieces.first(PREFIX_BYTES)
            declared = frames.number(begins, 1) if len(begins) == PREFIX_BYTES else 0
            if pieces.size > most + PREFIX_BYTES or declared > most:  # guard: A8.message-size
                words = too_large(max(declared, pieces.size - PREFIX_BYTES), most)
                exchange.end(*status_fields("RESOURCE_EXHAUSTED", words))
                return
        if self._held_bytes > self._most_held_bytes:  # guard: A8.partial-requests
            words = "too much of requests that have not come whole; send fewer at once"
            exchange.refuse(BodiesFull(words))
            return
        if ended:
            self._complete(exchange)

    def _on_discarded(self, exchange: Http2Exchange, ended: bool) -> None:
        if exchange.complete:
            self._reset(exchange, Code.STREAM_CLOSED)
        elif ended:
            exchange.receive_end()

    def _complete(self, exchange: Http2Exchange) -> None:
        if exchange.task is None:
            exchange.complete = True
            size = exchange.pieces.size
            self._held_bytes -= size
            self.host.held.give_back(exchange.caller, size)
            if size <= LARGE_BYTES:
                exchange.message = exchange.pieces.take()
            else:
                exchange.large, exchange.pieces = exchange.pieces, PieceBuffer()
            exchange.begin()
        else:
            exchange.receive_end()

    def _on_reset(self, exchange: Http2Exchange, code: int) -> None:
        if self._streams.pop(exchange.id, None) is not None:
            self._release(exchange)
            exchange.go()
        self._count_reset()
        self._close_if_done()

    def _on_sent(self, exchange: Http2Exchange) -> None:
        if exchange.open:
            exchange.sent()
        else:
            self.answered(exchange)
            exchange.sent()
            self._close_if_done()

    def give_up_on(self, exchange: Http2Exchange) -> None:
        """Its caller takes nothing of what it is sent."""
        exchange.unsent = None
        if self._streams.pop(exchange.id, None) is not None:
            self.reset(exchange.id, Code.CANCEL)

    def _on_goaway(self, last: int, code: int) -> None:
        """The caller opens nothing more; it closes when it has its answers."""

    def _count_reset(self) -> None:
        now_s = self._now_s()
        if now_s - self._resets_since_s >= 1:
            self._resets, self._resets_since_s = 0, now_s
        self._resets += 1
        if self._resets > _RESETS_PER_S:  # guard: A8.reset-limit
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "too many calls are reset, or refused")


def _names_in(certificate: Mapping[str, Any]) -> dict[str, tuple[bytes, ...]]:
    """Of a checked certificate, as gRPC names them."""
    names = certificate.get("subjectAltName", ())
    kinds = (("peer_dns", "DNS"), ("peer_uri", "URI"))
    return {key: tuple(n.encode() for kind, n in names if kind == kind_) for key, kind_ in kinds}
