"""Servers with manners of their own, on real sockets, for what generates load."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

Answer = Callable[[int, asyncio.StreamWriter], Awaitable[None]]
"""What to do with the n-th call of all; the request has been read."""

FINE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@contextlib.asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    """Its URL."""
    calls = 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.partition(b":")[2])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                )
                await reader.readexactly(length)
                calls += 1
                await answer(calls, writer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
