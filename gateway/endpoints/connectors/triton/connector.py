"""The kind `triton`: each protocol on the side of the server that speaks it.

A REST call goes over HTTP and a gRPC call over gRPC, so that answers pass byte for byte (O6); an
OpenAI call is translated into tensors (`openai_on_triton`) and goes over gRPC.
"""

from __future__ import annotations

from collections.abc import Awaitable

from gateway.core.reply import ReplyStream, RestBody
from gateway.core.types import DocumentCall, InferenceRequest, ServedModel, WireProtocol
from gateway.endpoints.batch_rows.rows import JointLimit
from gateway.endpoints.connectors.open_inference.grpc import OipGrpcClient
from gateway.endpoints.connectors.triton.http import TritonHttp
from gateway.endpoints.connectors.triton.joint_requests import JointRequests
from gateway.endpoints.connectors.triton.openai import OpenAiOnTriton
from gateway.protocols.oip import inspect

_REST = WireProtocol.KSERVE_REST


class TritonConnector:
    def __init__(self, grpc: OipGrpcClient, http: TritonHttp | None) -> None:
        """`http` is absent where the settings name the server's gRPC side alone."""
        self.joint_limits: dict[str, JointLimit] = {}
        self._grpc = grpc
        self._http = http
        self._over_grpc = JointRequests(grpc.open, self.joint_limits)
        self._over_http = None if http is None else JointRequests(http.open, self.joint_limits)
        self._documents = OpenAiOnTriton(self)

    def open(self, request: InferenceRequest, served: ServedModel) -> Awaitable[ReplyStream]:
        if isinstance(request.payload, DocumentCall):
            return self._documents.open(request, served)
        if (
            self._over_http is not None
            and request.protocol is _REST
            and not request.payload.streamed  # only gRPC has streams
        ):
            return self._over_http.open(request, served)
        return self._over_grpc.open(request, served)

    async def rest(self, path: str, timeout_s: float) -> RestBody:
        if self._http is not None:
            return await self._http.rest(path, timeout_s)
        method, message = inspect.question(path)
        return inspect.answer(method, await self._grpc.grpc(method, message, timeout_s))

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
        return await self._grpc.grpc(method, message, timeout_s)

    async def ready(self) -> bool:
        return await self._grpc.ready()

    async def aclose(self) -> None:
        await self._grpc.aclose()
        if self._http is not None:
            await self._http.aclose()
