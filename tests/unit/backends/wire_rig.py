"""HTTP servers that do what they are told, byte by byte, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from gateway.protocols.http_client.origin import Origin
from gateway.protocols.http_client.wire import ConnectionPool

Play = Callable[["Peer"], Awaitable[None]]


@dataclass
class Peer:
    """One accepted connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int
    heads: list[bytes]

    async def request(self) -> bytes:
        """The next request, head and body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        length = 0
        for line in head.split(b"\r\n"):
            if line.startswith(b"content-length: "):
                length = int(line[16:])
        return head + await self.reader.readexactly(length)

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Returns once the client has closed."""
        with contextlib.suppress(OSError):
            while await self.reader.read(65536):
                pass


@dataclass
class Server:
    play: Play
    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    accepted: int = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        peer = Peer(reader, writer, self.accepted, self.heads)
        try:
            await self.play(peer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def listening(play: Play, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(play)
    listener = await asyncio.start_server(server._serve, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


@contextlib.asynccontextmanager
async def serving(
    play: Play,
    tls: ssl.SSLContext | None = None,
    trust: ssl.SSLContext | None = None,
    **options: float,
) -> AsyncIterator[tuple[Server, ConnectionPool]]:
    async with listening(play, tls) as server:
        url = f"{'https' if tls else 'http'}://127.0.0.1:{server.port}"
        limits = {"connect_timeout_s": 2.0, "max_connections": 4, **options}
        wire = ConnectionPool(Origin.from_url(url, trust), **limits)  # type: ignore[arg-type]
        try:
            yield server, wire
        finally:
            await wire.aclose()


def answer(body: bytes, status: bytes = b"200 OK", extra: bytes = b"") -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n%b\r\n%b" % (status, len(body), extra, body)
