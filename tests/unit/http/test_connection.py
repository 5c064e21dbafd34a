"""Heads are frozen once read and bounded while they come; trailers are read by nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.config import KeySettings
from gateway.core.errors import GatewayError
from gateway.core.types import EVERYWHERE
from gateway.protocols.http.connection import HttpConnection
from gateway.server.http import App, Front, read_body, request_exchange
from gateway.server.intake import RequestContext
from gateway.server.kserve import front as kserve
from tests.unit.fronts.http_rig import Client, Pipeline, head, services, serving

pytestmark = pytest.mark.anyio
INFER = "/v2/models/simple/infer"
KEY = "sesame"
CHUNKED = ("Transfer-Encoding", "chunked")
BODY = b'{"inputs":[]}'


HEAD_S = 0.2


@dataclass
class Rig:
    port: int
    pipeline: Pipeline
    held: asyncio.Event
    clients: list[Client] = field(default_factory=list)

    async def client(self) -> Client:
        self.clients.append(await Client.to(self.port))
        return self.clients[-1]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    key = KeySettings(key=KEY, tenant="t")
    given = services(pipeline := Pipeline(), keys={"k": key})
    held = asyncio.Event()

    async def hold(request: Request) -> Response:
        await read_body(request_exchange(request), given.limits, None)
        await held.wait()
        return Response("done")

    def told(error: GatewayError, arrival: RequestContext) -> Response:
        return Response(error.message, error.http_status)

    ops = Front("", "ops", [Route("/hold", hold, methods=["POST"])], told)
    app = App(given, [kserve.front(given), ops])
    async with serving(app, partial(HttpConnection, head_s=HEAD_S)) as port:
        found = Rig(port, pipeline, held)
        yield found
        for client in found.clients:
            client.close()


def chunks(*trailers: tuple[str, str]) -> bytes:
    end = "".join(f"{name}: {value}\r\n" for name, value in trailers).encode()
    return b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(BODY), BODY, end)


AUTHORIZED = [CHUNKED, ("authorization", f"Bearer {KEY}")]


@pytest.mark.parametrize("apart", [False, True])
async def test_a_credential_in_the_trailers_is_none(rig: Rig, apart: bool) -> None:
    client = await rig.client()
    await client.send(head("POST", INFER, [CHUNKED]) + (b"" if apart else chunks(AUTHORIZED[1])))
    if apart:
        await client.send(chunks(AUTHORIZED[1]))
    assert (await client.answer()).status == 401
    assert rig.pipeline.seen == []
    client.close()


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    "trailer",
    [
        ("x-spillway-placement", "onprem"),
        ("x-spillway-placement", "nonsense"),
        ("x-latency-budget-ms", "1"),
        ("x-latency-budget-ms", "-1"),
        ("x-spillway-priority", "9"),
        ("x-request-id", "00000000-0000-4000-8000-000000000000"),
        ("inference-header-content-length", "3"),
        ("content-encoding", "gzip"),
        ("content-type", "text/plain"),
        ("host", "elsewhere"),
    ],
)
async def test_trailers_change_nothing_about_a_call(
    rig: Rig, trailer: tuple[str, str], apart: bool
) -> None:
    client = await rig.client()
    first, rest = head("POST", INFER, AUTHORIZED), chunks(trailer)
    if apart:
        await client.send(first)
        await client.send(rest)
    else:
        await client.send(first + rest)
    answer = await client.answer()
    assert answer.status == 200
    (request,) = rig.pipeline.seen
    assert request.zones == EVERYWHERE
    assert request.priority == 0
    assert request.deadline.remaining_s() > 50
    assert request.id != "00000000-0000-4000-8000-000000000000"
    client.close()


@pytest.mark.parametrize("trailer", [("content-length", "4"), ("transfer-encoding", "gzip")])
async def test_trailers_that_speak_of_framing_are_refused(
    rig: Rig, trailer: tuple[str, str]
) -> None:
    client = await rig.client()
    await client.send(head("POST", INFER, AUTHORIZED) + chunks(trailer))
    assert (await client.answer()).status == 400
    assert rig.pipeline.seen == []
    client.close()


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET /v2 HTTP/1.1\r\nHost: a\r\nX-A: ", b"x" * 4096),
        (b"GET /v2 HTTP/1.1\r\nHost: a\r\n", b"x-a: b\r\n" * 512),
        (b"GET /v2/", b"x" * 4096),
        (b"", b"\r\n" * 2048),
        (head("POST", INFER, AUTHORIZED) + b"1\r\n{\r\n0\r\n", b"x-a: b\r\n" * 512),
        (head("POST", INFER, AUTHORIZED) + b"1\r\n{\r\n0\r\nx-a: ", b"x" * 4096),
        (head("POST", INFER, AUTHORIZED) + b"1;a=", b"x" * 4096),
    ],
)
async def test_a_head_or_trailers_without_end_are_cut_off(
    rig: Rig, start: bytes, piece: bytes
) -> None:
    client = await rig.client()
    await client.send(start)
    sent, answered = 0, asyncio.create_task(client.reader.read())
    while not answered.done() and sent < 1 << 22:
        client.writer.write(piece)
        sent += len(piece)
        await asyncio.sleep(0)
    found = await asyncio.wait_for(_whatever_came(answered), 2)
    assert sent < 1 << 22
    assert found == b"" or (b" 431 " in found and b"head_too_large" in found)
    assert rig.pipeline.seen == []
    client.close()


async def _whatever_came(answered: asyncio.Task[bytes]) -> bytes:
    try:
        return await answered
    except ConnectionError:  # it was still sending when the server closed
        return b""


async def test_a_head_that_trickles_is_given_up(rig: Rig) -> None:
    client = await rig.client()
    await client.send(b"GET /v2 HTTP/1.1\r\nHost:")
    answer = await asyncio.wait_for(client.answer(), 2)
    assert (answer.status, answer.headers["connection"]) == (408, "close")
    assert answer.headers["x-spillway-reason"] == "head_too_slow"
    assert answer.error == "the head did not arrive within 0.2 s"
    client.close()


async def test_a_whole_head_stops_the_clock(rig: Rig) -> None:
    client = await rig.client()
    first = head("POST", "/hold", length=2)
    await client.send(first[:20])
    await client.send(first[20:] + b"{}")
    await asyncio.sleep(2 * HEAD_S)  # what is bounded is time itself
    rig.held.set()
    assert (await asyncio.wait_for(client.answer(), 2)).body == b"done"
    client.close()


async def test_a_call_in_progress_outlives_half_a_head_behind_it(rig: Rig) -> None:
    client = await rig.client()
    await client.send(head("POST", "/hold", length=2) + b"{}GET /v2 HT")
    await asyncio.sleep(2 * HEAD_S)
    rig.held.set()
    assert (await asyncio.wait_for(client.answer(), 2)).body == b"done"
    client.close()


UPGRADE = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "")]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("body", [BODY, b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"])
async def test_the_body_of_a_call_that_asks_for_an_upgrade_is_its_body(
    rig: Rig, body: bytes, chunked: bool, apart: bool
) -> None:
    """As the HTTP client of Java asks for HTTP/2 on every first call."""
    client = await rig.client()
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    length = None if chunked else len(body)
    first = head("POST", INFER, (AUTHORIZED if chunked else AUTHORIZED[1:]) + UPGRADE, length)
    if apart:
        for at in range(0, len(first), 50):
            await client.send(first[at : at + 50])
            await asyncio.sleep(0)
        await client.send(framed)
    else:
        await client.send(first + framed)
    assert (await client.answer()).status == (200 if body is BODY else 400)
    assert len(rig.pipeline.seen) == (1 if body is BODY else 0)
    next_answer = await client.ask("GET", "/v2/health/ready")
    assert json.loads(next_answer.body) == {"ready": True}
    client.close()


async def test_calls_that_ask_for_an_upgrade_follow_one_another(rig: Rig) -> None:
    client = await rig.client()
    call = head("POST", INFER, AUTHORIZED[1:] + UPGRADE, len(BODY)) + BODY
    asked = head("GET", "/v2/health/live", UPGRADE)
    await client.send(call + asked + asked + call)
    assert [(await client.answer()).status for _ in range(4)] == [200] * 4
    assert len(rig.pipeline.seen) == 2
    client.close()


async def test_what_cannot_be_parsed_is_refused_as_json(rig: Rig) -> None:
    client = await rig.client()
    await client.send(b"GET /v2 FTP/1.1\r\nHost: a\r\n\r\n")
    answer = await client.answer()
    assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
    assert answer.headers["x-spillway-reason"] == "malformed_head"
    assert "RFC 9112" in json.loads(answer.body)["error"]
    assert await client.reader.read() == b""
    client.close()


async def test_chunks_that_cannot_be_parsed_are_refused(rig: Rig) -> None:
    client = await rig.client()
    await client.send(head("POST", INFER, AUTHORIZED) + b"zz\r\n")
    assert (await asyncio.wait_for(client.answer(), 2)).status == 400
    assert rig.pipeline.seen == []
    client.close()


async def test_a_refusal_is_never_taken_for_the_answer_to_an_earlier_call(rig: Rig) -> None:
    client = await rig.client()
    await client.send(head("POST", "/hold", length=2) + b"{}")
    await client.send(b"\x00\x00 no request")
    assert await asyncio.wait_for(client.reader.read(), 2) == b""
    client.close()
