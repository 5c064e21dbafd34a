"""The HTTP app on a real socket, over a stand-in for the pipeline and for the servers' metadata."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.auth import Callers
from gateway.config import KeySettings, LimitSettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.errors import NoEligibleEndpoint, UpstreamRefused
from gateway.core.reply import (
    Frame,
    InferenceReply,
    Placement,
    Receiver,
    RestBody,
    deliver_each,
)
from gateway.core.types import InferenceRequest, Sensitivity, Zone
from gateway.protocols.http.connection import HttpConnection
from gateway.protocols.http.server import HttpServer
from gateway.protocols.listeners import bound
from gateway.server import Services

PLACEMENT = Placement(Zone.ONPREM, "gpu", "onprem_room", 1, Sensitivity.RESTRICTED, 0.0015)
HANG = object()
ANSWER = RestBody(b'{"model_name":"simple","outputs":[]}')


@dataclass
class Frames:
    """A reply that plays a script: frames are given, exceptions raised, HANG never ends."""

    script: list[Any]
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False

    def __aiter__(self) -> Frames:
        return self

    async def __anext__(self) -> Frame:
        if not self.script:
            self.ended = True
            raise StopAsyncIteration
        step = self.script.pop(0)
        if step is HANG:
            await asyncio.Event().wait()
        if isinstance(step, Exception):
            raise step
        frame: Frame = step
        return frame

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        self.closed.set()


@dataclass
class Pipeline:
    """Keeps what it was asked and gives what it was told."""

    script: list[Any] = field(default_factory=lambda: [ANSWER])
    error: Exception | None = None
    hangs: bool = False
    seen: list[InferenceRequest] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    last: Frames = field(default_factory=lambda: Frames([]))

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        self.seen.append(request)
        self.asked.set()
        if self.hangs:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if self.error is not None:
            raise self.error
        self.last = Frames(list(self.script))
        return InferenceReply(PLACEMENT, self.last)


@dataclass
class Metadata:
    """The servers behind the gateway, as far as questions about them go."""

    answers: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    alive: bool = True
    onprem: bool = True
    here: dict[str, str] = field(default_factory=dict)  # catalog name -> name there

    async def rest(self, path: str, timeout_s: float) -> RestBody:
        self.asked.append(path)
        if path not in self.answers:
            raise UpstreamRefused("not there", http_status=404, body=b'{"error":"not there"}')
        return RestBody(self.answers[path])

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
        raise NotImplementedError

    def server_inspector(self) -> Metadata:
        if not self.alive:
            raise NoEligibleEndpoint("no on-prem server answers")
        return self

    def model_inspector(self, model: str) -> tuple[Metadata, str]:
        if model not in self.here:
            raise NoEligibleEndpoint("no server answers for this model")
        return self, self.here[model]

    def live(self) -> bool:
        return self.alive

    def ready(self) -> bool:
        return self.alive

    def onprem_up(self) -> bool:
        return self.onprem

    def model_ready(self, model: str) -> bool:
        return model in self.here


def services(
    pipeline: Pipeline,
    metadata: Metadata | None = None,
    keys: dict[str, KeySettings] | None = None,
    models: Sequence[str] = ("simple", "org/model", "stats"),
    **limits: float,
) -> Services:
    return Services(
        handle=pipeline.handle,
        callers=Callers(keys or {}),
        catalog=Catalog({name: CatalogModel(name, "infer", ("gpu",)) for name in models}),
        inspection=metadata or Metadata(),
        limits=LimitSettings(**limits),
        new_id=lambda: str(uuid.uuid4()),
        clock=time.monotonic,
    )


@contextlib.asynccontextmanager
async def serving(
    app: Any, connection: Callable[[HttpServer], HttpConnection] = HttpConnection
) -> AsyncIterator[int]:
    """The port of a server in this event loop."""
    server = HttpServer(app, connection=connection)
    listening = bound("127.0.0.1", 0)
    await server.start([listening])
    try:
        yield listening.getsockname()[1]
    finally:
        server.stop()
        await server.stopped(0.0)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        found = json.loads(self.body)["error"]
        return found if isinstance(found, str) else str(found["message"])


def head(
    method: str, path: str, headers: Sequence[tuple[str, str]] = (), length: int | None = None
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Client:
    """One connection; bytes go out as they are given."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        length = None if body is None else len(body)
        await self.send(head(method, path, headers, length) + (body or b""))
        return await self.answer()

    async def answer(self) -> Answer:
        status, headers = await self.head()
        if headers.get("transfer-encoding") == "chunked":
            return Answer(status, headers, await self._chunks())
        length = int(headers.get("content-length", "0"))
        return Answer(status, headers, await self.reader.readexactly(length))

    async def head(self) -> tuple[int, dict[str, str]]:
        raw = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = raw[:-4].split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        return int(first.split()[1]), {name.lower(): value for name, _, value in pairs}

    async def _chunks(self) -> bytes:
        found = b""
        while size := int(await self.reader.readline(), 16):
            found += await self.reader.readexactly(size)
            await self.reader.readline()
        await self.reader.readline()
        return found

    def close(self) -> None:
        self.writer.close()


async def ask(
    port: int,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Sequence[tuple[str, str]] = (),
) -> Answer:
    client = await Client.to(port)
    try:
        return await asyncio.wait_for(client.ask(method, path, body, headers), 10)
    finally:
        client.close()
