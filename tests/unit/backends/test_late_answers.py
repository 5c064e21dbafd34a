"""An endpoint that answers a call twice, the second time late: no other caller gets that answer.

The server is told when to write by events, so that each trial is the race that it is meant to be.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.config import EndpointSettings
from gateway.core import ambient
from gateway.core.deadline import Deadline
from gateway.core.errors import UpstreamFailed, UpstreamRefused
from gateway.core.operations.chat import CHAT
from gateway.core.reply import (
    JsonBody,
    RestBody,
)
from gateway.core.types import (
    DocumentCall,
    InferenceRequest,
    ServedModel,
    Tensor,
    TensorCall,
    WireProtocol,
)
from gateway.endpoints.connectors.kinds import build_connector
from gateway.endpoints.connectors.kserve.http import KserveHttp
from gateway.protocols.http_client.idle import DISTRUST_S
from gateway.protocols.http_client.origin import Origin
from gateway.protocols.http_client.wire import ConnectionPool, WireRequest
from gateway.protocols.oip.grpc import response_id
from tests.unit.backends.wire_rig import Peer, Server, answer, listening, serving
from tests.unit.grpc_rig import infer_response

pytestmark = pytest.mark.anyio

GET = WireRequest("GET", "/x")
TRIALS = 120
EVIL = answer(b"evil")


async def fetch(wire: ConnectionPool) -> bytes:
    return (await wire.fetch(GET, Deadline.after(5.0))).body


# What comes while a connection rests


@dataclass
class LatePeer:
    """Answers each call rightly, and a first one twice: the second time when it is `due`."""

    due: asyncio.Event = field(default_factory=asyncio.Event)
    written: asyncio.Event = field(default_factory=asyncio.Event)

    async def play(self, peer: Peer) -> None:
        await peer.request()
        await peer.say(answer(b"right"))
        if peer.number == 1:
            await self.due.wait()
            await peer.say(EVIL)
            self.written.set()
        while True:
            await peer.request()
            await peer.say(answer(b"right"))


async def test_a_late_second_answer_reaches_no_caller_of_a_connection_that_rests() -> None:
    for _ in range(TRIALS):
        late = LatePeer()
        async with serving(late.play, rest_s=60.0) as (server, wire):
            assert await fetch(wire) == b"right"
            calls = [asyncio.create_task(fetch(wire)) for _ in range(2)]
            late.due.set()  # the calls are under way when the surplus comes
            await late.written.wait()
            assert await asyncio.gather(*calls) == [b"right"] * 2
            assert server.accepted == 3


async def test_connections_rest_only_while_there_is_room_for_others() -> None:
    async def echo(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(answer(b"right"))

    async with serving(echo, rest_s=60.0, max_connections=3) as (server, wire):
        for _ in range(9):
            await fetch(wire)
        assert server.accepted == 3
        assert len(server.heads) == 9
    async with serving(echo, rest_s=1e-9, max_connections=3) as (server, wire):
        for _ in range(9):
            await fetch(wire)
        assert server.accepted == 1


class ThreadServer:
    """A server in a thread: it can write while the loop of the client is busy."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.due, self.written = threading.Event(), threading.Event()
        self.accepted = 0
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        first = self.accepted == 1
        try:
            while connection.recv(65536):
                connection.sendall(answer(b"right"))
                if first:
                    self.due.wait()
                    connection.sendall(EVIL)
                    self.written.set()
                    first = False
        except OSError:
            return

    def close(self) -> None:
        self.due.set()
        for each in (self._listener, *self._connections):
            each.close()


@contextmanager
def thread_server() -> Iterator[ThreadServer]:
    server = ThreadServer()
    try:
        yield server
    finally:
        server.close()


async def test_a_connection_with_bytes_that_nobody_has_read_is_not_used_again() -> None:
    for _ in range(TRIALS):
        with thread_server() as server:
            wire = ConnectionPool(
                Origin.from_url(f"http://127.0.0.1:{server.port}"), connect_timeout_s=5.0
            )
            assert await fetch(wire) == b"right"
            server.due.set()
            assert server.written.wait(10)  # the loop stands still, and the kernel has the bytes
            assert await fetch(wire) == b"right"
            assert await fetch(wire) == b"right"
            await wire.aclose()
            assert server.accepted == 3  # for it was caught, too


