"""A kind of endpoint that Spillway has not: a line of JSON in, a line of JSON out, over TCP."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from gateway.config import EndpointSettings
from gateway.config.endpoint_kinds import Addresses, EndpointKind
from gateway.core.errors import UpstreamRefused
from gateway.core.operations.capabilities import CAPABILITIES
from gateway.core.reply import JsonBody, OneFrame
from gateway.core.types import DocumentCall, InferenceRequest, ServedModel
from gateway.endpoints.connectors.kinds import EmbeddedPorts
from gateway.protocols import strictjson

LINES = EndpointKind(
    name="lines",
    protocol="lines of JSON",
    addresses=Addresses.URL,
    documents=None,
    capabilities=frozenset(CAPABILITIES),
    batches=True,
)


class LinesConnector:
    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)

    async def open(self, request: InferenceRequest, served: ServedModel) -> OneFrame:
        if not isinstance(request.payload, DocumentCall):
            raise UpstreamRefused("no tensors")
        line = strictjson.dumps({**request.payload.document, "model": served.model})
        reader, writer = await asyncio.open_connection(self._url.hostname, self._url.port)
        try:
            writer.write(line + b"\n")
            return OneFrame(JsonBody((await reader.readline()).rstrip()))
        finally:
            writer.close()

    async def ready(self) -> bool:
        return True

    async def aclose(self) -> None:
        pass


def connect(settings: EndpointSettings, ports: EmbeddedPorts | None, most: int) -> LinesConnector:
    return LinesConnector(settings.url or "")
