"""Where a gateway hears its peers: a small HTTP/1.1 server that talks to nobody else.

A connection whose certificate is not one of the authority's is refused by TLS, and one in the name
of nobody in the list is closed before a byte of it is read. Requests come one after the other, each
with its length; whoever closes the connection ends the call that it carries.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Collection
from typing import cast

import httptools

from gateway.cluster import Answering
from gateway.cluster.certificates import peer_name
from gateway.cluster.links import CALL, STATE

log = logging.getLogger(__name__)

_MOST_HEAD_BYTES = 16 * 1024
_HANDSHAKE_S = 5.0
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n"
_REFUSED = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Listener:
    def __init__(
        self,
        answering: Answering,
        peers: Collection[str],
        tls: ssl.SSLContext,
        max_body_bytes: int,
    ) -> None:
        self.answering = answering
        self.peers = peers
        self.max_body_bytes = max_body_bytes
        self.connections: set[PeerConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._tls = tls
        self._server: asyncio.Server | None = None

    async def start(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: PeerConnection(self),
            sock=listening,
            ssl=self._tls,
            ssl_handshake_timeout=_HANDSHAKE_S,
        )

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in tuple(self.connections):
            connection.close()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class PeerConnection(asyncio.Protocol):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport
        self._peer = ""
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._fresh()

    def _fresh(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._head_bytes = self._body_bytes = 0
        self._body: list[bytes] = []
        self._in_head = True

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        shown = transport.get_extra_info("ssl_object").getpeercert()
        peer = peer_name(shown, self._listener.peers)
        if peer is None:
            log.warning("a certificate of the authority names no peer; the connection is closed")
            self._transport.abort()
            return
        self._peer = peer
        self._listener.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if not self._peer:
            return
        if self._task is not None:  # nothing comes before the answer has ended
            self._refuse()
            return
        before = self._in_head
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._refuse()
        if before and self._in_head:
            self._headed(len(data))

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.connections.discard(self)
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # httptools

    def on_url(self, url: bytes) -> None:
        self._path += url
        self._headed(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headed(len(name) + len(value))

    def on_headers_complete(self) -> None:
        self._in_head = False

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self._listener.max_body_bytes:
            self._refuse()
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._transport.is_closing() or self._task is not None:
            return
        path, body = self._path.decode("ascii", "replace"), b"".join(self._body)
        if self._parser.get_method() != b"POST" or path not in (STATE, CALL):
            self._refuse()
            return
        work = self._state(body) if path == STATE else self._call(body)
        self._task = task = asyncio.get_running_loop().create_task(work)
        self._listener.tasks.add(task)
        task.add_done_callback(self._answered)

    # Answers

    async def _state(self, body: bytes) -> None:
        answer = await self._listener.answering.state(self._peer, body)
        self._transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (_HEAD, len(answer), answer))

    async def _call(self, body: bytes) -> None:
        head = _HEAD + b"transfer-encoding: chunked\r\n\r\n"

        async def say(message: bytes) -> None:
            nonlocal head
            before, head = head, b""
            await self._writable.wait()
            if not self._transport.is_closing():
                chunk = b"%x\r\n" % len(message)
                self._transport.write(b"".join((before, chunk, message, b"\r\n")))

        await self._listener.answering.answer(self._peer, body, say)
        self._transport.write(head + b"0\r\n\r\n")

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._listener.tasks.discard(task)
        self._task = None
        self._fresh()
        if task.cancelled() or task.exception() is not None:
            if not task.cancelled():
                log.error("a forwarded call met a bug", exc_info=task.exception())
            self._transport.abort()

    def _headed(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > _MOST_HEAD_BYTES:
            self._refuse()

    def _refuse(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(_REFUSED)
            self._transport.close()

    def close(self) -> None:
        self._transport.abort()
