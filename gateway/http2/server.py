"""Calls of gRPC from one caller's connection, and their answers (gRPC over HTTP/2).

An `Exchange` is one call: its head, its messages as they came, and what is answered. It is served
by a task, which begins with the head where messages are read one by one, and with the whole message
where there is but one. As many streams are served at once as tasks run, whatever the caller has
reset meanwhile: opening and resetting them gains nothing (CVE-2023-44487).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from gateway.http2 import BadStream, Broken, Code, frames
from gateway.http2.connection import (
    CONNECTION_WINDOW,
    FRAME_BYTES,
    HEAD_LIST_BYTES,
    STREAM_WINDOW,
    Fields,
    Http2Connection,
    Stream,
)
from gateway.http2.hpack import Decoder, Field, literal
from gateway.http2.message import PREFIX_BYTES, Status, number_of, told_of
from gateway.http2.request import RequestHead

GREETS_S: Final = 20.0  # what the preface may take
QUIET_S: Final = 60.0  # before a caller is asked whether it is there
PONG_S: Final = 20.0
_RESETS_PER_S: Final = 500
_MESSAGES_HELD: Final = 4  # of the largest, in calls that have not come whole

ANSWER: Final[tuple[Field, ...]] = (
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", b"identity, deflate, gzip"),
)
_HEAD: Final[Fields] = (ANSWER, b"")
OK: Final[tuple[Field, ...]] = ((b"grpc-status", b"0"),)

App = Callable[["Exchange"], Coroutine[Any, Any, None]]
"""It ends each exchange, whatever happens to itself."""


class Host(Protocol):
    """The server, as far as its connections know it."""

    stopping: bool
    max_streams: int
    max_message_bytes: int

    def opened(self, connection: Http2Server) -> None: ...
    def closed(self, connection: Http2Server) -> None: ...
    def app_of(self, head: RequestHead) -> tuple[App, bool]:
        """What serves this call, and whether it begins before the whole message is here."""
        ...


class Exchange(Stream):
    """`message` is there once a task for one message begins; else `next` gives them in turn."""

    got = 0  # bytes in `pieces`
    complete = False  # no more of the request comes
    open = True  # until it is answered, or cannot be any more
    left = False  # the caller has gone
    answering = False  # its head has been sent
    message = b""  # with its prefix
    task: asyncio.Task[None] | None = None
    begun = False  # its task has, and ends by telling its connection
    _more: asyncio.Future[None] | None = None
    _room_free: asyncio.Future[None] | None = None

    def __init__(self, connection: Http2Server, head: RequestHead, app: App, at_s: float) -> None:
        self.connection, self.head, self._app = connection, head, app
        self.at_s = at_s  # when its head had come, in seconds of the loop
        self.pieces: list[bytes] = []

    # What serves it asks

    async def next(self) -> bytes | None:
        """The next message, with its prefix; None behind the last. Raises Status for one that is
        too large, or not whole."""
        while (found := self._cut()) is None:
            if self.complete:
                if self.got:
                    raise Status("INTERNAL", "the request ends within a message")
                return None
            self.connection.make_room(self)
            self._more = self.connection.loop.create_future()
            await self._more
        return found

    async def heard_out(self, patience_s: float) -> None:
        """Until all of the request has come, or so long: who is told of an end while it sends may
        see its own sending fail instead."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self.open and not self.complete:
                    self._more = self.connection.loop.create_future()
                    await self._more

    async def put(self, message: bytes) -> None:
        """A message with its prefix; returns when there is room for another."""
        if not self.open:
            return
        before = b""
        if not self.answering:
            self.answering = True
            before = self.connection.head_of(self, ANSWER)
        self.connection.send(self, before, message)
        while self.unsent is not None and self.open:
            self._room_free = self.connection.loop.create_future()
            await self._room_free

    def answer(self, message: bytes, tail: Fields) -> None:
        """The only message, and its trailers."""
        if self.open:
            self.open = False
            self.connection.answer(self, message, tail)

    def end_http(self, status: int) -> None:
        """For a request that is not gRPC's."""
        if self.open:
            self.open = False
            fields = ((b":status", b"%d" % status),)
            self.connection.write(self.connection.head_of(self, fields, ends=True))
            self.connection.answered(self)

    def end(self, begins: tuple[Field, ...], own: bytes) -> None:
        """With these trailers, which are all there is where no message was put. A message that
        waits for room goes before them."""
        if not self.open:
            return
        connection = self.connection
        self.open = False
        if not self.answering:
            connection.write(connection.head_of(self, (*ANSWER, *begins), own, ends=True))
        elif self.unsent is not None:
            self.tail, self.ends = (begins, own), True
        else:
            connection.send_tail(self, (begins, own))
        connection.answered(self)

    # What its connection tells

    def came(self, data: bytes) -> None:
        self.pieces.append(data)
        self.got += len(data)
        self._wake()

    def begin(self) -> None:
        connection = self.connection
        connection.running.add(self)
        self.task = connection.loop.create_task(self._serve())

    def go(self) -> None:
        """The caller has gone, or must."""
        self.left = True
        self.open = False
        self.unsent = None
        self.sent()
        if self.task is not None:
            self.task.cancel()
            if not self.begun:  # and never will: not a line of it runs
                self.connection.served(self)

    def sent(self) -> None:
        waiter, self._room_free = self._room_free, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def came_whole(self) -> None:
        self.complete = True
        self._wake()

    def _wake(self) -> None:
        waiter, self._more = self._more, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _cut(self) -> bytes | None:
        """A message of those bytes that have come, if they hold a whole one."""
        if self.got < PREFIX_BYTES:
            return None
        if len(self.pieces[0]) < PREFIX_BYTES:
            self.pieces = [b"".join(self.pieces)]
        length = frames.number(self.pieces[0], 1)
        if length > self.connection.host.max_message_bytes:
            raise Status("RESOURCE_EXHAUSTED", too_large(length, self.connection.host))
        size = PREFIX_BYTES + length
        if self.got < size:
            return None
        whole = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        self.got -= size
        self.pieces = [whole[size:]] if self.got else []
        self.connection.taken(self, size)
        return whole[:size]

    async def _serve(self) -> None:
        self.begun = True
        try:
            await self._app(self)
        finally:
            self.connection.served(self)


