"""One request and its answer: what goes out, in which order, and what ends the connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from gateway.core.errors import BodyTooLarge
from gateway.core.reply import Receiver, deliver_each
from gateway.protocols.http import ClientLeft
from gateway.protocols.http.connection import LINGER_S, HttpConnection
from gateway.protocols.http.exchange import HttpExchange
from gateway.protocols.http.head import HttpHead
from gateway.protocols.http.server import HttpServer
from gateway.protocols.listeners import bound
from tests.unit.fronts.http_rig import HANG, Client, head

pytestmark = pytest.mark.anyio
CAP = 1_000_000
JSON = "content-type: application/json\r\n"
ONE_BYTE = b"content-length: 1\r\n\r\nx"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Bytes:
    """A streamed answer by a script: bytes are given, HANG never ends."""

    script: list[Any]
    closings: int = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self.script:
            raise StopAsyncIteration
        step = self.script.pop(0)
        if step is HANG:
            await asyncio.Event().wait()
        found: bytes = step
        return found

    async def deliver(self, receiver: Receiver[bytes]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        self.closings += 1


@dataclass
class Rig:
    server: HttpServer
    port: int
    seen: list[HttpExchange] = field(default_factory=list)
    stream: Bytes = field(default_factory=lambda: Bytes([]))
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    clients: list[Client] = field(default_factory=list)

    async def client(self) -> Client:
        self.clients.append(await Client.to(self.port))
        return self.clients[-1]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async def app(exchange: HttpExchange) -> None:
        found.seen.append(exchange)
        answer = answers[exchange.head.path]
        try:
            with contextlib.suppress(ClientLeft):
                await answer(exchange)
        finally:
            if not exchange.ended:
                exchange.cut()

    async def echo(exchange: HttpExchange) -> None:
        body = await exchange.body(CAP)
        exchange.reply(200, f"{JSON}x-told: yes\r\ncontent-length: {len(body)}\r\n", body)

    async def unread(exchange: HttpExchange) -> None:
        exchange.reply(403, "content-length: 2\r\n", b"no")

    async def later(exchange: HttpExchange) -> None:
        await found.go_on.wait()
        exchange.reply(200, "content-length: 5\r\n", b"later")

    async def stream(exchange: HttpExchange) -> None:
        await exchange.stream(200, "x-told: yes\r\n", found.stream, stall_s=0.3)

    async def nothing(exchange: HttpExchange) -> None:
        return

    answers: dict[str, Callable[[HttpExchange], Awaitable[None]]] = {
        "/echo": echo, "/unread": unread, "/later": later, "/stream": stream, "/nothing": nothing,
    }  # fmt: skip
    server = HttpServer(app, connection=partial(HttpConnection, idle_s=0.2))
    listening = bound("127.0.0.1", 0)
    await server.start([listening])
    found = Rig(server, listening.getsockname()[1])
    yield found
    for client in found.clients:
        client.close()
    server.stop()
    await server.stopped(0.0)


async def test_a_call_is_answered_whole(rig: Rig) -> None:
    client = await rig.client()
    answer = await client.ask("POST", "/echo", b"abc")
    assert (answer.status, answer.body, answer.headers["x-told"]) == (200, b"abc", "yes")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["date"].endswith("GMT")
    assert "connection" not in answer.headers
    client.close()


async def test_a_large_answer_is_whole(rig: Rig) -> None:
    client = await rig.client()
    body = bytes(range(256)) * 3000
    assert (await client.ask("POST", "/echo", body)).body == body
    client.close()


async def test_calls_on_one_line_are_answered_in_order(rig: Rig) -> None:
    client = await rig.client()
    calls = [head("POST", "/echo", length=3) + b"%03d" % n for n in range(40)]
    await client.send(head("POST", "/later", length=0) + b"".join(calls))
    await asyncio.sleep(0.02)
    assert len(rig.seen) == 1  # one after the other
    rig.go_on.set()
    assert (await client.answer()).body == b"later"
    assert [(await client.answer()).body for _ in calls] == [b"%03d" % n for n in range(40)]
    client.close()


async def test_the_head_of_an_answer_has_no_body(rig: Rig) -> None:
    client = await rig.client()
    await client.send(head("HEAD", "/unread"))
    assert (await client.head())[1]["content-length"] == "2"
    assert (await client.ask("POST", "/echo", b"abc")).body == b"abc"
    client.close()


@pytest.mark.parametrize(
    ("first", "closes"),
    [
        (
            b"POST /echo HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx",
            True,
        ),
        (b"POST /echo HTTP/1.0\r\n" + ONE_BYTE, True),
        (b"POST /echo HTTP/1.0\r\nconnection: keep-alive\r\n" + ONE_BYTE, True),
        (b"POST /echo HTTP/1.1\r\nhost: a\r\n" + ONE_BYTE, False),
    ],
)
async def test_the_connection_ends_when_the_caller_wants_no_more(
    rig: Rig, first: bytes, closes: bool
) -> None:
    client = await rig.client()
    await client.send(first)
    answer = await client.answer()
    assert (answer.body, answer.headers.get("connection")) == (b"x", "close" if closes else None)
    if closes:
        assert await asyncio.wait_for(client.reader.read(), 3) == b""
    client.close()


async def test_a_caller_that_waits_is_told_to_go_on(rig: Rig) -> None:
    client = await rig.client()
    await client.send(head("POST", "/echo", [("Expect", "100-continue")], 3))
    told = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), 3)
    assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
    await client.send(b"abc")
    assert (await client.answer()).body == b"abc"
    client.close()


async def test_a_body_that_nobody_reads_yet_is_held_up(rig: Rig) -> None:
    client = await rig.client()
    size = 64 * 1024 * 1024
    await client.send(head("POST", "/later", length=size))

    async def send_all() -> None:
        for _ in range(size // 65536):
            await client.send(bytes(65536))

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(send_all(), 0.5)
    rig.go_on.set()
    client.close()


async def test_a_short_unread_body_costs_no_connection(rig: Rig) -> None:
    client = await rig.client()
    await client.send(head("POST", "/unread", length=100_000) + bytes(100))
    assert (await client.answer()).status == 403
    await client.send(bytes(99_900))
    assert (await client.ask("POST", "/echo", b"abc")).body == b"abc"
    client.close()


async def test_a_long_unread_body_ends_the_connection_behind_the_answer(rig: Rig) -> None:
    client = await rig.client()
    await client.send(head("POST", "/unread", [("Transfer-Encoding", "chunked")]) + b"1\r\nx\r\n")
    answer = await client.answer()
    assert (answer.status, answer.headers["connection"]) == (403, "close")
    await client.send(b"1\r\ny\r\n")  # and is no reset
    await client.send(b"0\r\n\r\n" + head("POST", "/echo", length=0))
    assert await asyncio.wait_for(client.reader.read(), 3) == b""
    assert len(rig.seen) == 1  # what came behind it is no call
    client.close()


async def test_a_long_unread_body_is_not_awaited_for_ever(rig: Rig) -> None:
    client = await rig.client()
    await client.send(head("POST", "/unread", length=1 << 40))
    assert (await client.answer()).status == 403
    assert await asyncio.wait_for(client.reader.read(), LINGER_S + 3) == b""
    client.close()


async def test_a_call_that_ends_without_an_answer_cuts_the_connection(rig: Rig) -> None:
    client = await rig.client()
    await client.send(head("POST", "/nothing", length=0))
    assert await asyncio.wait_for(client.reader.read(), 3) == b""
    client.close()


async def test_a_connection_that_rests_is_closed(rig: Rig) -> None:
    client = await rig.client()
    assert (await client.ask("POST", "/echo", b"abc")).body == b"abc"
    assert await asyncio.wait_for(client.reader.read(), 5) == b""
    client.close()


# Streams


async def test_a_stream_goes_out_as_it_comes(rig: Rig) -> None:
    rig.stream = Bytes([b"a", b"bc", b"d"])
    client = await rig.client()
    await client.send(head("POST", "/stream", length=0))
    await client.head()
    rest = await asyncio.wait_for(client.reader.readuntil(b"0\r\n\r\n"), 3)
    assert rest == b"1\r\na\r\n2\r\nbc\r\n1\r\nd\r\n0\r\n\r\n"
    assert rig.stream.closings == 1
    assert (await client.ask("POST", "/echo", b"abc")).body == b"abc"
    client.close()


async def test_a_stream_for_an_old_client_ends_with_the_connection(rig: Rig) -> None:
    rig.stream = Bytes([b"a", b"b\n", b"c", b"d"])
    client = await rig.client()
    await client.send(b"POST /stream HTTP/1.0\r\ncontent-length: 0\r\n\r\n")
    _, headers = await client.head()
    assert headers["connection"] == "close"
    assert "transfer-encoding" not in headers
    assert await asyncio.wait_for(client.reader.read(), 3) == b"ab\ncd"
    client.close()


class Host:
    date = ""
    stopping = False


class Nobody:
    """A connection whose caller is gone."""

    peer_names: tuple[str, ...] = ()
    peer: str | None = None
    local: str | None = None
    full = False

    def __init__(self) -> None:
        self.host = Host()
        self.sent: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def put(self, data: bytes | memoryview) -> bool:
        self.sent.append(bytes(data))
        return False

    put_chunk = put

    async def written(self) -> None:
        return

    def hold(self) -> None:
        return

    def go_on(self) -> None:
        return

    def cut(self) -> None:
        return

    def abort(self) -> None:
        return

    def answered(self, exchange: HttpExchange, close: bool, rest: bytes = b"") -> None:
        self.sent.append(rest)


def left() -> tuple[HttpExchange, Nobody]:
    nobody = Nobody()
    exchange = HttpExchange(nobody, HttpHead("POST", b"/", "1.1", []), keeps=True)
    exchange.caller_left()
    return exchange, nobody


async def test_a_stream_for_one_who_has_left_is_closed_unread() -> None:
    exchange, nobody = left()
    stream = Bytes([b"a"])
    with pytest.raises(ClientLeft):
        await exchange.stream(200, "", stream)
    assert (stream.closings, stream.script, nobody.sent) == (1, [b"a"], [])


async def test_nothing_is_said_to_one_who_has_left() -> None:
    exchange, nobody = left()
    exchange.reply(200, "", b"x")
    assert nobody.sent == []
    with pytest.raises(ClientLeft):
        await exchange.body(CAP)


async def test_a_body_beyond_its_cap_is_refused_before_it_has_come() -> None:
    exchange = HttpExchange(Nobody(), HttpHead("POST", b"/", "1.1", []), keeps=True)
    exchange.receive(bytes(11))
    with pytest.raises(BodyTooLarge):
        await exchange.body(10)


# Stopping


async def test_a_server_that_stops_lets_calls_end_and_takes_no_more(rig: Rig) -> None:
    busy, idle = await rig.client(), await rig.client()
    assert (await idle.ask("POST", "/echo", b"abc")).body == b"abc"
    await busy.send(head("POST", "/later", length=0))
    await asyncio.sleep(0.02)
    rig.server.stop()
    stopped = asyncio.create_task(rig.server.stopped(5.0))
    assert await asyncio.wait_for(idle.reader.read(), 3) == b""
    with pytest.raises(OSError):  # noqa: PT011 - refused, or reset
        await rig.client()
    assert not stopped.done()
    rig.go_on.set()
    answer = await busy.answer()
    assert (answer.body, answer.headers["connection"]) == (b"later", "close")
    await asyncio.wait_for(stopped, 3)
    busy.close()


async def test_a_server_that_stops_cuts_what_does_not_end(rig: Rig) -> None:
    rig.stream = Bytes([b"a", HANG])
    client = await rig.client()
    await client.send(head("POST", "/stream", length=0))
    await client.head()
    rig.server.stop()
    await asyncio.wait_for(rig.server.stopped(0.05), 3)
    assert rig.stream.closings == 1
    with contextlib.suppress(ConnectionError):
        assert not (await client.reader.read()).endswith(b"0\r\n\r\n")
    client.close()
