"""One client connection that carries one exchange at a time: bytes of the answer in, events out."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

import httptools

from gateway import ambient
from gateway.errors import UpstreamError, UpstreamFailed

MAX_HEAD_BYTES = 64 * 1024
_HIGH_BYTES = 256 * 1024  # of a stream that nobody takes: reading pauses


class Lost(Exception):
    """The connection broke. `silent`: before any byte of the answer came."""

    def __init__(self, why: str, *, silent: bool) -> None:
        super().__init__(why)
        self.why = why
        self.silent = silent


class Connection(asyncio.Protocol):
    """`send`, then either `end` and `body`, or `head` and `chunk` until it gives nothing."""

    status: int
    headers: dict[bytes, bytes]

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._lost = False
        self._resting = True
        self.idle_since = 0.0
        self._fresh()

    def _fresh(self) -> None:
        self.status, self.headers = 0, {}
        self._parser = httptools.HttpResponseParser(self)
        self._chunks: deque[bytes] = deque()
        self._failure: UpstreamError | None = None
        self._head_done = self._done = self._keeps = self._streamed = self._paused = False
        self._until_close = False
        self._arrived = self._head_bytes = self._body_bytes = self._held_bytes = 0

    # What the pool asks

    @property
    def usable(self) -> bool:
        return not self._lost and not self._transport.is_closing()

    @property
    def reusable(self) -> bool:
        """The answer has ended, and nothing of either side is under way."""
        return (
            self.usable
            and self._done
            and self._keeps
            and self._failure is None
            and not self._transport.get_write_buffer_size()
        )

    def rest(self) -> None:
        if self._paused:
            self._transport.resume_reading()
        self._fresh()
        self._resting = True
        self.idle_since = ambient.loop_s()

    def cut(self) -> None:
        self._transport.abort()

    # One exchange

    def send(self, head: bytes, body: tuple[bytes, ...]) -> None:
        self._resting = False
        self._transport.writelines((head, *body))

    async def head(self) -> None:
        self._streamed = True
        while not self._head_done:
            await self._more()

    async def end(self) -> None:
        while not self._done:
            await self._more()

    def body(self) -> bytes:
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)

    async def chunk(self) -> bytes:
        """What has come since; empty at the end."""
        while not (self._chunks or self._done):
            await self._more()
        return self.taken()

    def taken(self) -> bytes:
        """What has come and was not taken yet."""
        found = self.body()
        self._chunks.clear()
        self._held_bytes = 0
        if self._paused and not self._lost:
            self._paused = False
            self._transport.resume_reading()
        return found

    async def _more(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._lost:
            raise Lost("the connection to the endpoint broke", silent=not self._arrived)
        self._waiter = waiter = self._loop.create_future()
        await waiter

    def _wake(self) -> None:
        """Whoever waits for the whole answer sleeps on until that is there."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self._done or self._streamed or self._lost or self._failure is not None:
            waiter.set_result(None)

    def _fail(self, why: str) -> None:
        if self._failure is None:
            self._failure = UpstreamFailed(why)
        self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._resting:  # nobody asked: whatever it answers, it is not our next question
            self._lost = True
            self._transport.abort()
            return
        self._arrived += len(data)
        if not self._head_done:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail("the endpoint's answer is not HTTP")
        if not self._head_done and self._head_bytes > MAX_HEAD_BYTES:
            self._fail("the head of the endpoint's answer is too large")
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._until_close and exc is None and self._failure is None:
            self._done = True
        self._wake()

    # httptools

    def on_message_begin(self) -> None:
        if self._done:
            self._fail("the endpoint answered twice")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # trailers of a chunked body come later, and count for nothing
            name = name.lower()
            if name in self.headers and name in (b"content-length", b"content-type"):
                self._fail("the endpoint's answer has a header twice that must stand once")
            self.headers[name] = value

    def on_headers_complete(self) -> None:
        if self._done:
            return
        self.status = self._parser.get_status_code()
        if 100 <= self.status < 200:  # an interim answer; the real one follows
            return
        self._head_done = True
        self._keeps = self._parser.should_keep_alive()
        coding = self.headers.get(b"transfer-encoding")
        self._until_close = (
            b"content-length" not in self.headers
            and coding is None
            and self.status not in (204, 304)
        )
        if self.headers.get(b"content-encoding", b"identity") != b"identity":
            self._fail("the endpoint compressed an answer for which nobody asked it to")

    def on_body(self, body: bytes) -> None:
        if self._done or self._failure is not None:
            return
        self._body_bytes += len(body)
        self._held_bytes += len(body)
        if not self._streamed and self._body_bytes > self._max_body_bytes:
            self._fail(f"the endpoint's answer has more than {self._max_body_bytes} bytes")
            return
        self._chunks.append(body)
        if self._streamed and self._held_bytes > _HIGH_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if not self._head_done:
            self.headers = {}
        elif self._failure is None:
            self._done = True
