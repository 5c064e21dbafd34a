"""What is held for callers is counted until they have taken it, or sent it whole: answers for those
who take them slowly, and bodies of HTTP/1.1 that do not come."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.held_bytes import HeldBytes
from gateway.core.reply import GrpcMessage, InferenceReply, OneFrame, RestBody
from gateway.core.types import InferenceRequest
from gateway.protocols.http2 import Code
from gateway.server import Services
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from tests.unit.fronts.http_rig import PLACEMENT, Pipeline, services, serving
from tests.unit.grpc_rig import PLACEMENT as GRPC_PLACEMENT
from tests.unit.grpc_rig import infer_request, running_front
from tests.unit.http2.peers import DATA, END_STREAM, INFER, RST, WINDOW, caller, frame, message
from tests.unit.http2.peers import request as grpc_request

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

MB = 1 << 20
SIZE = 8 * MB
CALL = json.dumps(
    {"inputs": [{"name": "I", "datatype": "INT8", "shape": [1], "data": [1]}]}
).encode()


class Holding(Pipeline):
    """Answers with a large body, which the call holds."""

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        assert request.held is not None
        assert request.held.hold("answer", SIZE)
        return InferenceReply(PLACEMENT, OneFrame(RestBody(b"{" + b" " * SIZE + b"}")))


@asynccontextmanager
async def gateway(**changes: Any) -> AsyncIterator[tuple[Services, int]]:
    made = replace(services(Holding()), **changes)
    async with serving(App(made, [kserve.front(made)])) as port:
        yield made, port


def post(length: int, more: str = "") -> bytes:
    return (
        f"POST /v2/models/simple/infer HTTP/1.1\r\nhost: gateway\r\n{more}"
        f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    ).encode()


async def slow_client(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """One for whom the kernel keeps little."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=sock, limit=1 << 16)


async def until(reached: Any) -> None:
    async with asyncio.timeout(10):
        while not reached():  # noqa: ASYNC110 - the gateway has no event for it
            await asyncio.sleep(0.005)


async def test_an_answer_is_held_until_its_caller_has_taken_it() -> None:
    async with gateway() as (made, port):
        reader, writer = await slow_client(port)
        writer.write(post(len(CALL)) + CALL)
        budget = made.held_answers
        await until(lambda: budget.bytes == SIZE)
        await asyncio.sleep(0.1)
        assert budget.bytes == SIZE
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"content-length: %d\r\n" % (SIZE + 2) in head
            assert await reader.readexactly(SIZE + 2) == b"{" + b" " * SIZE + b"}"
        await until(lambda: not budget.bytes)
        writer.write(post(len(CALL)) + CALL)  # the connection goes on
        async with asyncio.timeout(10):
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
        writer.close()
        await until(lambda: not budget.bytes)  # who leaves needs it no more


@pytest.mark.interpreted  # what is compiled has no defaults that could be shorter
async def test_who_takes_nothing_of_an_answer_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = tuple(0.2 if each == 30.0 else each for each in _as_taken().__defaults__)
    monkeypatch.setattr(_as_taken(), "__defaults__", defaults)
    async with gateway() as (made, port):
        reader, writer = await slow_client(port)
        writer.write(post(len(CALL)) + CALL)
        await until(lambda: made.held_answers.bytes == SIZE)
        await until(lambda: not made.held_answers.bytes)
        got = b""
        with contextlib.suppress(ConnectionError):
            while more := await reader.read(1 << 16):
                got += more
        assert len(got) < SIZE
        writer.close()


def _as_taken() -> Any:
    from gateway.protocols.http.exchange import HttpExchange

    return HttpExchange.reply_as_taken


# Bodies of HTTP/1.1


