"""One client connection that carries one exchange at a time: bytes of the answer in, events out."""

from __future__ import annotations

import asyncio
import math
import select
from collections.abc import Callable, Mapping
from copy import copy
from typing import cast

import httptools

from gateway.core import ambient
from gateway.core.errors import AnswersFull, GatewayError, UpstreamFailed
from gateway.core.held_bytes import AnswerShare
from gateway.protocols.http_client.answer import (
    MAX_HEAD_BYTES,
    AnswerReader,
    WholeBody,
    too_large,
)
from gateway.protocols.http_client.plain import PlainAnswerReader

_ONE_WRITE_BYTES = 64 * 1024  # copying more costs more than it saves
_HIGH_BYTES = 256 * 1024  # of a stream that nobody takes: reading pauses
_GOODBYES = (b"HTTP/1.1 408 ", b"HTTP/1.0 408 ")  # to a client that asks nothing for too long
_READABLE = select.POLLIN | select.POLLRDHUP | select.POLLPRI


class ConnectionLost(Exception):
    """The connection broke. `silent`: before any byte of the answer came."""

    def __init__(self, why: str, *, silent: bool) -> None:
        super().__init__(why)
        self.why = why
        self.silent = silent


class HttpClientConnection(asyncio.Protocol):
    """`send`, and wait for what that gives: then it has `answered`, or `broken` says why not. Of a
    whole answer `body` has come then; of a stream the head has, and `taken` gives what follows,
    nothing at the end."""

    status: int
    headers: Mapping[bytes, bytes]  # names in lower case

    def __init__(self, max_body_bytes: int, on_surplus: Callable[[], None] = lambda: None) -> None:
        """`on_surplus`: called when bytes have come that belong to no answer."""
        self.on_surplus = on_surplus
        self._poll: select.poll | None = None
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._now_s = ambient.clock()
        self._waiter: asyncio.Future[bool] | None = None
        self._take: Callable[[bytes], bool] | None = None  # a piece of a stream, at once
        self.answer = AnswerReader(max_body_bytes)
        self.whole = WholeBody(self.answer.pieces)
        self.body = b""
        self.answered = self._streamed = False
        self._plain = PlainAnswerReader()
        self._failure: GatewayError | None = None
        self._received_bytes = self._held_bytes = 0
        self._lost = self._paused = False
        self._resting = True  # nobody waits for what comes
        self._untouched = False  # a whole answer is to come, and nothing of it has
        self.reused = False  # it has served before
        self.idle_since = -math.inf  # for ever, once it cannot serve any more

    def rests(self) -> bool:
        """Whether it can be kept for the next call: the answer has ended, and nothing of either
        side is under way."""
        transport, answer, self._take = self._transport, self.answer, None
        if self._lost or transport.is_closing() or transport.get_write_buffer_size():
            return False
        if not self._resting:  # the parser has read it
            if not (answer.done and answer.keeps and self._failure is None):
                return False
            self._go_on()
            answer.begin()
            self.whole.begin()
            self._received_bytes = self._held_bytes = 0
            self._resting = True
        self.reused = True
        self.idle_since = self._now_s()
        return True

    def cut(self) -> None:
        self._take = None  # or its stream would hold itself
        self._transport.abort()
        self.whole.release()

    def handed_over(self) -> None:
        """The call has the answer, and what is held of it is the call's from now on."""
        self.whole.share, self.body = None, b""

    def join(self) -> None:
        """Make the body of a large answer, in whatever thread."""
        self.body = self.answer.take()

    def retire(self) -> None:
        """It has no other call."""
        self._lost = True
        self.idle_since = -math.inf

    def readable(self) -> bool:
        """Whether the kernel holds bytes, or the end, that nobody has read yet."""
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._transport.get_extra_info("socket").fileno(), _READABLE)
        return bool(self._poll.poll(0))

    # One exchange

    def send(
        self,
        head: bytes,
        body: bytes | tuple[bytes, ...],
        streamed: bool,
        held: AnswerShare | None = None,
    ) -> asyncio.Future[bool]:
        """Done when it may have answered. A whole answer is counted in `held`."""
        if self._lost:
            raise self.broken()
        self.answer.whole = not streamed
        self.whole.share = None if streamed else held
        self.answered = self._resting = False
        self._streamed, self._untouched = streamed, not streamed
        if isinstance(body, tuple):
            self._transport.writelines((head, *body))
        elif len(body) < _ONE_WRITE_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def more(self, take: Callable[[bytes], bool] | None) -> asyncio.Future[bool]:
        """Done when more of a stream has come, and `take`, to which it goes, says that it waits for
        no more. Whether `take` has it. Raises what there is instead."""
        if self._lost or self._failure is not None:
            raise self.broken()
        self._take = take
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def broken(self) -> GatewayError | ConnectionLost:
        """Why nothing comes."""
        if self._failure is not None:
            # guard: A10.broken-connection copy(self._failure) -> self._failure
            return copy(self._failure)  # who raises it has this connection
        silent = not self._received_bytes
        return ConnectionLost("the connection to the endpoint broke", silent=silent)

    def taken(self) -> bytes:
        """What has come and was not taken yet."""
        data = self.answer.take()
        self._held_bytes = 0
        self._go_on()
        return data

    def _go_on(self) -> None:
        if self._paused:
            self._paused = False
            if not self._lost:
                self._transport.resume_reading()

    def _wake(self) -> None:
        """Who waits for a whole answer sleeps on until that is there."""
        waiter, answer = self._waiter, self.answer
        self.answered = answer.head_done if self._streamed else answer.done
        if waiter is None or waiter.done():
            return
        if self.answered or self._lost or self._failure is not None:
            if self.answered and not (self._streamed or self.whole.is_large):
                self.body = answer.take()
            waiter.set_result(False)

    def _fail(self, failure: GatewayError) -> None:
        answer = self.answer
        if self._failure is None:
            self._failure = answer.failure = failure
        if not (self._streamed or answer.done):  # what came of a stream is taken all the same
            answer.pieces.clear()
            self.body = b""
        self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        answer, take = self.answer, self._take
        if take is None:
            if self._untouched:
                self._untouched = False
                body = self._plain.read(data) if len(data) <= answer.max_body_bytes else None
                if body is not None:
                    if self.whole.has_room(len(body)):
                        self.status, self.headers, self.body = 200, self._plain.headers, body
                        self.answered = self._resting = True
                    else:
                        self._fail(AnswersFull())
                    waiter = self._waiter
                    if waiter is not None and not waiter.done():
                        waiter.set_result(False)
                    return
            if self._resting:  # nobody asked: whatever it answers, it is not our next question
                self.retire()
                self._transport.abort()
                if not data.startswith(_GOODBYES):
                    self.on_surplus()
                return
        try:
            answer.feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if answer.done:
                self.on_surplus()
            self._fail(answer.failure or UpstreamFailed("the endpoint's answer is not HTTP"))
        if not (self._streamed and self.answered):
            self._read(data)
            self._wake()
            return
        pieces, taken = answer.pieces, False
        if take is not None and pieces and not answer.done:
            if take(pieces.pop() if len(pieces) == 1 else answer.take()):
                return
            taken = True
        else:
            self._hold(len(data))
        self._take = None
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(taken)

    def _hold(self, size: int) -> None:
        """So much more of a stream has come. What nobody has taken is bounded."""
        self._held_bytes += size
        if self._held_bytes > _HIGH_BYTES and not self._paused and not self.answer.done:
            self._paused = True
            self._transport.pause_reading()

    def _read(self, data: bytes) -> None:
        """What the parser has read of a head, or of a whole answer, which is bounded."""
        answer = self.answer
        if not self.answered and answer.head_done:
            self.status, self.headers = answer.status, answer.headers
        size = len(data)
        self._received_bytes += size
        if not answer.head_done:
            if self._received_bytes > MAX_HEAD_BYTES:
                self._fail(UpstreamFailed("the head of the endpoint's answer is too large"))
        elif not self._streamed:
            gathered = self.whole.gather()
            if gathered > answer.max_body_bytes:  # guard: A9.answer-bound
                answer.done = False
                self._fail(too_large(answer.max_body_bytes))
            elif not self.whole.has_room(gathered):
                answer.done = False
                self._fail(AnswersFull())
        else:
            self._hold(size)

    def eof_received(self) -> None:
        self.idle_since = -math.inf

    def connection_lost(self, exc: Exception | None) -> None:
        self.retire()
        if self.answer.until_close and exc is None and self._failure is None:
            self.answer.done = True
        self._wake()
