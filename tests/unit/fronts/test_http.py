"""What all HTTP fronts share: bodies, disconnects, closing, and what no route answers."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.core.errors import GatewayError, Saturated
from gateway.core.reply import Receiver, deliver_each
from gateway.server.http import App, ClosingResponse, Front, read_body, request_exchange
from gateway.server.intake import RequestContext
from gateway.server.kserve import front as kserve
from tests.laps import within

from .http_rig import HANG, Client, Pipeline, ask, head, services, serving

pytestmark = pytest.mark.anyio
CAP = 100_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Chunks:
    """The bytes of a streamed answer, by a script like that of `Frames`."""

    script: list[Any]
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    closings: int = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self.script:
            raise StopAsyncIteration
        step = self.script.pop(0)
        if step is HANG:
            await asyncio.Event().wait()
        if isinstance(step, Exception):
            raise step
        chunk: bytes = step
        return chunk

    async def deliver(self, receiver: Receiver[bytes]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        await asyncio.sleep(0)  # as a real one does
        self.closings += 1
        self.closed.set()


@dataclass
class Rig:
    port: int
    pipeline: Pipeline
    chunks: Chunks
    work: Callable[[], Any]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    pipeline, chunks = Pipeline(), Chunks([])
    given = services(pipeline, max_body_bytes=CAP, default_latency_budget_ms=400)
    found = Rig(0, pipeline, chunks, lambda: None)

    async def echo(request: Request) -> Response:
        body = await read_body(request_exchange(request), given.limits, None)
        told = json.dumps({"size": len(body), "late": request.headers.get("x-late")})
        return Response(told)

    async def stream(request: Request) -> Response:
        await read_body(request_exchange(request), given.limits, None)
        return ClosingResponse(found.chunks, 202, {"X-Told": "yes"}, stall_s=0.3)

    async def slow(request: Request) -> Response:
        await read_body(request_exchange(request), given.limits, None)
        await found.work()
        return Response("done")

    async def broken(request: Request) -> Response:
        secret = "4111111111111111"
        raise RuntimeError(secret)

    def told(error: GatewayError, arrival: RequestContext) -> Response:
        return Response(f"ops: {error.message}", error.http_status)

    ops = [
        Route("/echo", echo, methods=["POST"]),
        Route("/stream", stream, methods=["POST"]),
        Route("/slow", slow, methods=["POST"]),
        Route("/broken", broken, methods=["POST"]),
    ]
    app = App(given, [kserve.front(given), Front("", "ops", ops, told)])
    async with serving(app) as found.port:
        yield found


def size(body: bytes) -> int:
    return int(json.loads(body)["size"])


# Bodies


async def test_a_body_arrives_whole(rig: Rig) -> None:
    answer = await ask(rig.port, "POST", "/echo", b"x" * CAP)
    assert (answer.status, size(answer.body)) == (200, CAP)


@pytest.mark.parametrize("wbits", [31, 15])
async def test_a_compressed_body_arrives_whole(rig: Rig, wbits: int) -> None:
    stream = zlib.compressobj(wbits=wbits)
    body = stream.compress(b"x" * CAP) + stream.flush()
    coding = [("Content-Encoding", "gzip" if wbits == 31 else "Deflate")]
    answer = await ask(rig.port, "POST", "/echo", body, coding)
    assert (answer.status, size(answer.body)) == (200, CAP)


@pytest.mark.parametrize(
    ("body", "coding", "status", "words"),
    [
        (b"x", "br", 415, "send gzip, deflate"),
        (b"x", "gzip, gzip", 415, "send gzip, deflate"),
        (b"x", "gzip", 400, "not gzip"),
        (b"{", "deflate", 400, "not deflate"),
        (b"\x1f", "gzip", 400, "ends before"),
        (b"\x78", "deflate", 400, "ends before"),
        (zlib.compress(b"x"), "gzip", 400, "not gzip"),
        (gzip.compress(b"x", mtime=0), "deflate", 400, "not deflate"),
        (b"", "gzip", 400, "ends before"),
        (gzip.compress(b"x" * 99, mtime=0)[:-1], "gzip", 400, "ends before"),
        (gzip.compress(b"x", mtime=0) + b"y", "gzip", 400, "goes on after"),
        (gzip.compress(b"x", mtime=0) * 2, "gzip", 400, "goes on after"),
        (gzip.compress(b"x" * (CAP + 1), mtime=0), "gzip", 413, "inflates to more than"),
        (b"x" * (CAP + 1), "identity", 413, "has more than"),
    ],
)
async def test_a_bad_body_is_refused(
    rig: Rig, body: bytes, coding: str, status: int, words: str
) -> None:
    answer = await ask(rig.port, "POST", "/echo", body, [("Content-Encoding", coding)])
    assert answer.status == status
    assert words in answer.body.decode()


async def test_a_bomb_costs_bounded_memory(rig: Rig) -> None:
    stream = zlib.compressobj(9, wbits=31)
    bomb = b"".join(stream.compress(bytes(1 << 20)) for _ in range(64)) + stream.flush()
    assert len(bomb) < CAP
    tracemalloc.start()
    answer = await ask(rig.port, "POST", "/echo", bomb, [("Content-Encoding", "gzip")])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status == 413
    assert peak < 4 * 1024 * 1024


async def test_an_endless_chunked_body_is_cut_off(rig: Rig) -> None:
    client = await Client.to(rig.port)
    await client.send(head("POST", "/echo", [("Transfer-Encoding", "chunked")]))
    for _ in range(3):
        await client.send(b"c350\r\n" + b"x" * 50_000 + b"\r\n")
    answer = await asyncio.wait_for(client.answer(), 3)
    assert answer.status == 413
    assert answer.headers["connection"] == "close"
    client.close()


async def test_a_body_announced_too_large_is_refused_while_it_comes(rig: Rig) -> None:
    """The answer is readable although the client is still sending, and then the server closes."""
    client = await Client.to(rig.port)
    await client.send(head("POST", "/echo", length=1 << 40))
    for _ in range(20):
        await client.send(b"x" * 65536)
    answer = await asyncio.wait_for(client.answer(), 3)
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert await asyncio.wait_for(client.reader.read(), 3) == b""
    client.close()


async def test_a_body_that_trickles_costs_the_budget(rig: Rig) -> None:
    for lap in within(0.2):
        client = await Client.to(rig.port)
        lap.begins()
        await client.send(head("POST", "/echo", [("x-latency-budget-ms", "150")], length=10) + b"x")
        answer = await asyncio.wait_for(client.answer(), 3)
        lap.ends()
        assert answer.status == 504
        client.close()


async def test_trailers_do_not_become_headers(rig: Rig) -> None:
    client = await Client.to(rig.port)
    await client.send(
        head("POST", "/echo", [("Transfer-Encoding", "chunked")])
        + b"1\r\nx\r\n0\r\nx-late: yes\r\n\r\n"
    )
    assert json.loads((await client.answer()).body) == {"size": 1, "late": None}
    client.close()


async def test_a_connection_serves_again_after_a_refusal(rig: Rig) -> None:
    client = await Client.to(rig.port)
    for _ in range(2):
        assert (await client.ask("POST", "/nowhere", b"unread")).status == 404
        assert (await client.ask("POST", "/echo", b"abc")).status == 200
    client.close()


# Leaving


async def test_a_caller_that_leaves_cancels_its_call(rig: Rig) -> None:
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    rig.work = work
    for lap in within(0.1):
        asked.clear()
        cancelled.clear()
        client = await Client.to(rig.port)
        await client.send(head("POST", "/slow", length=2) + b"{}")
        await asyncio.wait_for(asked.wait(), 5)
        lap.begins()
        client.close()
        await asyncio.wait_for(cancelled.wait(), 5)
        lap.ends()


async def test_a_caller_that_stays_is_not_disturbed(rig: Rig) -> None:
    async def work() -> None:
        await asyncio.sleep(0.05)

    rig.work = work
    client = await Client.to(rig.port)
    for _ in range(3):
        assert (await client.ask("POST", "/slow", b"{}")).body == b"done"
    client.close()


async def test_a_second_request_on_the_line_disturbs_nobody(rig: Rig) -> None:
    async def work() -> None:
        await asyncio.sleep(0.05)

    rig.work = work
    client = await Client.to(rig.port)
    await client.send((head("POST", "/slow", length=2) + b"{}") * 2)
    assert (await client.answer()).body == b"done"
    assert (await client.answer()).body == b"done"
    client.close()


# Streams


async def test_a_stream_is_sent_and_closed(rig: Rig) -> None:
    rig.chunks.script = [b"a", b"", b"bc"]
    answer = await ask(rig.port, "POST", "/stream", b"{}")
    assert (answer.status, answer.headers["x-told"], answer.body) == (202, "yes", b"abc")
    await asyncio.wait_for(rig.chunks.closed.wait(), 5)
    assert rig.chunks.closings == 1


@pytest.mark.parametrize("script", [[HANG], [b"a", HANG]])
async def test_a_stream_is_closed_when_its_caller_leaves(rig: Rig, script: list[Any]) -> None:
    for lap in within(0.1):
        rig.chunks.script = list(script)
        rig.chunks.closed.clear()
        client = await Client.to(rig.port)
        await client.send(head("POST", "/stream", length=2) + b"{}")
        await client.head()
        lap.begins()
        client.close()
        await asyncio.wait_for(rig.chunks.closed.wait(), 5)
        lap.ends()


async def test_a_stream_is_closed_when_its_caller_left_before_it_began(rig: Rig) -> None:
    for lap in within(0.2):
        rig.chunks.script = [b"a", HANG]
        rig.chunks.closed.clear()
        client = await Client.to(rig.port)
        await client.send(head("POST", "/stream", length=2) + b"{}")
        lap.begins()
        client.writer.transport.abort()
        await asyncio.wait_for(rig.chunks.closed.wait(), 5)
        lap.ends()


async def test_a_stream_that_breaks_has_no_end(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.chunks.script = [b"a", RuntimeError("4111111111111111")]
    client = await Client.to(rig.port)
    with caplog.at_level(logging.DEBUG):
        await client.send(head("POST", "/stream", length=2) + b"{}")
        await client.head()
        rest = await asyncio.wait_for(client.reader.read(), 1)
    assert rest == b"1\r\na\r\n"  # and not the chunk that ends a body
    assert rig.chunks.closed.is_set()
    assert "4111111111111111" not in caplog.text
    client.close()


async def test_a_caller_that_reads_nothing_is_cut_off(rig: Rig) -> None:
    rig.chunks.script = [bytes(1 << 20)] * 64
    client = await Client.to(rig.port)
    await client.send(head("POST", "/stream", length=2) + b"{}")
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.wait_for(rig.chunks.closed.wait(), 2)
    assert rig.chunks.script  # not all of it was taken into memory
    client.close()


# What no route answers


@pytest.mark.parametrize(
    ("method", "path", "status", "v2"),
    [
        ("GET", "/v2/nowhere", 404, True),
        ("POST", "/v2/models/simple", 405, True),
        ("GET", "/v2/models/simple/infer", 405, True),
        ("DELETE", "/v2/models/simple/infer", 405, True),
        ("GET", "/v2/models/simple/generate", 405, True),
        ("GET", "/v2x", 404, False),
        ("GET", "/", 404, False),
        ("GET", "/echo", 405, False),
        ("POST", "/http://127.0.0.1:1/", 404, False),
        ("TRACE", "/echo", 405, False),
    ],
)
async def test_unknown_routes_and_methods_end_here_in_their_protocols_shape(
    rig: Rig, method: str, path: str, status: int, v2: bool
) -> None:
    answer = await ask(rig.port, method, path)
    assert answer.status == status
    assert ("allow" in answer.headers) == (status == 405)
    if v2:
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-spillway-reason"] in ("unknown_route", "method_not_allowed")
        assert answer.error
    else:
        assert answer.body.startswith(b"ops: ")
    assert rig.pipeline.seen == []


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/v2/models/simple", "GET, HEAD"),
        ("GET", "/v2/models/simple/infer", "POST"),
        ("GET", "/echo", "POST"),
        ("TRACE", "/echo", "GET, HEAD, POST"),
    ],
)
async def test_a_405_says_which_methods_there_are(
    rig: Rig, method: str, path: str, allowed: str
) -> None:
    assert (await ask(rig.port, method, path)).headers["allow"] == allowed


async def test_a_bug_is_a_500_without_content(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answer = await ask(rig.port, "POST", "/broken", b"{}")
    assert (answer.status, answer.body) == (500, b"ops: internal error")
    assert "RuntimeError" in caplog.text
    assert "4111111111111111" not in caplog.text


@pytest.mark.parametrize("given", [None, "7F1C2D9E-0000-4000-8000-00000000abcd", "not an id"])
@pytest.mark.parametrize("failure", [RuntimeError("a bug"), Saturated("full")])
async def test_a_failure_is_told_under_the_id_that_its_call_had(
    rig: Rig, given: str | None, failure: Exception
) -> None:
    rig.pipeline.error = failure
    headers = [] if given is None else [("x-request-id", given)]
    answer = await ask(rig.port, "POST", "/v2/models/simple/infer", b'{"inputs":[]}', headers)
    assert answer.status == (429 if isinstance(failure, Saturated) else 500)
    (request,) = rig.pipeline.seen
    assert answer.headers["x-request-id"] == request.id
    assert answer.headers["traceparent"] == request.traceparent
    if given and "-" in given:
        assert request.id == given.lower()


@pytest.fixture(autouse=True)
def logs_reach_the_test() -> Iterator[None]:
    logger = logging.getLogger("uvicorn.error")
    before, logger.disabled = logger.disabled, False
    yield
    logger.disabled = before
