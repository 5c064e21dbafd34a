"""The kind `kserve` over HTTP: any server of the Open Inference Protocol, on-prem or in the cloud.

It answers callers of either protocol with `RestBody` frames; the fronts cross them over.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from gateway.core.reply import ReplyStream, RestBody
from gateway.core.types import InferenceRequest, ServedModel
from gateway.endpoints.connectors.open_inference.rest import RestServer
from gateway.protocols.http_client.origin import Origin, Tls
from gateway.protocols.http_client.wire import MAX_ANSWER_BYTES, ConnectionPool
from gateway.protocols.oip import inspect


class KserveHttp:
    def __init__(
        self,
        url: str,
        *,
        connect_timeout_s: float,
        max_connections: int,
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        tls: Tls | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        """`url` may have a path, which goes before `/v2`. `headers` win over `api_key`."""
        own_headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        own_headers |= {name.lower(): value for name, value in (headers or {}).items()}
        self._connect_timeout_s = connect_timeout_s
        self._wire = ConnectionPool(
            Origin.from_url(url, tls),
            connect_timeout_s=connect_timeout_s,
            max_connections=max_connections,
            max_body_bytes=max_answer_bytes,
        )
        self._server = RestServer(
            self._wire,
            tuple((n.encode("ascii"), v.encode("latin-1")) for n, v in own_headers.items()),
        )

    def open(
        self, request: InferenceRequest, served: ServedModel
    ) -> Coroutine[Any, Any, ReplyStream]:
        return self._server.infer(request, served)

    async def rest(self, path: str, timeout_s: float) -> RestBody:
        return await self._server.get(path, timeout_s)

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
        """The answer of the same question asked by REST."""
        path = inspect.path(method, message)
        return inspect.message(method, await self._server.get(path, timeout_s))

    async def ready(self) -> bool:
        return await self._server.ready(self._connect_timeout_s)

    async def aclose(self) -> None:
        await self._wire.aclose()
