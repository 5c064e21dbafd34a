"""TLS to endpoints: each zone has authorities and a certificate of its own, which the other never
sees, and both keep up with their files."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2_grpc

from gateway.config import EndpointSettings, TlsSettings
from gateway.endpoints.connectors.kinds import build_connector
from tests.unit.grpc_rig import OPTIONS, FakeTriton
from tests.unit.pki import Authority, Pair

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_event_loop")]


@dataclass
class Server:
    """Asks for a certificate, and notes the names in those that it is shown."""

    http_port: int
    grpc_port: int
    shown: list[tuple[str, ...]] = field(default_factory=list)

    def url(self) -> str:
        return f"https://127.0.0.1:{self.http_port}"


class NotingTriton(FakeTriton):
    def __init__(self, shown: list[tuple[str, ...]]) -> None:
        super().__init__()
        self._shown = shown

    async def ServerReady(self, request: Any, context: Any) -> Any:
        found = context.auth_context().get("peer_dns", ())
        self._shown.append(tuple(n.decode() for n in found))
        return await super().ServerReady(request, context)


@asynccontextmanager
async def serving(
    pair: Pair, clients: Authority, *, required: bool = True
) -> AsyncIterator[Server]:
    shown: list[tuple[str, ...]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        names = (writer.get_extra_info("peercert") or {}).get("subjectAltName", ())
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                shown.append(tuple(name for _, name in names))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        except (OSError, EOFError):
            writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    context.load_verify_locations(clients.file)
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    http = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    triton = grpc.aio.server(options=OPTIONS)
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(NotingTriton(shown), triton)
    pairs = [(pair.key.read_bytes(), pair.cert.read_bytes())]
    credentials = grpc.ssl_server_credentials(
        pairs, clients.file.read_bytes(), require_client_auth=required
    )
    grpc_port = triton.add_secure_port("127.0.0.1:0", credentials)
    await triton.start()
    try:
        yield Server(http.sockets[0].getsockname()[1], grpc_port, shown)
    finally:
        http.close()
        await triton.stop(0)


async def ready(tls: TlsSettings, **endpoint: Any) -> bool:
    settings = EndpointSettings.model_validate({"connect_timeout_ms": 1500, **endpoint})
    connector = build_connector(tls.for_endpoint(settings), None)
    try:
        return await connector.ready()
    finally:
        await connector.aclose()


def zones(**changes: Any) -> TlsSettings:
    return TlsSettings.model_validate(changes)


def files(ca: Authority, pair: Pair) -> dict[str, Path]:
    return {"ca_file": ca.file, "cert_file": pair.cert, "key_file": pair.key}


@pytest.fixture
def premises(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "premises")


@pytest.fixture
def outside(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "outside")


async def test_triton_is_shown_the_gateways_certificate_over_both_its_sides(
    premises: Authority, outside: Authority
) -> None:
    ours = premises.issue("gateway")
    onprem: dict[str, Any] = {"kind": "triton", "zone": "onprem", "grpc_tls": True}
    async with serving(premises.issue("127.0.0.1"), premises) as server:
        target = {"grpc": f"127.0.0.1:{server.grpc_port}"}
        rest = {"kind": "kserve", "zone": "onprem", "url": server.url()}
        right = zones(onprem=files(premises, ours))
        assert await ready(right, **onprem, **target)
        assert await ready(right, **rest)
        assert server.shown == [("gateway",), ("gateway",)]
        for wrong in (
            zones(),
            zones(onprem={"ca_file": premises.file}),
            zones(onprem=files(premises, outside.issue("gateway"))),
            zones(onprem=files(outside, ours)),
            zones(cloud=files(premises, ours)),
        ):
            assert not await ready(wrong, **onprem, **target)
            assert not await ready(wrong, **rest)
        assert len(server.shown) == 2


async def test_the_cloud_never_sees_the_certificate_of_the_premises(
    premises: Authority, outside: Authority
) -> None:
    """Nor the other way round: an endpoint has its own, or that of its zone."""
    tls = zones(
        onprem=files(premises, premises.issue("for-the-premises")),
        cloud=files(outside, outside.issue("for-the-cloud")),
    )
    own = outside.issue("for-this-one")
    async with serving(outside.issue("127.0.0.1"), outside) as server:
        cloud: dict[str, Any] = {"kind": "kserve", "zone": "cloud", "url": server.url()}
        assert await ready(tls, **cloud)
        assert await ready(tls, **{**cloud, "cert_file": own.cert, "key_file": own.key})
        assert server.shown == [("for-the-cloud",), ("for-this-one",)]
        assert not await ready(tls, **{**cloud, "zone": "onprem"})


async def test_a_certificate_that_is_renewed_is_shown_from_then_on(premises: Authority) -> None:
    ours, renewed = premises.issue("old"), premises.issue("new")
    tls = zones(onprem=files(premises, ours))
    async with serving(premises.issue("127.0.0.1"), premises) as server:
        target = f"127.0.0.1:{server.grpc_port}"
        for endpoint in (
            {"kind": "triton", "zone": "onprem", "grpc": target, "grpc_tls": True},
            {"kind": "kserve", "zone": "onprem", "url": server.url()},
        ):
            connector = build_connector(
                tls.for_endpoint(EndpointSettings.model_validate(endpoint)), None
            )
            assert await connector.ready()
            await _cut(connector)
            was = Pair(ours.cert.with_suffix(".was"), ours.key.with_suffix(".was2"))
            was.cert.write_bytes(ours.cert.read_bytes())
            was.key.write_bytes(ours.key.read_bytes())
            ours.replace(renewed)
            assert await connector.ready()
            await connector.aclose()
            ours.replace(was)
        assert server.shown == [("old",), ("new",)] * 2


async def _cut(connector: Any) -> None:
    """Kept connections go on with what they were opened with; these are to be new ones."""
    wire = getattr(connector, "_wire", None)
    if wire is not None:
        wire._idle.clear()


@pytest.mark.parametrize("missing", ["cert_file", "key_file"])
def test_a_certificate_and_its_key_go_together(missing: str) -> None:
    given = {"cert_file": "a.pem", "key_file": "a.key"}
    del given[missing]
    with pytest.raises(ValueError, match=missing):
        zones(onprem=given)
    with pytest.raises(ValueError, match=missing):
        EndpointSettings.model_validate(
            {"kind": "openai", "zone": "cloud", "url": "https://a", **given}
        )
