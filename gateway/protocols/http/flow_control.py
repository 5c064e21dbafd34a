"""Bytes of one connection, held back in either direction while the other end is too slow."""

from __future__ import annotations

import asyncio
from typing import cast


class FlowControlledProtocol(asyncio.Protocol):
    """The transport of a connection, as its exchanges use it."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._lost = False
        self._paused = False  # nothing is read
        self._writable: asyncio.Event | None = None  # there is one while the caller takes nothing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self.resume_writing()

    def pause_writing(self) -> None:
        if self._writable is None:
            self._writable = asyncio.Event()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set()

    def write(self, data: bytes) -> None:
        if not self._lost:
            self._transport.write(data)

    def put(self, data: bytes | memoryview) -> bool:
        """Of a stream. Whether the caller takes more."""
        if self._lost:
            return False
        self._transport.write(data)
        return self._writable is None

    def put_chunk(self, data: bytes) -> bool:
        """The same as a chunk of its own; an empty one would be the last."""
        if self._lost:
            return False
        if data:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return self._writable is None

    @property
    def full(self) -> bool:
        """The caller takes less than it is sent."""
        return self._writable is not None

    async def written(self) -> None:
        if self._writable is not None:
            await self._writable.wait()

    def hold(self) -> None:
        """Read nothing more for now."""
        if not self._paused and not self._lost:
            self._paused = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        if self._paused and not self._lost:
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        self._transport.abort()
