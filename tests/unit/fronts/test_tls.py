"""TLS on both listeners, over real sockets: what it takes to get in, who is known by a certificate,
and files that change while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from pydantic import SecretStr
from tritonclient.grpc import service_pb2_grpc

from gateway.auth import Callers
from gateway.auth.certificates import ConfiguredCertificates
from gateway.config import CertificateSettings, ConfigError, KeySettings, TenantSettings
from gateway.core.reply import InferenceReply
from gateway.core.types import ONPREM_ONLY, InferenceRequest
from gateway.protocols.http.server import HttpServer
from gateway.protocols.listeners import bound
from gateway.protocols.tls import TlsFiles, listening
from gateway.server.grpc.front import GrpcFront
from gateway.server.http import App
from gateway.server.kserve import front as kserve
from gateway.server.openai import front as openai
from tests.unit.fronts import http_rig
from tests.unit.fronts.every_front import MODEL, TENSOR, answering, catalog
from tests.unit.grpc_rig import OPTIONS, infer_request
from tests.unit.pki import Authority, Pair, client

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]

BILLING = "spiffe://corp.example/billing"
CERTIFICATES = {
    "billing": CertificateSettings(san=BILLING, tenant="billing", requests_per_minute=5),
    "search": CertificateSettings(san="search.corp.example", tenant="search", placement="onprem"),
}
KEYS = {"a": KeySettings(key=SecretStr("first"), tenant="acme")}


@dataclass
class Listeners:
    http_port: int
    grpc_port: int
    seen: list[InferenceRequest]

    async def rest(self, context: ssl.SSLContext, key: str = "") -> int | str:
        """The status of a call, or what the handshake met."""
        try:
            async with connected(self.http_port, context) as wire:
                return (await infer(wire, key)).status
        except (ssl.SSLError, OSError, EOFError) as exc:
            return type(exc).__mro__[-4].__name__ if isinstance(exc, ssl.SSLError) else "lost"

    async def grpc(self, trusts: Authority, shows: Pair | None = None, key: str = "") -> str:
        credentials = grpc.ssl_channel_credentials(
            trusts.file.read_bytes(),
            None if shows is None else shows.key.read_bytes(),
            None if shows is None else shows.cert.read_bytes(),
        )
        target = f"127.0.0.1:{self.grpc_port}"
        async with grpc.aio.secure_channel(target, credentials, options=OPTIONS) as channel:
            stub: Any = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            metadata = (("authorization", f"Bearer {key}"),) if key else ()
            try:
                await stub.ModelInfer(infer_request(MODEL), metadata=metadata, timeout=5)
            except grpc.aio.AioRpcError as error:
                return str(error.code().name)
        return "OK"


@asynccontextmanager
async def connected(port: int, context: ssl.SSLContext) -> AsyncIterator[http_rig.Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield http_rig.Client(reader, writer)
    finally:
        writer.transport.abort()


async def infer(wire: http_rig.Client, key: str = "") -> http_rig.Answer:
    headers = [("content-type", "application/json")]
    headers += [("authorization", f"Bearer {key}")] if key else []
    body = json.dumps({"inputs": [TENSOR]}).encode()
    return await wire.ask("POST", f"/v2/models/{MODEL}/infer", body, headers)


@asynccontextmanager
async def serving(files: TlsFiles, callers: Callers | None = None) -> AsyncIterator[Listeners]:
    seen: list[InferenceRequest] = []

    async def handle(request: InferenceRequest) -> InferenceReply:
        seen.append(request)
        return await answering(request)

    made = http_rig.services(http_rig.Pipeline())
    services = replace(made, handle=handle, callers=callers or Callers({}), catalog=catalog())
    app = App(services, [openai.front(services), kserve.front(services)])
    http, front = (
        HttpServer(app, listening(files)),
        GrpcFront(services, "127.0.0.1", 0, tls=files),
    )
    socket = bound("127.0.0.1", 0)
    await http.start([socket])
    grpc_port = await front.start()
    try:
        yield Listeners(socket.getsockname()[1], grpc_port, seen)
    finally:
        http.stop()
        await asyncio.gather(http.stopped(0.0), front.drain(0))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def other(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "other")


def server(authority: Authority, clients: Authority | None = None) -> TlsFiles:
    pair = authority.issue("127.0.0.1", "localhost")
    asked = None if clients is None else clients.file
    return TlsFiles("listen.tls", pair.cert, pair.key, asked)


async def test_both_listeners_speak_tls_and_nothing_else(
    authority: Authority, other: Authority
) -> None:
    async with serving(server(authority)) as up:
        assert await up.rest(client(authority)) == 200
        assert await up.grpc(authority) == "OK"
        assert await up.rest(client(other)) != 200
        assert await up.grpc(other) == "UNAVAILABLE"
        with pytest.raises((OSError, EOFError)):
            await http_rig.ask(up.http_port, "GET", "/v2/health/live")
        async with grpc.aio.insecure_channel(f"127.0.0.1:{up.grpc_port}") as plain:
            stub: Any = service_pb2_grpc.GRPCInferenceServiceStub(plain)
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.ModelInfer(infer_request(MODEL), timeout=5)
    assert len(up.seen) == 2


@pytest.mark.parametrize(
    ("version", "spoken"),
    [
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
async def test_tls_before_1_2_is_not_spoken(
    authority: Authority, version: ssl.TLSVersion, spoken: bool
) -> None:
    context = client(authority)
    with (
        pytest.warns(DeprecationWarning, match="TLSv1_1")
        if not spoken
        else contextlib.nullcontext()
    ):
        context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")  # so that it is the server that refuses
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with serving(server(authority)) as up:
        for port in (up.http_port, up.grpc_port):
            if spoken:
                async with connected(port, context):
                    continue
            with pytest.raises((ssl.SSLError, OSError)):
                async with connected(port, context):
                    pass


def by_certificate(**keys: KeySettings) -> Callers:
    tenants = {"billing": TenantSettings(profile="strict")}
    return Callers(
        keys, tenants=tenants, certificates=ConfiguredCertificates(CERTIFICATES, tenants)
    )


async def test_who_connects_must_show_a_certificate_of_the_authority(
    authority: Authority, other: Authority
) -> None:
    """And one that somebody else issued in the same name is nothing."""
    right, wrong = authority.issue(BILLING), other.issue(BILLING)
    async with serving(server(authority, authority), by_certificate()) as up:
        assert await up.rest(client(authority, right)) == 200
        assert await up.grpc(authority, right) == "OK"
        for shows in (None, wrong):
            assert await up.rest(client(authority, shows)) != 200
            assert await up.grpc(authority, shows) == "UNAVAILABLE"
    assert [r.tenant for r in up.seen] == ["billing", "billing"]


@pytest.mark.parametrize(
    ("names", "tenant"),
    [
        ((BILLING,), "billing"),
        (("search.corp.example",), "search"),
        (("unknown.corp.example", BILLING), "billing"),
        ((BILLING, "search.corp.example"), None),
        (("unknown.corp.example",), None),
        ((BILLING + "/more",), None),
        (("x.search.corp.example",), None),
        (("spiffe://corp.example",), None),
    ],
)
async def test_the_names_in_a_certificate_say_who_calls_on_both_listeners(
    authority: Authority, names: tuple[str, ...], tenant: str | None
) -> None:
    shows = authority.issue(*names)
    async with serving(server(authority, authority), by_certificate()) as up:
        rest = await up.rest(client(authority, shows))
        over_grpc = await up.grpc(authority, shows)
    assert (rest, over_grpc) == ((401, "UNAUTHENTICATED") if tenant is None else (200, "OK"))
    assert [r.tenant for r in up.seen] == ([] if tenant is None else [tenant] * 2)


async def test_a_key_says_who_calls_and_the_floors_of_the_certificate_hold_too(
    authority: Authority,
) -> None:
    shows, unknown = authority.issue("search.corp.example"), authority.issue("x.example")
    async with serving(server(authority, authority), by_certificate(**KEYS)) as up:
        for certificate in (shows, unknown):
            assert await up.rest(client(authority, certificate), "first") == 200
            assert await up.grpc(authority, certificate, "first") == "OK"
        assert await up.rest(client(authority, shows), "wrong") == 401
        assert await up.grpc(authority, shows, "wrong") == "UNAUTHENTICATED"
    assert {r.tenant for r in up.seen} == {"acme"}
    assert [r.zones == ONPREM_ONLY for r in up.seen] == [True, True, False, False]


def serial(pair: Pair) -> int:
    return x509.load_pem_x509_certificate(pair.cert.read_bytes()).serial_number


async def shown(port: int, context: ssl.SSLContext) -> int:
    """The serial number of the certificate that a listener shows."""
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(der).serial_number


async def test_a_new_certificate_counts_for_new_connections_and_old_ones_go_on(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = authority.issue("127.0.0.1"), authority.issue("127.0.0.1")
    was = serial(first)
    files = TlsFiles("listen.tls", first.cert, first.key)
    credentials = grpc.ssl_channel_credentials(authority.file.read_bytes())
    async with serving(files) as up, connected(up.http_port, client(authority)) as wire:
        target = f"127.0.0.1:{up.grpc_port}"
        async with grpc.aio.secure_channel(target, credentials, options=OPTIONS) as channel:
            stub: Any = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            await stub.ModelInfer(infer_request(MODEL))
            assert (await infer(wire)).status == 200
            for port in (up.http_port, up.grpc_port):
                assert await shown(port, client(authority)) == was
            first.replace(second)
            for port in (up.http_port, up.grpc_port):
                assert await shown(port, client(authority)) == serial(second)
            assert (await infer(wire)).status == 200, "the connection that was open"
            await stub.ModelInfer(infer_request(MODEL))
            now = serial(second)
            first.cert.write_bytes(b"half of a file")
            for port in (up.http_port, up.grpc_port):
                assert await shown(port, client(authority)) == now, "what was there before"
    assert [r.levelname for r in caplog.records if r.name.startswith("gateway")].count("ERROR") == 2


async def test_clients_of_an_authority_that_was_taken_back_are_not_let_in_again(
    authority: Authority, other: Authority
) -> None:
    """Nor by a session that was opened before."""
    files, shows = server(authority, other), other.issue(BILLING)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        files = server(authority, other)
        assert files.ca_file is not None
        kept = files.ca_file.read_bytes()
        context = client(authority, shows)
        context.minimum_version = context.maximum_version = version
        async with serving(files, by_certificate()) as up:
            async with connected(up.http_port, context) as wire:
                assert (await infer(wire)).status == 200
                session = wire.writer.get_extra_info("ssl_object").session
            assert await up.grpc(authority, shows) == "OK"
            assert session is None or not session.has_ticket
            files.ca_file.write_bytes(authority.file.read_bytes())
            assert await up.rest(client(authority, shows)) != 200
            assert await up.grpc(authority, shows) == "UNAVAILABLE"
            assert await up.rest(client(authority, authority.issue(BILLING))) == 200
        files.ca_file.write_bytes(kept)


@pytest.mark.parametrize("spoil", ["cert_file", "key_file", "ca_file"])
def test_files_that_are_no_certificates_keep_it_from_starting(
    authority: Authority, spoil: str, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing")
    right = server(authority, authority)
    files = spoilt(right, spoil, broken)
    with pytest.raises(ConfigError, match=r"listen\.tls.*broken\.pem"):
        listening(files)
    with pytest.raises(ConfigError, match=r"listen\.tls"):
        listening(spoilt(right, spoil, tmp_path / "gone.pem"))


def spoilt(files: TlsFiles, what: str, by: Path) -> TlsFiles:
    given = {name: getattr(files, name) for name in ("cert_file", "key_file", "ca_file")}
    return TlsFiles(files.where, **{**given, what: by})
