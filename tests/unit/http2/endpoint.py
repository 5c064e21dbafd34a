"""An endpoint over HTTP/2 whose answers come as a test lets them, within the gateway's windows."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tests.unit.http2.peers import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    RST,
    SETTINGS,
    WINDOW,
    Peer,
    frame,
    settings,
)

FRAME_BYTES = 16_384
_USUAL_WINDOW = 65_535
HEAD = [(":status", "200"), ("content-type", "application/grpc")]


class Answering:
    """One call at the endpoint."""

    def __init__(self, line: _Line, stream: int) -> None:
        self._line, self._stream = line, stream
        self.sent_bytes = 0
        self.reset = asyncio.Event()  # by the gateway
        self.stalls = asyncio.Event()  # there is no room for more

    async def head(self) -> None:
        self._line.peer.send(self._line.peer.head(self._stream, HEAD))

    async def data(self, data: bytes | memoryview) -> None:
        """All of it, in frames, as there is room; nothing more behind a reset."""
        at = 0
        while at < len(data) and not self.reset.is_set():
            size = min(FRAME_BYTES, len(data) - at, self._line.room(self._stream))
            if size <= 0:
                self.stalls.set()
                await self._line.widened()
                continue
            self._line.use(self._stream, size)
            self._line.peer.send(frame(DATA, 0, self._stream, bytes(data[at : at + size])))
            at += size
            self.sent_bytes += size
            await self._line.peer.writer.drain()
            await asyncio.sleep(0)

    async def ends(self, status: str = "0") -> None:
        ends = END_HEADERS | END_STREAM
        self._line.peer.send(self._line.peer.head(self._stream, [("grpc-status", status)], ends))

    def hang_up(self) -> None:
        self._line.peer.writer.close()


Answer = Callable[[Answering], Awaitable[None]]


class _Line:
    """One connection of the gateway's."""

    def __init__(self, peer: Peer, answer: Answer, calls: list[Answering]) -> None:
        self.peer = peer
        self._answer, self._calls = answer, calls
        self._window = _USUAL_WINDOW
        self._initial = _USUAL_WINDOW
        self._used: defaultdict[int, int] = defaultdict(int)
        self._more: defaultdict[int, int] = defaultdict(int)
        self._widened = asyncio.Event()
        self._open: dict[int, Answering] = {}

    def room(self, stream: int) -> int:
        return min(self._window, self._initial + self._more[stream] - self._used[stream])

    def use(self, stream: int, size: int) -> None:
        self._window -= size
        self._used[stream] += size

    async def widened(self) -> None:
        self._widened.clear()
        await self._widened.wait()

    async def serve(self) -> None:
        self.peer.send(settings())
        async with asyncio.TaskGroup() as answers:
            try:
                await self._read(answers)
            except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                for call in self._open.values():
                    call.reset.set()
                self._widened.set()

    async def _read(self, answers: asyncio.TaskGroup) -> None:
        while True:
            seen = await self.peer.next()
            if seen.kind == SETTINGS and not seen.flags & ACK:
                for at in range(0, len(seen.payload), 6):
                    if seen.payload[at : at + 2] == b"\x00\x04":
                        self._initial = int.from_bytes(seen.payload[at + 2 : at + 6])
                self.peer.send(frame(SETTINGS, ACK, 0))
            elif seen.kind == PING and not seen.flags & ACK:
                self.peer.send(frame(PING, ACK, 0, seen.payload))
            elif seen.kind == WINDOW:
                more = int.from_bytes(seen.payload)
                if seen.stream:
                    self._more[seen.stream] += more
                else:
                    self._window += more
                self._widened.set()
            elif seen.kind == RST and seen.stream in self._open:
                self._open[seen.stream].reset.set()
                self._widened.set()
            elif seen.kind in (HEADERS, DATA) and seen.flags & END_STREAM:
                call = self._open[seen.stream] = Answering(self, seen.stream)
                self._calls.append(call)
                answers.create_task(self._answered(call))

    async def _answered(self, call: Answering) -> None:
        with suppress(ConnectionError):
            await self._answer(call)


@asynccontextmanager
async def endpoint(answer: Answer) -> AsyncIterator[tuple[str, list[Answering]]]:
    """Answers each call so; gives host:port, and the calls as they come."""
    calls: list[Answering] = []
    serving: set[asyncio.Task[None]] = set()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await reader.readexactly(len(PREFACE))
            await _Line(Peer(reader, writer), answer, calls).serve()
        writer.close()

    listening = await asyncio.start_server(accepted, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}", calls
    finally:
        listening.close()
        for task in serving:
            task.cancel()
