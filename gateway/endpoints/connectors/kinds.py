"""How each kind of endpoint is connected to: settings in, a connector out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from pydantic import SecretStr

from gateway.config import EndpointSettings
from gateway.config.endpoint_kinds import (
    ANTHROPIC,
    BEDROCK,
    COHERE,
    GEMINI,
    KINDS,
    KSERVE,
    OPENAI,
    TRITON,
    EndpointKind,
)
from gateway.core.operations.chat import CHAT
from gateway.core.operations.responses import RESPONSES
from gateway.endpoints.connectors import Connector
from gateway.endpoints.connectors.kserve.grpc import kserve_grpc
from gateway.endpoints.connectors.kserve.http import KserveHttp
from gateway.endpoints.connectors.open_inference.grpc import GrpcTarget, bearer
from gateway.endpoints.connectors.openai.dialects import Dialect
from gateway.endpoints.connectors.openai.dialects.anthropic import Anthropic
from gateway.endpoints.connectors.openai.dialects.bedrock import Bedrock
from gateway.endpoints.connectors.openai.dialects.cohere import Cohere
from gateway.endpoints.connectors.openai.dialects.connector import TranslatingConnector
from gateway.endpoints.connectors.openai.dialects.gemini import Gemini
from gateway.endpoints.connectors.openai.event_stream import AnswerBounds
from gateway.endpoints.connectors.openai.provider import REST_S, OpenAiConnector, endpoint_origin
from gateway.endpoints.connectors.openai.responses.connector import ResponsesConnector
from gateway.endpoints.credentials import Credential
from gateway.protocols.http_client.origin import Tls
from gateway.protocols.http_client.wire import MAX_ANSWER_BYTES, ConnectionPool
from gateway.protocols.tls import FreshTlsContext, TlsFiles, client_context


class EmbeddedPorts(Protocol):
    """Where an embedded server listens on the loopback."""

    @property
    def http(self) -> int: ...
    @property
    def grpc(self) -> int: ...


def build_connector(
    settings: EndpointSettings,
    ports: EmbeddedPorts | None,
    max_answer_bytes: int = MAX_ANSWER_BYTES,
) -> Connector:
    """`ports` of the embedded server, for an endpoint that has one."""
    connector = CONNECTORS[KINDS[settings.kind]](settings, ports, max_answer_bytes)
    return ResponsesConnector(connector) if _serves_chats_alone(settings) else connector


def _serves_chats_alone(settings: EndpointSettings) -> bool:
    """Whether Responses go to the endpoint as chats."""
    kind, provider = KINDS[settings.kind], settings.provider
    chats, responses = [
        kind.serves(operation) and (provider is None or operation.name in provider.operations)
        for operation in (CHAT, RESPONSES)
    ]
    return chats and not responses


def _triton(settings: EndpointSettings, ports: EmbeddedPorts | None, most_bytes: int) -> Connector:
    # who has no Triton needs none
    from gateway.endpoints.connectors.triton.connector import TritonConnector
    from gateway.endpoints.connectors.triton.grpc import triton_grpc
    from gateway.endpoints.connectors.triton.http import TritonHttp

    embedded = settings.embedded
    address = f"127.0.0.1:{ports.grpc if ports else 0}" if embedded else settings.grpc or ""
    url = f"http://127.0.0.1:{ports.http if ports else 0}" if embedded else settings.url
    grpc = triton_grpc(_target(settings, address, most_bytes))
    http = url and TritonHttp(
        url,
        connect_timeout_s=settings.connect_timeout_ms / 1000,
        max_connections=settings.max_in_flight,
        headers=tuple((n.encode(), v.encode()) for n, v in _headers(settings).items()),
        tls=_tls(settings),
        max_answer_bytes=most_bytes,
    )
    return TritonConnector(grpc, http or None)


def _kserve(settings: EndpointSettings, ports: EmbeddedPorts | None, most_bytes: int) -> Connector:
    if settings.grpc is not None:
        return kserve_grpc(_target(settings, settings.grpc, most_bytes))
    return KserveHttp(
        settings.url or "",
        connect_timeout_s=settings.connect_timeout_ms / 1000,
        max_connections=settings.max_in_flight,
        headers=_headers(settings),
        tls=_tls(settings),
        max_answer_bytes=most_bytes,
    )


def _openai(settings: EndpointSettings, ports: EmbeddedPorts | None, most_bytes: int) -> Connector:
    return _provided(OpenAiConnector, settings, most_bytes)


def _translated(dialect: Dialect) -> Build:
    connector = partial(TranslatingConnector, dialect)
    return lambda settings, ports, most_bytes: _provided(connector, settings, most_bytes)


def _provided(
    connector: Callable[..., OpenAiConnector], settings: EndpointSettings, most_bytes: int
) -> Connector:
    """One whose service is described."""
    provider = settings.provider
    origin = endpoint_origin(
        settings.url or "", _tls(settings), provider.base if provider else "/v1"
    )
    wire = ConnectionPool(
        origin,
        connect_timeout_s=settings.connect_timeout_ms / 1000,
        max_connections=settings.max_in_flight,
        max_body_bytes=most_bytes,
        rest_s=REST_S,
    )
    query = dict(provider.query) if provider else {}
    query |= {name: value.get_secret_value() for name, value in settings.query.items()}
    return connector(
        wire,
        headers=_headers(settings),
        provider=provider,
        query=query,
        bounds=AnswerBounds(media_bytes=most_bytes),
        credential=None if settings.credential is None else _credential(settings),
    )


def _credential(settings: EndpointSettings) -> Credential:
    from gateway.endpoints.credentials.issuers import renewed  # httpx, for those who have tokens

    return renewed(settings)


Build = Callable[[EndpointSettings, EmbeddedPorts | None, int], Connector]
CONNECTORS: dict[EndpointKind, Build] = {
    TRITON: _triton,
    KSERVE: _kserve,
    OPENAI: _openai,
    ANTHROPIC: _translated(Anthropic()),
    BEDROCK: _translated(Bedrock()),
    COHERE: _translated(Cohere()),
    GEMINI: _translated(Gemini()),
}


def _target(settings: EndpointSettings, address: str, most_bytes: int) -> GrpcTarget:
    return GrpcTarget(
        address,
        tls=settings.grpc_tls,
        files=_files(settings),
        metadata=tuple(_headers(settings).items()),
        max_answer_bytes=most_bytes,
        connect_timeout_s=settings.connect_timeout_ms / 1000,
    )


def _headers(settings: EndpointSettings) -> dict[str, str]:
    """What goes with every call: the endpoint's credential and its configured headers."""
    key, provider = _secret(settings.api_key), settings.provider
    if provider is None:
        headers = dict(bearer(key))
    else:
        headers = dict(provider.headers)
        if key is not None:
            headers |= provider.authorization.headers(key)
    return headers | {n.lower(): v.get_secret_value() for n, v in settings.headers.items()}


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()


def _files(settings: EndpointSettings) -> TlsFiles:
    return TlsFiles("endpoints", settings.cert_file, settings.key_file, settings.ca_file)


def _tls(settings: EndpointSettings) -> Tls | None:
    """None: the usual authorities, and no certificate of ours."""
    files = _files(settings)
    return FreshTlsContext(files, client_context) if files.paths else None
