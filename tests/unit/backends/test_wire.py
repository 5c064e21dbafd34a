"""The lean HTTP client against servers that do what they are told, on real sockets."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest

from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, GatewayError, UpstreamFailed, UpstreamUnreachable
from gateway.protocols.http_client.origin import Origin, trusting
from gateway.protocols.http_client.wire import ConnectionPool, WireAnswer, WireRequest
from tests.laps import within
from tests.unit.backends.wire_rig import Peer, answer, serving

pytestmark = pytest.mark.anyio

GET = WireRequest("GET", "/x")


async def echoing(peer: Peer) -> None:
    while True:
        await peer.say(answer(await peer.request()))


def soon(seconds: float = 5.0) -> Deadline:
    return Deadline.after(seconds)


async def fetch(
    wire: ConnectionPool, request: WireRequest = GET, seconds: float = 5.0
) -> WireAnswer:
    return await wire.fetch(request, soon(seconds))


async def test_a_request_goes_out_as_built_and_nothing_else() -> None:
    async with serving(echoing) as (server, wire):
        request = WireRequest(
            "POST", "/v2/models/a%2Fb/infer", ((b"content-type", b"x"),), (b"12", b"345")
        )
        found = await fetch(wire, request)
        assert found.body == (
            b"POST /v2/models/a%%2Fb/infer HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n"
            b"content-type: x\r\ncontent-length: 5\r\n\r\n12345" % server.port
        )
        assert found.status == 200


async def test_connections_are_kept_and_bounded() -> None:
    async with serving(echoing, max_connections=3) as (server, wire):
        for _ in range(5):
            await fetch(wire)
        assert server.accepted == 1
        await asyncio.gather(*(fetch(wire) for _ in range(50)))
        assert server.accepted == 3


async def test_a_wait_for_a_connection_ends_with_the_deadline() -> None:
    async def hang(peer: Peer) -> None:
        await peer.gone()

    async with serving(hang, max_connections=1) as (_, wire):
        first = asyncio.create_task(fetch(wire, seconds=10.0))
        await asyncio.sleep(0.05)
        for lap in within(0.25):
            with pytest.raises(DeadlineExceeded):
                await fetch(wire, seconds=0.2)
            lap.ends()
        first.cancel()
        await asyncio.wait([first])


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

ANSWERS = [
    (answer(b""), 200, b""),
    (answer(b"no", b"404 Not Found"), 404, b"no"),
    (
        answer(b"moved", b"307 Temporary Redirect", b"location: http://127.0.0.1:1/\r\n"),
        307,
        b"moved",
    ),
    (CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 200, b"abc"),
    (CHUNKED + b"2\r\nab\r\n0\r\nx-late: 1\r\n\r\n", 200, b"ab"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    (b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"after"), 200, b"after"),
    (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + answer(b"after"), 200, b"after"),
]


@pytest.mark.parametrize(("sent", "status", "body"), ANSWERS)
@pytest.mark.parametrize("piece", [1, 7, 1000])
async def test_answers_are_read_however_they_arrive(
    sent: bytes, status: int, body: bytes, piece: int
) -> None:
    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            for at in range(0, len(sent), piece):
                await peer.say(sent[at : at + piece])
                await asyncio.sleep(0)

    async with serving(play) as (server, wire):
        for _ in range(2):
            found = await fetch(wire)
            assert (found.status, found.body) == (status, body)
            assert b"x-late" not in found.headers
        assert server.accepted == 1


async def test_an_answer_without_length_ends_with_its_connection() -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\n\r\nall of it")

    async with serving(play) as (server, wire):
        assert (await fetch(wire)).body == b"all of it"
        assert (await fetch(wire)).body == b"all of it"
        assert server.accepted == 2


NONSENSE = [
    b"SSH-2.0-OpenSSH\r\n",
    b"HTTP/1.1 banana\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    CHUNKED + b"zz\r\n",
    b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000,
    answer(b"xx", extra=b"content-encoding: gzip\r\n"),
    answer(bytes(2000)),
    CHUNKED + b"800\r\n" + bytes(2048) + b"\r\n0\r\n\r\n",
]


@pytest.mark.parametrize("sent", NONSENSE)
async def test_nonsense_and_floods_are_the_endpoints_failure(sent: bytes) -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(sent)
        await peer.gone()

    async with serving(play, max_body_bytes=1000) as (_, wire):
        with pytest.raises(UpstreamFailed):
            await fetch(wire)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc",
        CHUNKED + b"5\r\nab",
    ],
)
async def test_a_connection_that_breaks_is_an_unreachable_endpoint(sent: bytes) -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(sent)

    async with serving(play) as (server, wire):
        with pytest.raises(UpstreamUnreachable):
            await fetch(wire)
        assert server.accepted == 1  # it was a new connection: not tried again


async def dying_on_second(peer: Peer) -> None:
    """The first connection dies when it is used again, as a server's idle limit makes it."""
    await peer.request()
    await peer.say(answer(b"%d" % peer.number))
    await peer.request()
    if peer.number > 1:
        await peer.say(answer(b"%d" % peer.number))