async def test_a_server_that_was_caught_gets_one_call_for_each_connection() -> None:
    now_s = 1000.0

    async def twice(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(answer(b"right") + (EVIL if peer.number == 1 else b""))

    with ambient.drawn_from(ambient.Sources(monotonic_s=lambda: now_s)):
        async with serving(twice, max_idle_s=1e9) as (server, wire):
            for count in range(1, 5):
                assert (await wire.fetch(GET, Deadline.after(5.0))).body == b"right"
                assert server.accepted == count
            now_s += DISTRUST_S
            for _ in range(3):
                await fetch(wire)
                assert server.accepted == 5


async def test_a_farewell_to_an_idle_client_is_no_second_answer() -> None:
    said, written = asyncio.Event(), asyncio.Event()

    async def farewell(peer: Peer) -> None:
        if peer.number == 1:
            await peer.request()
            await peer.say(answer(b"right"))
            await said.wait()
            await peer.say(answer(b"", b"408 Request Timeout", b"connection: close\r\n"))
            written.set()
            return
        while True:
            await peer.request()
            await peer.say(answer(b"again"))

    async with serving(farewell) as (server, wire):
        assert await fetch(wire) == b"right"
        said.set()
        await written.wait()
        for _ in range(3):
            assert await fetch(wire) == b"again"
        assert server.accepted == 2


async def test_connections_to_a_provider_rest() -> None:
    """The protocol of OpenAI repeats nothing of a call in its answer."""
    late = LatePeer()
    body = b'{"choices":[]}'

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer(body))
        if peer.number == 1:
            await late.due.wait()
            await peer.say(answer(b'{"choices":[],"id":"evil"}'))
            late.written.set()
        await peer.gone()

    async with listening(play) as server:
        settings = EndpointSettings.model_validate(
            {"kind": "openai", "zone": "cloud", "url": f"http://127.0.0.1:{server.port}"}
        )
        connector = build_connector(settings, None)
        document = DocumentCall(CHAT, {"messages": []})

        async def chat() -> bytes:
            reply = await connector.open(_request(document), ServedModel("m"))
            (frame,) = [frame async for frame in reply]
            assert isinstance(frame, JsonBody)
            return frame.body

        assert await chat() == body
        call = asyncio.create_task(chat())
        await asyncio.sleep(0)
        late.due.set()
        await late.written.wait()
        assert await call == body
        await connector.aclose()


# Ids


def _request(payload: Any) -> InferenceRequest:
    return InferenceRequest(
        id="0a0b0c0d-0000-4000-8000-000000000001",
        protocol=WireProtocol.KSERVE_REST,
        tenant="t",
        model="m",
        payload=payload,
        deadline=Deadline.after(5.0),
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )


def tensors(id: str = "", **parameters: Any) -> InferenceRequest:
    tensor = Tensor("IN", "INT32", (1,), b"\x07\x00\x00\x00")
    return _request(TensorCall((tensor,), id=id, parameters=parameters))


@asynccontextmanager
async def v2(play: Any, max_connections: int = 1) -> AsyncIterator[tuple[Server, KserveHttp]]:
    async with listening(play) as server:
        url = f"http://127.0.0.1:{server.port}"
        connector = KserveHttp(url, connect_timeout_s=5.0, max_connections=max_connections)
        try:
            yield server, connector
        finally:
            await connector.aclose()


async def infer(connector: KserveHttp, id: str = "", **parameters: Any) -> RestBody:
    reply = await connector.open(tensors(id, **parameters), ServedModel("m"))
    (frame,) = [frame async for frame in reply]
    assert isinstance(frame, RestBody)
    return frame


def id_of(request: bytes) -> str:
    _, _, body = request.partition(b"\r\n\r\n")
    found: str = json.loads(body[: body.rindex(b"}") + 1])["id"]
    return found


def whole(id: str, text: str = "right") -> bytes:
    return b'{"id":%b,"model_name":"m","outputs":[],"text":"%b"}' % (
        json.dumps(id).encode(), text.encode(),
    )  # fmt: skip


@pytest.mark.parametrize("ids", [("", ""), ("1", "1"), ("a", "b")])
async def test_an_answer_of_another_call_fails_this_one(ids: tuple[str, str]) -> None:
    """It comes when the next call is under way on the connection: nothing else could know it."""

    async def late(peer: Peer) -> None:
        former = whole(id_of(await peer.request()))
        await peer.say(answer(former))
        await peer.request()
        await peer.say(answer(former.replace(b"right", b"wrong")))
        await peer.gone()

    for _ in range(TRIALS):
        async with v2(late) as (server, connector):
            assert b"right" in (await infer(connector, ids[0])).body
            with pytest.raises(UpstreamFailed, match="another call"):
                await infer(connector, ids[1])
            assert b"right" in (await infer(connector, ids[1])).body
            assert server.accepted == 2


ANSWERS = [
    ('{"id":%s,"model_name":"m","outputs":[]}', '{"id":%s,"model_name":"m","outputs":[]}'),
    ('{"model_name":"m","id": %s,"outputs":[]}', '{"model_name":"m","outputs":[]}'),
    ('{"model_name":"m","outputs":[], "id" : %s}', '{"model_name":"m","outputs":[]}'),
    ('{ "id" : %s , "outputs":[]}', '{"outputs":[]}'),
    ('{"outputs":[{"id":"x"}],"id":%s,"a":1}', '{"outputs":[{"id":"x"}],"a":1}'),
    ('{"id":%s}', "{}"),
]


