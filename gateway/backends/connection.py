"""One client connection that carries one exchange at a time: bytes of the answer in, events out."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import cast

import httptools

from gateway import ambient
from gateway.backends.plain import Reader
from gateway.errors import UpstreamError, UpstreamFailed

MAX_HEAD_BYTES = 64 * 1024
_ONE_WRITE_BYTES = 64 * 1024  # copying more costs more than it saves
_HIGH_BYTES = 256 * 1024  # of a stream that nobody takes: reading pauses


Take = Callable[[bytes], bool]
Usual = Callable[[bytes], bool]
"""Whether a read is one chunk with one event of a kind that is known."""


class Lost(Exception):
    """The connection broke. `silent`: before any byte of the answer came."""

    def __init__(self, why: str, *, silent: bool) -> None:
        super().__init__(why)
        self.why = why
        self.silent = silent


class Connection(asyncio.Protocol):
    """`send`, and wait for what that gives: then it has `answered`, or `broken` says why not. Of a
    whole answer `body` has come then; of a stream the head has, and `taken` gives what follows,
    nothing at the end."""

    status: int
    headers: Mapping[bytes, bytes]  # names in lower case
    body: bytes
    _fields: dict[bytes, bytes]

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._now_s = ambient.clock()
        self._waiter: asyncio.Future[None] | None = None
        self._take: Take | None = None
        self._hand_on: Take
        self._usual: Usual | None = None  # while it flows, and nothing of a chunk is open
        self.expected: Usual | None = None  # what the next event may be, when it begins a chunk
        self.came_s = 0.0  # when it last flowed, and was read
        self._chunks: list[bytes] = []  # of the body, which nobody has taken yet
        self.on_body = self._chunks.append  # what the parser calls: no function of ours for each
        self._parser = httptools.HttpResponseParser(self)
        self._plain = Reader()
        self._failure: UpstreamError | None = None
        self._lost = self._paused = False
        self._resting = True  # nobody waits for what comes
        self._untouched = False  # a whole answer is to come, and nothing of it has
        self.kept = False  # it has served before
        self.idle_since = -math.inf  # for ever, once it cannot serve any more
        self._fresh()

    def _fresh(self) -> None:
        """For the parser, behind an answer that ended well: then it awaits the next one, too."""
        self.status, self._fields = 0, {}
        self.body = b""
        self._chunks.clear()
        self.answered = self._head_done = self._done = self._keeps = False
        self._streamed = self._until_close = self._between = False
        self._usual = self.expected = None
        self._arrived = self._held_bytes = self._counted = 0

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
        self.kept = True
        self.idle_since = self._now_s()
        return True

    def cut(self) -> None:
        self._transport.abort()

    # One exchange

    def send(
        self, head: bytes, body: bytes | tuple[bytes, ...], streamed: bool
    ) -> asyncio.Future[None]:
        """Done when it may have answered."""
        if self._lost:
            raise self.broken()
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

    def broken(self) -> UpstreamError | Lost:
        """Why nothing comes."""
        if self._failure is not None:
            return self._failure
        return Lost("the connection to the endpoint broke", silent=not self._arrived)

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
        found = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._held_bytes = 0
        self._go_on()
        return found

    async def flow(self, take: Take, hand_on: Take) -> None:
        """Hand what each read has of the body to `take` as it comes, or to `hand_on` the whole
        chunk that it is, if that is `expected`; until one of them has enough and returns False, or
        there will be no more."""
        if self.has_more or self._lost or self._failure is not None:
            return
        self._take, self._hand_on = take, hand_on
        self._usual = self.expected if self._between else None
        self.came_s = self._now_s()
        try:
            await self.more()
        finally:
            self._take = self._usual = None

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
            if not self._streamed:
                self.body = b"".join(self._chunks)
            waiter.set_result(None)

    def _fail(self, why: str) -> None:
        if self._failure is None:
            self._failure = UpstreamFailed(why)
        self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        usual = self._usual
        if usual is not None and usual(data):
            if not self._hand_on(data):
                self._take = self._usual = None
                self._wake()
            return
        if self._untouched:
            self._untouched = False
            body = self._plain.read(data) if len(data) <= self._max_body_bytes else None
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
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail("the endpoint's answer is not HTTP")
        take, chunks = self._take, self._chunks
        if self._streamed:
            self._between = (  # an event's end, and behind it the end of its chunk
                bool(chunks)
                and chunks[-1].endswith(b"\n\n")
                and data.endswith(b"\n\n\r\n")
                and not self._done
            )
        if take is None:
            self._hold(len(data))
        elif chunks:
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            chunks.clear()
            self.came_s = self._now_s()
            if take(body) and not self._done and self._failure is None:
                self._usual = self.expected if self._between else None
                return
            self._take = self._usual = None
        self._wake()

    def _hold(self, size: int) -> None:
        """What nobody has taken is bounded."""
        self._arrived += size
        if not self._head_done:
            if self._arrived > MAX_HEAD_BYTES:
                self._fail("the head of the endpoint's answer is too large")
        elif not self._streamed:
            if self._arrived > self._max_body_bytes:
                self._count()
        elif not self._done:
            self._held_bytes += size
            if self._held_bytes > _HIGH_BYTES and not self._paused:
                self._paused = True
                self._transport.pause_reading()

    def _count(self) -> None:
        """Of a whole answer, once as many bytes have come as its body may have, heads and frames
        of chunks included."""
        fresh = self._chunks[self._counted :]
        self._counted += len(fresh)
        self._held_bytes += sum(map(len, fresh))
        if self._held_bytes > self._max_body_bytes:
            self._done = self.answered = False
            self._fail(f"the endpoint's answer has more than {self._max_body_bytes} bytes")

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

    def _stop(self, why: str) -> None:
        """Nothing behind this is read any more: what a callback raises stops the parser."""
        self._fail(why)
        raise ValueError(why)