async def test_a_stale_connection_costs_one_more_try() -> None:
    async with serving(dying_on_second) as (server, wire):
        assert (await fetch(wire)).body == b"1"
        assert (await fetch(wire)).body == b"2"
        assert server.accepted == 2
        assert len(server.heads) == 3


async def test_what_must_not_go_twice_does_not() -> None:
    async with serving(dying_on_second) as (server, wire):
        await fetch(wire)
        with pytest.raises(UpstreamUnreachable):
            await fetch(wire, WireRequest("POST", "/x", repeatable=False))
        assert server.accepted == 1


async def test_a_half_given_answer_is_not_asked_for_again() -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer(b"1"))
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\n")

    async with serving(play) as (server, wire):
        await fetch(wire)
        with pytest.raises(UpstreamUnreachable):
            await fetch(wire)
        assert server.accepted == 1


async def test_the_second_try_is_the_last() -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        if peer.number == 1:
            await peer.say(answer(b"1"))
            await peer.request()

    async with serving(play) as (server, wire):
        await fetch(wire)
        with pytest.raises(UpstreamUnreachable):
            await fetch(wire)
        assert server.accepted == 2


@pytest.mark.parametrize("surplus", [answer(b"evil"), b"x", b"HTTP/1.1 200 OK\r\n"])
async def test_an_answer_that_nobody_asked_for_reaches_nobody(surplus: bytes) -> None:
    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(answer(b"right") + surplus)

    async def later(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(answer(b"right"))
            await asyncio.sleep(0.02)
            await peer.say(surplus)

    for script in (play, later):
        async with serving(script) as (server, wire):
            for n in range(1, 4):
                assert (await fetch(wire)).body == b"right"
                await asyncio.sleep(0.05)
                assert server.accepted == n


async def test_a_connection_that_the_server_ends_is_not_kept() -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer(b"bye", extra=b"connection: close\r\n"))
        await peer.gone()

    async with serving(play) as (server, wire):
        await fetch(wire)
        await fetch(wire)
        assert server.accepted == 2


async def test_an_idle_connection_grows_old() -> None:
    async with serving(echoing, max_idle_s=0.05) as (server, wire):
        await fetch(wire)
        await asyncio.sleep(0.1)
        await fetch(wire)
        assert server.accepted == 2


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"])
async def test_a_hung_server_costs_the_deadline_and_no_more(said: bytes) -> None:
    closed = asyncio.Event()

    async def hang(peer: Peer) -> None:
        await peer.request()
        await peer.say(said)
        await peer.gone()
        closed.set()

    async with serving(hang) as (_, wire):
        for lap in within(0.25):
            closed.clear()
            lap.begins()
            with pytest.raises(DeadlineExceeded):
                await fetch(wire, seconds=0.2)
            await asyncio.wait_for(closed.wait(), 5)
            lap.ends()


