"""The HTTP half of the kind `triton`: for REST callers, whose answers it hands on byte for byte."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from gateway.core.reply import ReplyStream, RestBody
from gateway.core.types import InferenceRequest, ServedModel
from gateway.endpoints.connectors.open_inference.rest import RestServer
from gateway.protocols.http_client.origin import Origin, Tls
from gateway.protocols.http_client.wire import MAX_ANSWER_BYTES, ConnectionPool, Header


class TritonHttp:
    def __init__(
        self,
        url: str,
        *,
        connect_timeout_s: float,
        max_connections: int,
        headers: tuple[Header, ...] = (),
        tls: Tls | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._wire = ConnectionPool(
            Origin.from_url(url, tls),
            connect_timeout_s=connect_timeout_s,
            max_connections=max_connections,
            max_body_bytes=max_answer_bytes,
        )
        self._server = RestServer(self._wire, headers, takes_timeout=True)

    def open(
        self, request: InferenceRequest, served: ServedModel
    ) -> Coroutine[Any, Any, ReplyStream]:
        return self._server.infer(request, served)

    async def rest(self, path: str, timeout_s: float) -> RestBody:
        return await self._server.get(path, timeout_s)

    async def ready(self) -> bool:
        return await self._server.ready(self._connect_timeout_s)

    async def aclose(self) -> None:
        await self._wire.aclose()