async def test_bodies_that_do_not_come_whole_have_one_budget() -> None:
    async with gateway(held_bytes=HeldBytes(4 * MB)) as (made, port):
        open_ones = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(post(2 * MB) + bytes(900_000))
            open_ones.append((reader, writer))
        first, second, third = open_ones
        async with asyncio.timeout(10):
            told = await third[0].readuntil(b"\r\n\r\n")
        assert told.startswith(b"HTTP/1.1 429")
        assert b"x-spillway-reason: bodies_full" in told
        assert b"retry-after: " in told
        await until(lambda: made.held_bytes.bytes == 1_800_000)
        second[1].close()
        await until(lambda: made.held_bytes.bytes == 900_000)
        first[1].write(bytes(2 * MB - 900_000))
        async with asyncio.timeout(10):
            assert (await first[0].readuntil(b"\r\n")).startswith(b"HTTP/1.1 400")
        assert made.held_bytes.bytes == 0
        first[1].close()
        third[1].close()


async def test_what_a_body_is_inflated_to_is_of_that_budget() -> None:
    packed = zlib.compress(bytes(4 * MB))
    async with gateway(held_bytes=HeldBytes(2 * MB)) as (made, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(len(packed), "content-encoding: deflate\r\n") + packed)
        async with asyncio.timeout(10):
            told = await reader.readuntil(b"\r\n\r\n")
        assert b"x-spillway-reason: bodies_full" in told
        assert made.held_bytes.bytes == 0
        writer.close()


async def test_a_body_that_does_not_come_is_waited_for_no_longer_than_its_call() -> None:
    async with gateway() as (made, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(2 * MB, "x-latency-budget-ms: 200\r\n") + bytes(900_000))
        await until(lambda: made.held_bytes.bytes == 900_000)
        async with asyncio.timeout(10):
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 504")
        assert made.held_bytes.bytes == 0
        writer.close()


# gRPC


@asynccontextmanager
async def grpc_gateway() -> AsyncIterator[Any]:
    async def handle(request: InferenceRequest) -> InferenceReply:
        assert request.held is not None
        assert request.held.hold("answer", SIZE)
        return InferenceReply(GRPC_PLACEMENT, OneFrame(GrpcMessage(bytes(SIZE))))

    async with running_front(handle) as run:
        yield run


async def test_an_answer_of_grpc_is_held_until_its_caller_has_taken_it() -> None:
    asked = infer_request().SerializeToString()
    async with grpc_gateway() as run, caller(run.port) as peer:
        budget: HeldBytes = run.services.held_answers
        peer.send(peer.head(1, grpc_request(INFER)))
        peer.send(frame(DATA, END_STREAM, 1, message(asked)))
        await peer.until(DATA)
        await asyncio.sleep(0.1)
        assert budget.bytes == SIZE
        for stream in (0, 1):
            peer.send(frame(WINDOW, 0, stream, (2 * SIZE).to_bytes(4)))
        async with asyncio.timeout(10):
            assert (await peer.fields(1))["grpc-status"] == "0"
        await until(lambda: not budget.bytes)


async def test_who_takes_nothing_of_an_answer_of_grpc_is_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.server.grpc.server._STALL_S", 0.1)
    asked = infer_request().SerializeToString()
    async with grpc_gateway() as run, caller(run.port) as peer:
        peer.send(peer.head(1, grpc_request(INFER)))
        peer.send(frame(DATA, END_STREAM, 1, message(asked)))
        async with asyncio.timeout(10):
            assert (await peer.until(RST)).code == Code.CANCEL
        await until(lambda: not run.services.held_answers.bytes)


async def test_a_large_message_is_whole_though_its_pieces_are_joined_aside() -> None:
    seen: list[bytes] = []

    async def handle(request: InferenceRequest) -> InferenceReply:
        seen.append(request.payload.inputs[0].data)  # type: ignore[union-attr]
        return InferenceReply(GRPC_PLACEMENT, OneFrame(GrpcMessage(b"")))

    asked = infer_request(values=range(2 * MB // 4))
    async with running_front(handle) as run:
        await run.stub.ModelInfer(asked)
        assert seen == [asked.raw_input_contents[0]]
        assert run.services.held_bytes.bytes == 0