@pytest.mark.parametrize("tail", [b"", b"\x00\x01}"])
@pytest.mark.parametrize("given", ["", "1", 'a"b\\é\n\u2028\x01/'])
@pytest.mark.parametrize("form", [form for form, _ in ANSWERS])
async def test_the_callers_id_is_in_the_answer_or_none(form: str, given: str, tail: bytes) -> None:
    sent: list[str] = []

    async def echo(peer: Peer) -> None:
        while True:
            sent.append(id_of(await peer.request()))
            text = (form % json.dumps(sent[-1])).encode()
            length = b"inference-header-content-length: %d\r\n" % len(text) if tail else b""
            await peer.say(answer(text + tail, extra=length))

    async with v2(echo) as (server, connector):
        for _ in range(3):
            found = await infer(connector, given)
            text = found.body if found.header_length is None else found.body[: found.header_length]
            assert found.body == text + tail
            expected = json.loads(form % json.dumps(given))
            if not given:
                del expected["id"]
            assert json.loads(text) == expected
        assert server.accepted == 1
    assert len(set(sent)) == 3
    assert all(len(each) >= 32 for each in sent[1:])
    assert not given or sent[0] == given


async def test_a_server_without_ids_has_one_call_for_each_connection() -> None:
    async def without(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(answer(b'{"model_name":"m","outputs":[]}'))

    async with v2(without) as (server, connector):
        for count in range(1, 4):
            await infer(connector, "7")
            assert server.accepted == count


async def test_a_server_without_ids_is_asked_again_where_a_connection_had_another_call() -> None:
    infers = 0

    async def without(peer: Peer) -> None:
        nonlocal infers
        while True:
            sent = await peer.request()
            if sent.startswith(b"GET "):
                await peer.say(answer(b'{"ready":true}'))
                continue
            infers += 1
            await peer.say(answer(b'{"model_name":"m","outputs":[]}'))

    async with v2(without) as (_, connector):
        assert await connector.ready()  # a probe leaves its connection behind
        assert (await infer(connector, "7")).body == b'{"model_name":"m","outputs":[]}'
        assert infers == 2
        await infer(connector, "8")
        assert infers == 3, "it is known by now that it repeats no ids"


@pytest.mark.parametrize(("given", "taken"), [("7", False), ("", True)])
async def test_a_server_with_ids_of_its_own(given: str, taken: bool) -> None:
    """It may give one to a call that has none, on a connection that had no other call."""

    async def own(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(answer(whole("its-own")))

    async with v2(own) as (server, connector):
        for count in range(1, 4):
            if taken:
                assert (await infer(connector, given)).body == whole("its-own")
            else:
                with pytest.raises(UpstreamFailed):
                    await infer(connector, given)
            assert server.accepted == count


async def test_an_error_of_an_earlier_call_is_not_this_ones() -> None:
    async def late(peer: Peer) -> None:
        sent = await peer.request()
        if peer.number > 1:
            await peer.say(answer(b'{"error":"its own"}', b"400 Bad Request"))
            return
        await peer.say(answer(whole(id_of(sent))))
        await peer.request()
        await peer.say(answer(b'{"error":"of another"}', b"400 Bad Request"))

    async with v2(late) as (_, connector):
        await infer(connector)
        with pytest.raises(UpstreamRefused) as refusal:
            await infer(connector)
        assert refusal.value.body == b'{"error":"its own"}'
    async with v2(late) as (server, connector):
        await infer(connector)
        with pytest.raises(UpstreamRefused) as refusal:  # it must not go out twice
            await infer(connector, sequence_id=7)
        assert refusal.value.body == b'{"error":"its own"}'
        assert len(server.heads) == 2


@pytest.mark.parametrize(("given", "words"), [("", "<id_unknown>"), ("mine", "mine")])
async def test_an_error_that_names_the_call_is_its_own(given: str, words: str) -> None:
    async def naming(peer: Peer) -> None:
        while True:
            name = id_of(await peer.request())
            error = b'{"error":"[request id: %b] no"}' % name.encode()
            await peer.say(answer(error, b"400 Bad Request"))

    async with v2(naming) as (server, connector):
        for _ in range(3):
            with pytest.raises(UpstreamRefused) as refusal:
                await infer(connector, given)
            assert refusal.value.body == b'{"error":"[request id: %b] no"}' % words.encode()
        assert server.accepted == 1


async def test_a_question_about_a_model_gets_no_answer_of_a_call() -> None:
    async def late(peer: Peer) -> None:
        sent = await peer.request()
        if b"GET" in sent[:3]:
            await peer.say(answer(b'{"name":"m"}'))
            return
        await peer.say(answer(whole(id_of(sent))))
        await peer.request()
        await peer.say(answer(whole("", "of another")))

    async with v2(late) as (_, connector):
        await infer(connector)
        assert (await connector.rest("/v2/models/m", 5.0)).body == b'{"name":"m"}'


def test_the_id_of_a_message_is_read_without_its_tensors() -> None:
    message = infer_response("mine")
    message.raw_output_contents.append(bytes(300))
    raw = message.SerializeToString()
    assert response_id(raw) == b"mine"
    message.id = ""
    assert response_id(message.SerializeToString()) == b""
    for cut in range(len(raw)):
        response_id(raw[:cut])  # whatever it is, it ends
    assert response_id(b"\xff" * 40) == b""
