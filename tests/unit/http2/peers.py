"""The other end of a connection, which says whatever a test has it say."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import hpack

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITISED = 1, 1, 4, 8, 0x20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
PATIENCE_S = 10.0

Fields = list[tuple[str, str]]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def number(value: int) -> bytes:
    return struct.pack(">I", value)


def settings(**values: int) -> bytes:
    names = {"table": 1, "push": 2, "streams": 3, "window": 4, "frame": 5, "heads": 6}
    told = b"".join(struct.pack(">HI", names[n], v) for n, v in values.items())
    return frame(SETTINGS, 0, 0, told)


def message(content: bytes, compressed: int = 0) -> bytes:
    return struct.pack(">BI", compressed, len(content)) + content


def request(path: str = INFER, *more: tuple[str, str]) -> Fields:
    return [
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "here"),
        ("te", "trailers"), ("content-type", "application/grpc"), *more,
    ]  # fmt: skip


@dataclass
class Seen:
    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> int:
        """Of RST_STREAM or GOAWAY."""
        return int.from_bytes(self.payload[-4:] if self.kind == RST else self.payload[4:8])


@dataclass
class Peer:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    encoder: hpack.Encoder = field(default_factory=hpack.Encoder)
    decoder: hpack.Decoder = field(default_factory=hpack.Decoder)

    def send(self, *data: bytes) -> None:
        self.writer.write(b"".join(data))

    def block(self, fields: Fields) -> bytes:
        written: bytes = self.encoder.encode(fields)
        return written

    def head(self, stream: int, fields: Fields, flags: int = END_HEADERS) -> bytes:
        return frame(HEADERS, flags, stream, self.block(fields))

    def call(self, stream: int, content: bytes, path: str = INFER) -> bytes:
        data = frame(DATA, END_STREAM, stream, message(content))
        return self.head(stream, request(path)) + data

    def decoded(self, block: bytes) -> dict[str, str]:
        return {str(name): str(value) for name, value in self.decoder.decode(block)}

    async def next(self) -> Seen:
        """Raises IncompleteReadError, or another OSError, at the end."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self.reader.readexactly(9)
            kind, flags, stream = struct.unpack(">BBI", head[3:])
            return Seen(
                kind, flags, stream, await self.reader.readexactly(int.from_bytes(head[:3]))
            )

    async def until(self, *kinds: int) -> Seen:
        while (seen := await self.next()).kind not in kinds or (
            seen.kind in (SETTINGS, PING) and seen.flags & ACK
        ):
            if seen.kind == HEADERS:
                self.decoder.decode(seen.payload)
        return seen

    async def until_read(self) -> None:
        """All that was sent has been taken."""
        self.send(frame(PING, 0, 0, b"all read"))
        while (await self.next()).payload != b"all read":
            pass

    async def fields(self, stream: int | None = None) -> dict[str, str]:
        """Of the next HEADERS."""
        seen = await self.until(HEADERS)
        assert stream is None or seen.stream == stream
        return self.decoded(seen.payload)

    async def answer(self, stream: int) -> tuple[bytes, dict[str, str]]:
        """The message of an answer, and its trailers."""
        await self.fields(stream)
        data = b""
        while (seen := await self.until(HEADERS, DATA)).kind == DATA:
            data += seen.payload
        return data[5:], self.decoded(seen.payload)

    async def goodbye(self) -> int:
        """The code of the GOAWAY behind which the connection closes."""
        last = 0
        try:
            while True:
                last = (await self.until(GOAWAY)).code
        except (asyncio.IncompleteReadError, ConnectionError):
            return last


@asynccontextmanager
async def caller(port: int, *first: bytes) -> AsyncIterator[Peer]:
    """Connected, greeted, and `first` sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    peer = Peer(reader, writer)
    peer.send(PREFACE, *(first or (settings(),)))
    try:
        yield peer
    finally:
        writer.close()


@asynccontextmanager
async def server(serve: Callable[[Peer], Awaitable[None]]) -> AsyncIterator[str]:
    """`serve` has each connection once its preface has come; gives host:port."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(len(PREFACE))
            await serve(Peer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(accepted, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
