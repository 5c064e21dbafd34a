"""Who may hear a call, and who is listened to: real sockets, real certificates."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.cluster import Say, certificates
from gateway.cluster.links import CALL, STATE, TlsLink
from gateway.cluster.listener import Listener
from gateway.cluster.messages import Kind, Messages, pack
from gateway.config import ClusterSettings, ConfigError, PeerSettings
from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, UpstreamFailed, UpstreamUnreachable
from tests.unit.cluster.authority import Authority

pytestmark = pytest.mark.anyio

MOST_BYTES = 100_000
SECRET = b"4111 1111 1111 1111"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    found = Authority(tmp_path_factory.mktemp("authority"))
    for name in ("east", "west", "south"):
        found.issue(name)
    return found


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    found = Authority(tmp_path_factory.mktemp("stranger"), "stranger")
    for name in ("east", "west"):
        found.issue(name)
    return found


def settings(own: str, shown: Authority, trusted: Authority) -> ClusterSettings:
    where = shown.ca.parent
    return ClusterSettings.model_validate(
        {
            "self": own,
            "cert_file": where / f"{own}.pem",
            "key_file": where / f"{own}.key",
            "ca_file": trusted.ca,
            "gateways": {n: {"url": "https://127.0.0.1:1"} for n in ("east", "west", "south")},
        }
    )


@dataclass
class Heard:
    """Answers peers as it is told, and remembers all that it was sent."""

    said: list[tuple[str, bytes]] = field(default_factory=list)
    then: Callable[[Say], Awaitable[None]] | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def state(self, peer: str, state: bytes) -> bytes:
        self.said.append((peer, state))
        return b"{}"

    async def answer(self, peer: str, message: bytes, say: Say) -> None:
        self.said.append((peer, message))
        try:
            if self.then is not None:
                await self.then(say)
            await say(pack(Kind.END))
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@dataclass
class Both:
    heard: Heard
    link: TlsLink
    port: int
    listener: Listener


@asynccontextmanager
async def connected(
    authority: Authority,
    *,
    client: str = "west",
    server: str = "east",
    shown: Authority | None = None,
    server_shown: Authority | None = None,
) -> AsyncIterator[Both]:
    """`client` calls what it takes for `east`, which listens to `west` alone."""
    heard = Heard()
    told = settings(server, server_shown or authority, authority)
    listener = Listener(heard, frozenset({"west"}), certificates.server_context(told), MOST_BYTES)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    await listener.start(listening)
    link = link_to(port, authority, client=client, shown=shown)
    try:
        yield Both(heard, link, port, listener)
    finally:
        await link.aclose()
        await listener.aclose()


def link_to(
    port: int, authority: Authority, *, client: str = "west", shown: Authority | None = None
) -> TlsLink:
    return TlsLink(
        "east",
        PeerSettings(url=f"https://127.0.0.1:{port}"),
        lambda: certificates.client_context(settings(client, shown or authority, authority)),
        connect_timeout_s=2.0,
        max_connections=4,
    )


def soon() -> Deadline:
    return Deadline.after(3.0)


async def forwarded(link: TlsLink, message: bytes = SECRET) -> list[tuple[Kind, bytes]]:
    answers = await link.forward([message], soon(), repeatable=True)
    messages, found = Messages(answers), []
    try:
        while (one := await messages.next()) is not None:
            found.append(one)
    finally:
        answers.close()
    return found


async def test_a_peer_with_its_certificate_is_heard_under_its_name(authority: Authority) -> None:
    async with connected(authority) as both:
        assert await both.link.state(b"hello", soon()) == b"{}"
        assert await forwarded(both.link) == [(Kind.END, b"")]
        assert both.heard.said == [("west", b"hello"), ("west", SECRET)]


async def test_calls_one_after_the_other_go_over_one_connection(authority: Authority) -> None:
    async with connected(authority) as both:
        for _ in range(5):
            await forwarded(both.link)
        assert len(both.listener.connections) == 1


@pytest.mark.parametrize(
    ("client", "by_stranger"),
    [
        pytest.param("west", True, id="of-another-authority"),
        pytest.param("south", False, id="of-a-gateway-that-is-no-peer"),
        pytest.param("east", False, id="in-the-listeners-own-name"),
    ],
)
async def test_nobody_else_is_heard(
    authority: Authority, stranger: Authority, client: str, by_stranger: bool
) -> None:
    shown = stranger if by_stranger else authority
    async with connected(authority, client=client, shown=shown) as both:
        with pytest.raises(UpstreamUnreachable):
            await both.link.state(b"hello", soon())
        with pytest.raises(UpstreamUnreachable):
            await forwarded(both.link)
        assert both.heard.said == []


async def test_tls_itself_asks_both_sides_for_a_certificate(authority: Authority) -> None:
    told = settings("east", authority, authority)
    server, client = certificates.server_context(told), certificates.client_context(told)
    assert server.verify_mode is client.verify_mode is ssl.CERT_REQUIRED
    assert client.check_hostname
    assert {server.minimum_version, client.minimum_version} == {ssl.TLSVersion.TLSv1_3}


async def test_nobody_is_heard_without_a_certificate(authority: Authority) -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(str(authority.ca))
    async with connected(authority) as both:
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", both.port, ssl=bare, server_hostname="east"
            )
            writer.write(b"POST %b HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}" % STATE.encode())
            got = await reader.read(1000)
            writer.close()
        except OSError:
            got = b""
        assert got == b""
        assert both.heard.said == []


@pytest.mark.parametrize(
    ("server", "by_stranger"),
    [
        pytest.param("east", True, id="of-another-authority"),
        pytest.param("south", False, id="of-another-gateway"),
    ],
)
async def test_no_byte_of_a_call_goes_to_who_is_not_the_peer(
    authority: Authority, stranger: Authority, server: str, by_stranger: bool
) -> None:
    """Whoever listens at the peer's address: without the peer's own name it hears nothing."""
    shown = stranger if by_stranger else authority
    async with connected(authority, server=server, server_shown=shown) as both:
        with pytest.raises(UpstreamUnreachable):
            await forwarded(both.link)
        assert both.heard.said == []


async def test_no_byte_of_a_call_goes_to_a_server_without_tls(authority: Authority) -> None:
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read(100_000))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    link = link_to(server.sockets[0].getsockname()[1], authority)
    with pytest.raises(UpstreamUnreachable):
        await forwarded(link)
    server.close()
    assert heard
    assert SECRET not in heard
    assert b"POST" not in heard


async def test_a_redirect_is_not_followed(authority: Authority) -> None:
    """Even of a peer: its answer is no answer then."""
    asked: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 307 Temporary Redirect\r\nlocation: https://127.0.0.1:1/\r\n"
            b"content-length: 0\r\n\r\n"
        )
        await writer.drain()
        writer.close()

    tls = certificates.server_context(settings("east", authority, authority))
    server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=tls)
    link = link_to(server.sockets[0].getsockname()[1], authority)
    with pytest.raises(UpstreamFailed):
        await forwarded(link)
    with pytest.raises(UpstreamFailed):
        await link.state(b"", soon())
    await link.aclose()
    server.close()
    assert len(asked) == 2


async def test_no_proxy_of_the_environment_is_used(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with connected(authority) as both:
        assert await forwarded(both.link) == [(Kind.END, b"")]


async def test_who_closes_a_call_ends_it_over_there(authority: Authority) -> None:
    async with connected(authority) as both:

        async def for_ever(say: Say) -> None:
            await say(pack(Kind.JSON, b"1"))
            await asyncio.Event().wait()

        both.heard.then = for_ever
        answers = await both.link.forward([SECRET], soon(), repeatable=True)
        assert await Messages(answers).next() == (Kind.JSON, b"1")
        answers.close()
        async with asyncio.timeout(1.0):
            await both.heard.cancelled.wait()


async def test_a_peer_that_is_given_up_breaks_off_everything_at_once(authority: Authority) -> None:
    async with connected(authority) as both:
        arrived = asyncio.Event()

        async def silent(say: Say) -> None:
            arrived.set()
            await asyncio.Event().wait()

        both.heard.then = silent
        waiting = asyncio.create_task(both.link.forward([SECRET], soon(), repeatable=True))
        await arrived.wait()
        both.link.cut()
        async with asyncio.timeout(1.0):
            with pytest.raises(UpstreamUnreachable):
                await waiting
        both.heard.then = None
        assert await forwarded(both.link) == [(Kind.END, b"")]  # it may be tried anew


async def test_who_reads_an_answer_of_a_peer_that_is_given_up_is_told_at_once(
    authority: Authority,
) -> None:
    async with connected(authority) as both:

        async def stops(say: Say) -> None:
            await say(pack(Kind.JSON, b"1"))
            await asyncio.Event().wait()

        both.heard.then = stops
        messages = Messages(await both.link.forward([SECRET], soon(), repeatable=True))
        assert await messages.next() == (Kind.JSON, b"1")
        reading = asyncio.create_task(messages.next())
        await asyncio.sleep(0)
        both.link.cut()
        async with asyncio.timeout(1.0):
            with pytest.raises(UpstreamUnreachable):
                await reading


async def test_who_is_still_being_connected_to_a_peer_that_is_given_up_is_told_at_once(
    authority: Authority,
) -> None:
    """A stopped process takes connections: its kernel does."""
    accepted = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    link = link_to(server.sockets[0].getsockname()[1], authority)
    waiting = asyncio.create_task(link.forward([SECRET], soon(), repeatable=True))
    await accepted.wait()
    link.cut()
    async with asyncio.timeout(1.0):
        with pytest.raises(UpstreamUnreachable):
            await waiting
    server.close()


async def test_a_silent_peer_costs_no_more_than_the_deadline(authority: Authority) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    link = link_to(server.sockets[0].getsockname()[1], authority)
    with pytest.raises((DeadlineExceeded, UpstreamUnreachable)):
        await asyncio.wait_for(link.state(b"", Deadline.after(0.2)), 60)
    await link.aclose()
    server.close()


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET %b HTTP/1.1\r\n\r\n" % STATE.encode(),
        b"POST /metrics HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
        b"POST %b HTTP/1.1\r\nx: %b\r\n\r\n" % (CALL.encode(), b"y" * 20_000),
        b"POST %b HTTP/1.1\r\ncontent-length: 200000\r\n\r\n%b" % (CALL.encode(), b"y" * 200_000),
        b"nonsense\r\n\r\n",
    ],
    ids=["another-method", "another-path", "a-large-head", "a-large-body", "no-http"],
)
async def test_a_peer_is_offered_nothing_but_the_two_routes(
    authority: Authority, request_head: bytes
) -> None:
    tls = certificates.client_context(settings("west", authority, authority))
    async with connected(authority) as both:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", both.port, ssl=tls, server_hostname="east"
        )
        writer.write(request_head)
        try:
            answer = await reader.read()
        except OSError:
            answer = b"HTTP/1.1 400 "
        writer.close()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert both.heard.said == []


async def test_a_long_answer_waits_for_who_reads_it(authority: Authority) -> None:
    """The listener holds no more of a stream than its peer has room for."""
    sent = 0
    async with connected(authority) as both:

        async def pour(say: Say) -> None:
            nonlocal sent
            for _ in range(400):
                await say(pack(Kind.JSON, bytes(64 * 1024)))
                sent += 1

        both.heard.then = pour
        answers = await both.link.forward([SECRET], Deadline.after(20.0), repeatable=True)
        messages = Messages(answers)
        assert await messages.next() is not None
        await asyncio.sleep(0.3)
        assert sent < 300
        kinds = [Kind.JSON]
        while (one := await messages.next()) is not None:
            kinds.append(one[0])
        answers.close()
        assert kinds == [Kind.JSON] * 400 + [Kind.END]


def test_files_that_are_no_certificates_are_told_with_their_key(
    authority: Authority, tmp_path: Path
) -> None:
    good = settings("east", authority, authority)
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for key, told in (("ca_file", "cluster.ca_file"), ("cert_file", "cluster.cert_file")):
        with pytest.raises(ConfigError, match=told):
            certificates.server_context(good.model_copy(update={key: empty}))
