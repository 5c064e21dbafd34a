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
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare
from gateway.protocols.http_client.plain import PlainAnswerReader

MAX_HEAD_BYTES = 64 * 1024
_ONE_WRITE_BYTES = 64 * 1024  # copying more costs more than it saves
_ASIDE_BYTES = 256 * 1024  # of a whole answer: more is joined and read in a thread of its own
_JOINED_BYTES = 64 * 1024  # of pieces of a body: joining larger ones might copy too much at once
_HIGH_BYTES = 256 * 1024  # of a stream that nobody takes: reading pauses
_GOODBYES = (b"HTTP/1.1 408 ", b"HTTP/1.0 408 ")  # to a client that asks nothing for too long
_READABLE = select.POLLIN | select.POLLRDHUP | select.POLLPRI

Take = Callable[[bytes], bool]


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
    body: bytes
    _fields: dict[bytes, bytes]

    def __init__(self, max_body_bytes: int, on_surplus: Callable[[], None] = lambda: None) -> None:
        """`on_surplus`: called when bytes have come that belong to no answer."""
        self._max_body_bytes = max_body_bytes
        self._on_surplus = on_surplus
        self._poll: select.poll | None = None
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._now_s = ambient.clock()
        self._waiter: asyncio.Future[None] | None = None
        self._take: Take | None = None
        self.received_s = 0.0  # when it last flowed, and was read
        self._chunks: list[bytes] = []  # of the body, which nobody has taken yet
        self.on_body = self._chunks.append  # what the parser calls: no function of ours for each
        self._parser = httptools.HttpResponseParser(self)
        self._plain = PlainAnswerReader()
        self._failure: GatewayError | None = None
        self._held: AnswerShare | None = None  # what the call holds of answers, counted
        self._lost = self._paused = False
        self._resting = True  # nobody waits for what comes
        self._untouched = False  # a whole answer is to come, and nothing of it has
        self.reused = False  # it has served before
        self.idle_since = -math.inf  # for ever, once it cannot serve any more
        self._fresh()

    def _fresh(self) -> None:
        """For the parser, behind an answer that ended well: then it awaits the next one, too."""
        self.status, self._fields = 0, {}
        self.body = b""
        self._chunks.clear()
        self.answered = self._head_done = self._done = self._keeps = False
        self._streamed = self._until_close = False
        self._arrived = self._held_bytes = 0
        self._gathered = self._closed_bytes = self._whole_chunks = 0  # of a whole answer
        self._held = None

    def rests(self) -> bool:
        """Whether it can be kept for the next call: the answer has ended, and nothing of either
        side is under way."""
        transport = self._transport
        if self._lost or transport.is_closing() or transport.get_write_buffer_size():
            return False
        if not self._resting:  # the parser has read it
            if not (self._done and self._keeps and self._failure is None):
                return False
            self._go_on()
            self._fresh()
            self._resting = True
        self.reused = True
        self.idle_since = self._now_s()
        return True

    def cut(self) -> None:
        self._transport.abort()
        self._release()

    def handed_over(self) -> None:
        """The call has the answer, and what is held of it is the call's from now on."""
        self._held, self.body = None, b""

    def _release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.hold(self, 0)  # guard: A9.abandoned-release

    @property
    def is_large(self) -> bool:
        """Of a whole answer: its body is still to be joined, and read where the loop goes on."""
        return self._gathered > _ASIDE_BYTES

    def join(self) -> None:
        """Make the body of a large answer, in whatever thread."""
        self.body = b"".join(self._chunks)
        self._chunks.clear()

    def retire(self) -> None:
        """It has no other call."""
        self._lose()

    def crossed(self) -> None:
        """The answer belongs to another call."""
        self.retire()
        self._on_surplus()

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
    ) -> asyncio.Future[None]:
        """Done when it may have answered. A whole answer is counted in `held`."""
        if self._lost:
            raise self.broken()
        self._held = None if streamed else held
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

    def more(self) -> asyncio.Future[None]:
        """Done when more of a stream has come. Raises what there is instead."""
        if self._lost or self._failure is not None:
            raise self.broken()
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def broken(self) -> GatewayError | ConnectionLost:
        """Why nothing comes."""
        if self._failure is not None:
            # guard: A10.broken-connection copy(self._failure) -> self._failure
            return copy(self._failure)  # who raises it has this connection
        return ConnectionLost("the connection to the endpoint broke", silent=not self._arrived)

    @property
    def has_more(self) -> bool:
        """Whether `taken` has something to give, the end included."""
        return bool(self._chunks) or self._done

    @property
    def ended(self) -> bool:
        """All of it has come and was taken."""
        return self._done and not self._chunks

    def taken(self) -> bytes:
        """What has come and was not taken yet."""
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._held_bytes = 0
        self._go_on()
        return data

    async def flow(self, take: Take) -> None:
        """Hand what each read has of the body to `take` as it comes, until that has enough and
        returns False, or there will be no more."""
        if self.has_more or self._lost or self._failure is not None:
            return
        self._take = take
        self.received_s = self._now_s()
        try:
            await self.more()
        finally:  # `take` has the call, and this connection may be kept
            self._take = None  # guard: A10.flowed-stream

    def _go_on(self) -> None:
        if self._paused:
            self._paused = False
            if not self._lost:
                self._transport.resume_reading()

    def _wake(self) -> None:
        """Who waits for a whole answer sleeps on until that is there."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self.answered or self._lost or self._failure is not None:
            if self.answered and not (self._streamed or self.is_large):
                self.body = b"".join(self._chunks)
            waiter.set_result(None)

    def _fail(self, why: str, reason: str | None = None) -> None:
        self._fail_by(UpstreamFailed(why, reason=reason))

    def _fail_by(self, failure: GatewayError) -> None:
        if self._failure is None:
            self._failure = failure
        if not (self._streamed or self.answered):  # what came of a stream is taken all the same
            self._chunks.clear()
            self.body = b""
        self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._untouched:
            self._untouched = False
            body = self._plain.read(data) if len(data) <= self._max_body_bytes else None
            if body is not None and len(body) > UNCOUNTED_BYTES and not self._counts(len(body)):
                self._wake()
                return
            if body is not None:
                self.status, self.headers, self.body = 200, self._plain.headers, body
                self.answered = self._resting = True
                waiter = self._waiter
                if waiter is not None and not waiter.done():
                    waiter.set_result(None)
                return
        if self._resting:  # nobody asked: whatever it answers, it is not our next question
            self._lose()
            self._transport.abort()
            if not data.startswith(_GOODBYES):
                self._on_surplus()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if self._done:
                self._on_surplus()
            self._fail("the endpoint's answer is not HTTP")
        take, chunks = self._take, self._chunks
        if take is None:
            self._hold(len(data))
        elif chunks:
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            chunks.clear()
            self.received_s = self._now_s()
            if take(body) and not self._done and self._failure is None:
                return
            self._take = None
        self._wake()

    def _hold(self, size: int) -> None:
        """What nobody has taken is bounded."""
        self._arrived += size
        if not self._head_done:
            if self._arrived > MAX_HEAD_BYTES:
                self._fail("the head of the endpoint's answer is too large")
        elif not self._streamed:
            self._gather()
        elif not self._done:
            self._held_bytes += size
            if self._held_bytes > _HIGH_BYTES and not self._paused:
                self._paused = True
                self._transport.pause_reading()

    def _gather(self) -> None:
        """Of a whole answer: bounded, counted, and small pieces joined as they come, since each has
        an object of its own."""
        chunks, size = self._chunks, self._gathered
        whole = self._whole_chunks
        fresh = chunks[whole:]
        if len(fresh) > 1:  # guard: A9.chunk-joining
            joined = b"".join(fresh)
            chunks[whole:] = [joined]
            fresh = [joined]
        if fresh:
            # The open piece, if any, is among them: it grows until it is worth an object.
            self._gathered = size = self._closed_bytes + len(fresh[0])
            if len(fresh[0]) >= _JOINED_BYTES:
                self._closed_bytes, self._whole_chunks = size, whole + 1
        if size > self._max_body_bytes:  # guard: A9.answer-bound
            self._done = self.answered = False
            self._fail(self._too_large(), "answer_too_large")
        elif size > UNCOUNTED_BYTES:
            self._counts(size)

    def _too_large(self) -> str:
        most = self._max_body_bytes
        return f"the endpoint's answer has more than {most} bytes (limits.max_answer_bytes)"

    def _counts(self, size: int) -> bool:
        """Whether there is room for so many bytes of the answer."""
        if self._held is None or self._held.hold(self, size):
            return True
        self._done = self.answered = False
        self._fail_by(AnswersFull())
        return False

    def eof_received(self) -> None:
        self.idle_since = -math.inf

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose()
        if self._until_close and exc is None and self._failure is None:
            self._complete()
        self._wake()

    def _lose(self) -> None:
        self._lost = True
        self.idle_since = -math.inf

    # httptools

    def on_message_begin(self) -> None:
        if self._done:
            self._on_surplus()
            self._stop("the endpoint answered twice")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # trailers of a chunked body come later, and count for nothing
            name = name.lower()
            if name in self._fields and name in (b"content-length", b"content-type"):
                self._stop("the endpoint's answer has a header twice that must stand once")
            self._fields[name] = value

    def on_headers_complete(self) -> None:
        if self._done:
            return
        self.status = self._parser.get_status_code()
        if 100 <= self.status < 200:  # an interim answer; the real one follows
            return
        self._head_done = True
        self.answered = self._streamed
        self._keeps = self._parser.should_keep_alive()
        self.headers = fields = self._fields
        coding = fields.get(b"transfer-encoding")
        # guard: A9.announced-size
        if not self._streamed and _is_over(fields.get(b"content-length"), self._max_body_bytes):
            self._stop(self._too_large(), "answer_too_large")
        self._until_close = (
            b"content-length" not in fields and coding is None and self.status not in (204, 304)
        )
        if fields.get(b"content-encoding", b"identity") != b"identity":
            self._stop("the endpoint compressed an answer for which nobody asked it to")

    def on_message_complete(self) -> None:
        if not self._head_done:
            self._fields = {}
        elif self._failure is None:
            self._complete()

    def _complete(self) -> None:
        self._done = self.answered = True

    def _stop(self, why: str, reason: str | None = None) -> None:
        """Nothing behind this is read any more: what a callback raises stops the parser."""
        self._fail(why, reason)
        raise ValueError(why)


def _is_over(length: bytes | None, most_bytes: int) -> bool:
    return length is not None and length.isdigit() and int(length[:18]) > most_bytes
