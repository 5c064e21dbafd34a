"""One call of a caller's connection: its head, its messages as they came, and what is answered.

A task serves it, which begins with the head where messages are read one by one, and with the whole
message where there is but one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gateway.core import ambient
from gateway.core.deferred_error import released
from gateway.core.errors import GatewayError
from gateway.core.held_bytes import NOBODY, HeldBytes
from gateway.protocols.http2 import frames
from gateway.protocols.http2.hpack import Field, literal
from gateway.protocols.http2.message import (
    PREFIX_BYTES,
    GrpcStatusError,
    code_number,
    encode_message,
    too_large,
)
from gateway.protocols.http2.request import Http2RequestHead
from gateway.protocols.http2.sender import Fields, FrameSender, Stream
from gateway.protocols.pieces import PieceBuffer

ANSWER: Final[tuple[Field, ...]] = (
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", b"identity, deflate, gzip"),
)
_HEAD: Final[Fields] = (ANSWER, b"")
OK: Final[tuple[Field, ...]] = ((b"grpc-status", b"0"),)
_MESSAGES_AT_ONCE: Final = 16  # that are there already, before others get a turn

App = Callable[["Http2Exchange"], Coroutine[Any, Any, None]]
"""It ends each exchange, whatever happens to itself."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How a call is served. `at_once`: it begins with the head. `known`: its caller's credential
    was good. `refuses`: whatever it sends, so that nothing of it is held. `max_bytes` is of one
    message."""

    app: App
    at_once: bool
    known: bool
    refuses: bool
    max_bytes: int


class Http2ServerPort(Protocol):
    """The server, as far as its connections know it."""

    stopping: bool
    max_streams: int
    max_message_bytes: int
    held: HeldBytes

    def opened(self, connection: Any) -> None: ...
    def closed(self, connection: Any) -> None: ...
    def serving(self, exchange: Http2Exchange) -> Serving:
        """By its head alone."""
        ...

    def arrives_s(self, head: Http2RequestHead) -> float:
        """What a message may take to come, in seconds from its beginning."""
        ...

    def refusal(self, exchange: Http2Exchange, error: GatewayError) -> Fields:
        """The trailers of a call that has failed so."""
        ...


class Http2ConnectionPort(Protocol):
    """What its exchanges ask of it."""

    host: Http2ServerPort
    loop: asyncio.AbstractEventLoop
    sender: FrameSender
    held: HeldRequests
    running: set[Http2Exchange]
    peer_names: Mapping[str, tuple[bytes, ...]]

    def answered(self, exchange: Http2Exchange) -> None:
        """Nothing more is said on it, but perhaps waits for room."""
        ...

    def was_sent(self, exchange: Http2Exchange) -> None:
        """All that waited for room has gone."""
        ...

    def make_room(self, exchange: Http2Exchange) -> None: ...
    def served(self, exchange: Http2Exchange) -> None:
        """Its task has ended."""
        ...

    def give_up_on(self, exchange: Http2Exchange) -> None:
        """Its caller takes nothing of what it is sent."""
        ...


class HeldRequests:
    """What one connection holds of requests that have not come whole, within the budget of its
    process."""

    __slots__ = ("_budget", "_bytes", "_most_bytes")

    def __init__(self, budget: HeldBytes, most_bytes: int) -> None:
        self._budget = budget
        self._bytes = 0
        self._most_bytes = most_bytes

    @property
    def full(self) -> bool:
        return self._bytes > self._most_bytes

    def take(self, exchange: Http2Exchange, size: int) -> bool:
        """Whether there is room in the budget."""
        if not self._budget.take(exchange.caller, size):
            return False
        self._bytes += size
        return True

    def give_back(self, exchange: Http2Exchange, size: int) -> None:
        self._bytes -= size
        self._budget.give_back(exchange.caller, size)

    def release(self, exchange: Http2Exchange) -> None:
        """What has come of it is wanted no more."""
        if exchange.pieces.size:
            self.give_back(exchange, exchange.pieces.size)
            exchange.pieces.clear()


class Http2Exchange(Stream):
    """`message` is there once a task for one message begins; else `next` gives them in turn."""

    complete = False  # no more of the request comes
    open = True  # until it is answered, or cannot be any more
    left = False  # the caller has gone
    answering = False  # its head has been sent
    message = b""  # with its prefix
    large: PieceBuffer | None = None  # in the place of it: joining them takes a while
    task: asyncio.Task[None] | None = None
    begun = False  # its task has, and ends by telling its connection
    error: GatewayError | None = None  # why it is refused
    admitted: Any = None  # what its service noted when it let it in, by its head
    caller = NOBODY  # for whom its bytes are held, as its service noted
    part_since_s: float | None = None  # of a message of which the rest has not come
    _more: asyncio.Future[None] | None = None
    _room_free: asyncio.Future[None] | None = None
    _given = 0  # messages that were there already, in a row

    def __init__(
        self, connection: Http2ConnectionPort, head: Http2RequestHead, at_s: float
    ) -> None:
        self.connection, self.head = connection, head
        self.at_s = at_s  # when its head had come, in seconds of the loop
        self.length_left = head.length  # of the body, where the head says how long it is
        self.pieces = PieceBuffer()
        self.serving: Serving

    # What serves it asks

    async def next(self) -> bytes | None:
        """The next message, with its prefix; None behind the last. Raises Status for one that is
        too large, or not whole."""
        while (message := self._cut()) is None:
            if self.complete:
                if self.pieces.size:
                    raise GrpcStatusError("INTERNAL", "the request ends within a message")
                return None
            if self.pieces.size and self.part_since_s is None:  # guard: A8.stream-message-time
                self.part_since_s = ambient.loop_s()
            self.connection.make_room(self)
            self._given = 0
            self._more = self.connection.loop.create_future()
            await self._more
        self.part_since_s = None
        self._given += 1
        if self._given > _MESSAGES_AT_ONCE:  # guard: A8.message-yield
            self._given = 0
            await asyncio.sleep(0)
        return message

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
            before = self.connection.sender.encode(self.id, (ANSWER, b""), 0)
        self.connection.sender.send(self, before, message, None, ends=False)
        while self.unsent is not None and self.open:
            self._room_free = self.connection.loop.create_future()
            await self._room_free

    def answer(self, message: bytes, tail: Fields) -> None:
        """The only message, and its trailers."""
        if self.open:
            self.open = False
            self.connection.sender.send_message(self, _HEAD, message, tail)
            self.connection.answered(self)

    async def taken(self, stall_s: float) -> None:
        """Behind `answer`: until the caller has taken all of it, or nothing for `stall_s`; then the
        stream is reset."""
        at = -1
        while self.unsent is not None and not self.left:
            if self.at == at:
                self.connection.give_up_on(self)
                return
            at = self.at
            self._room_free = self.connection.loop.create_future()
            with suppress(TimeoutError):
                async with asyncio.timeout(stall_s):
                    await self._room_free

    def end_http(self, status: int) -> None:
        """For a request that is not gRPC's."""
        if self.open:
            self.open = False
            sender, fields = self.connection.sender, ((b":status", b"%d" % status),)
            sender.write(sender.encode(self.id, (fields, b""), frames.END_STREAM))
            self.connection.answered(self)

    def end(self, begins: tuple[Field, ...], own: bytes) -> None:
        """With these trailers, which are all there is where no message was put. A message that
        waits for room goes before them."""
        if not self.open:
            return
        self.open = False
        if self.unsent is not None:
            self.tail, self.ends = (begins, own), True
        else:
            sender, fields = self.connection.sender, (begins, own)
            if not self.answering:
                fields = (*ANSWER, *begins), own
            sender.write(sender.encode(self.id, fields, frames.END_STREAM))
        self.connection.answered(self)

    def refuse(self, error: GatewayError) -> None:
        """End it so, though it has been served for a while, perhaps."""
        self.end(*self.connection.host.refusal(self, error))
        self._stop()  # guard: A8.refused-stream

    # What its connection tells

    def receive(self, data: bytes) -> None:
        self.pieces.add(data)
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
        self._stop()

    def _stop(self) -> None:
        if self.task is not None:
            self.task.cancel()  # guard: A3.grpc-disconnect
            # guard: A8.unstarted-reset
            if not self.begun:  # and never will: not a line of it runs
                self.connection.served(self)

    def was_sent(self) -> None:
        self.connection.was_sent(self)

    def sent(self) -> None:
        """It has room, or will have none."""
        waiter, self._room_free = self._room_free, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def receive_end(self) -> None:
        self.complete = True
        self._wake()

    def is_late(self, now_s: float) -> bool:
        """Whether a message of it should have come whole by now."""
        since_s = self.part_since_s if self.serving.at_once else self.at_s
        if since_s is None or self.complete or not self.open:
            return False
        return now_s - since_s >= self.connection.host.arrives_s(self.head)

    def _wake(self) -> None:
        waiter, self._more = self._more, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _cut(self) -> bytes | None:
        """A message of those bytes that have come, if they hold a whole one."""
        pieces = self.pieces
        if pieces.size < PREFIX_BYTES:
            return None
        length = frames.number(pieces.first(PREFIX_BYTES), 1)
        if length > self.serving.max_bytes:
            raise GrpcStatusError("RESOURCE_EXHAUSTED", too_large(length, self.serving.max_bytes))
        size = PREFIX_BYTES + length
        if pieces.size < size:
            return None
        whole = pieces.cut(size)
        self.connection.held.give_back(self, size)
        self.connection.make_room(self)
        return whole

    async def _serve(self) -> None:
        self.begun = True
        try:
            await self.serving.app(self)
        except asyncio.CancelledError as left:
            # guard: A10.grpc-cancellation -> raise
            released(left)  # a task keeps what cancels it, whose traceback has the task
        finally:
            self.connection.served(self)


def status_fields(code: str, words: str, own: bytes = b"") -> Fields:
    """Trailers that say how a call failed, with a block of others."""
    return ((b"grpc-status", code_number(code)),), literal(
        b"grpc-message", encode_message(words)
    ) + own