async def test_a_cancelled_call_closes_its_connection_at_once() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def hang(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.gone()
        closed.set()

    async with serving(hang, max_connections=1) as (_, wire):
        for _ in range(3):  # and gives its place back
            for lap in within(0.1):
                asked.clear()
                closed.clear()
                task = asyncio.create_task(fetch(wire))
                await asyncio.wait_for(asked.wait(), 5)
                lap.begins()
                task.cancel()
                await asyncio.wait_for(closed.wait(), 5)
                lap.ends()
                with pytest.raises(asyncio.CancelledError):
                    await task


async def test_nobody_listening_is_an_unreachable_endpoint() -> None:
    async with serving(echoing) as (server, _):
        port = server.port
    wire = ConnectionPool(Origin.from_url(f"http://127.0.0.1:{port}"), connect_timeout_s=1)
    with pytest.raises(UpstreamUnreachable):
        await fetch(wire)


@pytest.mark.parametrize(
    ("connect_timeout_s", "deadline_s", "error"),
    [(5.0, 0.2, DeadlineExceeded), (0.2, 5.0, UpstreamUnreachable)],
)
async def test_a_handshake_that_never_comes_costs_no_more_than_the_call_has(
    connect_timeout_s: float, deadline_s: float, error: type[GatewayError]
) -> None:
    """A stopped server takes connections: its kernel does."""

    async def silent(peer: Peer) -> None:
        await peer.gone()

    async with serving(silent) as (server, _):
        origin = Origin.from_url(f"https://127.0.0.1:{server.port}")
        wire = ConnectionPool(origin, connect_timeout_s=connect_timeout_s)
        for lap in within(0.25):
            with pytest.raises(error):
                await fetch(wire, seconds=deadline_s)
            lap.ends()
        await wire.aclose()


async def test_a_deadline_that_has_passed_sends_nothing() -> None:
    async with serving(echoing) as (server, wire):
        with pytest.raises(DeadlineExceeded):
            await fetch(wire, seconds=-1)
        assert server.accepted == 0


async def test_a_closed_wire_ends_what_is_under_way() -> None:
    async def hang(peer: Peer) -> None:
        await peer.gone()

    async with serving(hang) as (_, wire):
        task = asyncio.create_task(fetch(wire))
        await asyncio.sleep(0.05)
        await wire.aclose()
        with pytest.raises(UpstreamUnreachable):
            await task
        with pytest.raises(UpstreamUnreachable):
            await fetch(wire)


async def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(echoing) as (proxy, _), serving(echoing) as (server, wire):
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", "")
        await fetch(wire)
        assert (proxy.accepted, server.accepted) == (0, 1)


@pytest.mark.parametrize(
    "request_",
    [
        WireRequest("GET", "/x\r\nevil: 1"),
        WireRequest("GET", "/x y"),
        WireRequest("GET", "x"),
        WireRequest("GET /", "/x"),
        WireRequest("DELETE", "/x"),
        WireRequest("GET", "/x", ((b"a", b"b\r\nevil: 1"),)),
        WireRequest("GET", "/x", ((b"a", b"b\nevil: 1"),)),
        WireRequest("GET", "/x", ((b"a", b"b\x00"),)),
        WireRequest("GET", "/x", ((b"a: b\r\nevil", b"1"),)),
        WireRequest("GET", "/x", ((b"a b", b"1"),)),
        WireRequest("GET", "/x", ((b"Content-Length", b"9"),)),
        WireRequest("GET", "/x", ((b"transfer-encoding", b"chunked"),)),
        WireRequest("GET", "/x", ((b"host", b"evil"),)),
    ],
)
async def test_a_head_cannot_become_two(request_: WireRequest) -> None:
    async with serving(echoing) as (server, wire):
        with pytest.raises(ValueError, match="not a"):
            await fetch(wire, request_)
        assert server.accepted == 0


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "http://a:b@x", "http://x/?q=1", "http://x/#f", "//x"]
)
async def test_an_origin_is_a_plain_base_url(url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        Origin.from_url(url)


async def test_origins_have_their_usual_ports_and_paths() -> None:
    assert Origin.from_url("http://h/base/") == Origin("h", 80, None, "/base")
    assert Origin.from_url("https://h").port == 443
    assert Origin.from_url("http://[::1]:8000").authority == b"[::1]:8000"
    assert Origin.from_url("http://h:80").authority == b"h"


# Streams


async def test_a_stream_gives_chunks_as_they_come() -> None:
    more = asyncio.Event()

    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(CHUNKED + b"1\r\na\r\n")
            await more.wait()
            await peer.say(b"1\r\nb\r\n0\r\n\r\n")

    async with serving(play) as (server, wire):
        for _ in range(2):
            more.clear()
            stream = await wire.stream(GET, soon())
            assert await anext(stream) == b"a"
            more.set()
            assert [chunk async for chunk in stream] == [b"b"]
            await stream.aclose()
        assert server.accepted == 1


@pytest.mark.parametrize("read_first", [False, True])
async def test_closing_a_stream_closes_its_connection_at_once(read_first: bool) -> None:
    closed = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED + b"1\r\na\r\n")
        await peer.gone()
        closed.set()

    async with serving(play, max_connections=1) as (_, wire):
        for _ in range(2):
            for lap in within(0.1):
                closed.clear()
                stream = await wire.stream(GET, soon())
                if read_first:
                    await anext(stream)
                lap.begins()
                await stream.aclose()
                await stream.aclose()
                await asyncio.wait_for(closed.wait(), 5)
                lap.ends()
                with pytest.raises(StopAsyncIteration):
                    await anext(stream)


@pytest.mark.parametrize(
    ("then", "error"),
    [(None, UpstreamUnreachable), (b"zz\r\n", UpstreamFailed), (b"", DeadlineExceeded)],
)
async def test_a_stream_that_fails_says_how(then: bytes | None, error: type[GatewayError]) -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED + b"1\r\na\r\n")
        if then is not None:
            await asyncio.sleep(0.02)
            await peer.say(then)
            await peer.gone()

    async with serving(play, max_connections=1) as (_, wire):
        stream = await wire.stream(GET, soon(0.3))
        assert await anext(stream) == b"a"
        with pytest.raises(error):
            await anext(stream)
        # its place is free again
        again = await wire.stream(GET, soon(0.3))
        await again.aclose()


async def test_a_stream_that_nobody_reads_holds_the_server_back() -> None:
    sent = 0

    async def play(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n")
        for _ in range(1000):
            await peer.say(bytes(100_000))
            sent += 100_000
        await peer.gone()

    async with serving(play) as (_, wire):
        stream = await wire.stream(GET, soon(20))
        await asyncio.sleep(0.3)
        assert sent < 20_000_000  # what kernel buffers hold, and no more
        size = 0
        async for chunk in stream:
            size += len(chunk)
        assert size == 100_000_000


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    where = tmp_path_factory.mktemp("tls")
    cert, key = where / "cert.pem", where / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def server_side(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def test_tls_is_checked_and_its_keys_are_written_nowhere(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    trusted = trusting(str(certificate[0]))
    async with serving(echoing, server_side(certificate), trusted) as (_, wire):
        assert (await fetch(wire)).status == 200
    async with serving(echoing, server_side(certificate), trusting()) as (server, wire):
        with pytest.raises(UpstreamUnreachable, match="TLS"):
            await fetch(wire)
        assert server.heads == []
    assert not (tmp_path / "keys").exists()