def too_large(size: int, host: Host) -> str:
    return f"Received message larger than max ({size} vs. {host.max_message_bytes})"


class Http2Server(Http2Connection):
    def __init__(self, host: Host) -> None:
        super().__init__()
        self.host = host
        self.loop = self._loop
        self.running: set[Exchange] = set()  # with a task
        self.peer_names: Mapping[str, tuple[bytes, ...]] = {}
        self._decoder = Decoder(RequestHead, HEAD_LIST_BYTES)
        self._known = self._decoder.known
        self._last_id = 0
        self._preface: bytes | None = b""  # what has come of it; None when it has
        self._stopping = False
        self._held_bytes = 0  # of requests that have not come whole
        self._most_held_bytes = max(64 << 20, host.max_message_bytes * _MESSAGES_HELD)
        self._resets, self._resets_since_s = 0, 0.0

    # What its exchanges ask

    def head_of(
        self, exchange: Exchange, fields: tuple[Field, ...], own: bytes = b"", ends: bool = False
    ) -> bytes:
        """To be sent at once."""
        flags = frames.END_STREAM if ends else 0
        return self._headers(exchange.id, self._encoder.begin(fields) + own, flags)

    def answer(self, exchange: Exchange, message: bytes, tail: Fields) -> None:
        """All of an answer."""
        if not self._lost:
            self._send_message(exchange, _HEAD, message, tail)
        self.answered(exchange)

    def send(self, exchange: Exchange, before: bytes, data: bytes) -> None:
        """Some of one, behind `before`, which are frames."""
        if not self._lost:
            self._send(exchange, before, data, None, ends=False)

    def send_tail(self, exchange: Exchange, tail: Fields) -> None:
        self.write(self._tail(exchange.id, tail))

    def write(self, data: bytes) -> None:
        if not self._lost:
            self._transport.write(data)

    def answered(self, exchange: Exchange) -> None:
        """Nothing more is said on it, but perhaps waits for room."""
        if exchange.got:
            self._release(exchange)
        if exchange.unsent is not None or self._streams.pop(exchange.id, None) is None:
            return
        if not exchange.complete:
            self.write(frames.reset(exchange.id, Code.NO_ERROR))  # RFC 9113, section 8.1

    def taken(self, exchange: Exchange, size: int) -> None:
        self._held_bytes -= size
        self.make_room(exchange)

    def make_room(self, exchange: Exchange) -> None:
        if exchange.received >= STREAM_WINDOW // 2 and not exchange.complete and not self._lost:
            self._make_room(exchange)

    def _release(self, exchange: Exchange) -> None:
        """What has come of it is wanted no more."""
        self._held_bytes -= exchange.got
        exchange.got = 0
        exchange.pieces = []

    def served(self, exchange: Exchange) -> None:
        """Its task has ended."""
        self.running.discard(exchange)
        if exchange.open:  # it has said nothing: that is a bug, of which the caller must learn
            exchange.open = False
            if self._streams.pop(exchange.id, None) is not None:
                self._release(exchange)
                self.write(frames.reset(exchange.id, Code.INTERNAL_ERROR))
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
        more = frames.window_update(0, CONNECTION_WINDOW - frames.USUAL_WINDOW)
        self._transport.write(frames.settings(ours) + more)
        self._looks = self._loop.call_later(GREETS_S, self._look_first)

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

    def _look_first(self) -> None:
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
        for exchange in tuple(self._streams.values()):
            exchange.go()
        self._streams.clear()
        self._unsent.clear()

    # Its caller's

    def _last_taken(self) -> int:
        return self._last_id

    def _was_open(self, stream: int) -> bool:
        return stream % 2 == 1 and stream <= self._last_id

    def _on_head(self, stream: int, block: bytes, ended: bool) -> None:
        head = self._known.get(block) or self._decoder.decode(block)
        if stream <= self._last_id:
            self._on_trailers(stream, ended)
            return
        if stream % 2 == 0:
            raise Broken(Code.PROTOCOL_ERROR, "a stream that only a server may open")
        self._last_id = stream
        host, streams = self.host, self._streams
        busy = len(self.running) >= host.max_streams
        if busy or len(streams) >= host.max_streams or self._stopping or head.malformed:
            self._refuse_call(stream, head)
            return
        app, at_once = host.app_of(head)
        streams[stream] = exchange = Exchange(self, head, app, self._now_s())
        exchange.id, exchange.window = stream, self._peer_window
        if at_once:
            exchange.held = True
            exchange.begin()
        if ended:
            self._complete(exchange)

    def _on_trailers(self, stream: int, ended: bool) -> None:
        exchange = self._streams.get(stream)
        if exchange is None:  # of one that was reset, or refused
            self._count_reset()
            return
        if exchange.complete or not ended:
            raise BadStream(Code.PROTOCOL_ERROR, "header fields within a request")
        self._complete(exchange)  # gRPC has none in requests

    def _refuse_call(self, stream: int, head: RequestHead) -> None:
        code = Code.PROTOCOL_ERROR if head.malformed else Code.REFUSED_STREAM
        if not self._stopping:  # behind the GOAWAY a caller knows that it was not begun
            self._count_reset()
        self.write(frames.reset(stream, code))

    def _on_data(self, exchange: Exchange, data: bytes, ended: bool) -> None:
        if exchange.complete:
            self._reset(exchange, Code.STREAM_CLOSED)
            return
        if not exchange.open:  # answered, and the rest of the answer waits for room
            if ended:
                exchange.complete = True
            return
        if ended and not exchange.got and exchange.task is None:
            exchange.complete = True
            exchange.message = data
            exchange.begin()
            return
        self._held_bytes += len(data)
        exchange.came(data)
        if exchange.task is None:
            most = self.host.max_message_bytes + PREFIX_BYTES
            declared = frames.number(exchange.pieces[0], 1) if len(exchange.pieces[0]) > 4 else 0
            if exchange.got > most or declared + PREFIX_BYTES > most:
                size = max(declared, exchange.got - PREFIX_BYTES)
                exchange.end(*status_of("RESOURCE_EXHAUSTED", too_large(size, self.host)))
                return
        if self._held_bytes > self._most_held_bytes:
            words = "too much of requests that have not come whole; send fewer at once"
            exchange.end(*status_of("RESOURCE_EXHAUSTED", words))
            return
        if ended:
            self._complete(exchange)

    def _complete(self, exchange: Exchange) -> None:
        if exchange.task is None:
            exchange.complete = True
            exchange.message = b"".join(exchange.pieces)
            self._release(exchange)
            exchange.begin()
        else:
            exchange.came_whole()

    def _on_reset(self, exchange: Exchange, code: int) -> None:
        if self._streams.pop(exchange.id, None) is not None:
            self._release(exchange)
            exchange.go()
        self._count_reset()
        self._close_if_done()

    def _on_sent(self, exchange: Exchange) -> None:
        if exchange.open:
            exchange.sent()
        else:
            self.answered(exchange)
            self._close_if_done()

    def _on_goaway(self, last: int, code: int) -> None:
        """The caller opens nothing more; it closes when it has its answers."""

    def _count_reset(self) -> None:
        now_s = self._now_s()
        if now_s - self._resets_since_s >= 1:
            self._resets, self._resets_since_s = 0, now_s
        self._resets += 1
        if self._resets > _RESETS_PER_S:
            raise Broken(Code.ENHANCE_YOUR_CALM, "too many calls are reset, or refused")


def _names_in(certificate: Mapping[str, Any]) -> dict[str, tuple[bytes, ...]]:
    """Of a checked certificate, as gRPC names them."""
    names = certificate.get("subjectAltName", ())
    kinds = (("peer_dns", "DNS"), ("peer_uri", "URI"))
    return {key: tuple(n.encode() for kind, n in names if kind == of) for key, of in kinds}


def status_of(code: str, words: str, own: bytes = b"") -> Fields:
    """Trailers that say how a call failed, with a block of others."""
    return ((b"grpc-status", number_of(code)),), literal(b"grpc-message", told_of(words)) + own
