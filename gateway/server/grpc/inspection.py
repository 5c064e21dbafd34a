"""The read-only methods of GRPCInferenceService, answered by the server that knows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tritonclient.grpc import service_pb2

from gateway.auth import Caller
from gateway.core.errors import (
    Forbidden,
    GatewayError,
    MalformedBody,
    NotOffered,
    RequestRejected,
    UnknownModel,
    UpstreamFailed,
)
from gateway.endpoints.connectors import Inspector
from gateway.protocols.oip.inspect import OFFERED_EXTENSIONS
from gateway.server import Services
from gateway.server.grpc.calls import GrpcCallHead, Unary, parse

_WAIT_S = 5.0


class Inspections:
    OPEN = frozenset({"ServerLive", "ServerReady"})
    """What anybody may ask: whoever looks after the gateway has no key."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.methods: dict[str, Unary] = {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server_metadata,
            "ModelMetadata": self._inspect_model(service_pb2.ModelMetadataRequest, "ModelMetadata"),
            "ModelConfig": self._inspect_model(service_pb2.ModelConfigRequest, "ModelConfig"),
            "ModelStatistics": self._statistics,
            "RepositoryIndex": self._index,
        }

    async def _server_live(self, head: GrpcCallHead, raw: bytes) -> bytes:
        live = self._services.inspection.live()
        return _written(service_pb2.ServerLiveResponse(live=live))

    async def _server_ready(self, head: GrpcCallHead, raw: bytes) -> bytes:
        ready = self._services.inspection.ready()
        return _written(service_pb2.ServerReadyResponse(ready=ready))

    async def _model_ready(self, head: GrpcCallHead, raw: bytes) -> bytes:
        caller = head.caller(self._services)
        message = parse(service_pb2.ModelReadyRequest, raw)
        _check_version(message.version)
        ready = self._ready(caller, message.name)
        if ready and message.version:
            ready = await self._version_ready(caller, message, _wait_s(head))
        return _written(service_pb2.ModelReadyResponse(ready=ready))

    async def _version_ready(self, caller: Caller, message: Any, wait_s: float) -> bool:
        try:
            inspector, message.name = self._find(caller, message.name, message.version)
            raw = await inspector.grpc("ModelReady", _written(message), wait_s)
        except GatewayError:
            return False
        return bool(_answer(service_pb2.ModelReadyResponse, raw).ready)

    async def _server_metadata(self, head: GrpcCallHead, raw: bytes) -> bytes:
        head.caller(self._services)
        parse(service_pb2.ServerMetadataRequest, raw)
        inspector = self._services.inspection.server_inspector()
        answer = _answer(
            service_pb2.ServerMetadataResponse,
            await inspector.grpc("ServerMetadata", b"", _wait_s(head)),
        )
        offered = [e for e in answer.extensions if e in OFFERED_EXTENSIONS]
        del answer.extensions[:]
        answer.extensions.extend(offered)
        return _written(answer)

    def _inspect_model(
        self, kind: Any, method: str
    ) -> Callable[[GrpcCallHead, bytes], Awaitable[bytes]]:
        async def inspect(head: GrpcCallHead, raw: bytes) -> bytes:
            caller = head.caller(self._services)
            message = parse(kind, raw)
            inspector, there = self._find(caller, message.name, message.version)
            message.name = there
            return await inspector.grpc(method, _written(message), _wait_s(head))

        return inspect

    async def _statistics(self, head: GrpcCallHead, raw: bytes) -> bytes:
        message = parse(service_pb2.ModelStatisticsRequest, raw)
        if message.name:
            one = self._inspect_model(service_pb2.ModelStatisticsRequest, "ModelStatistics")
            try:
                return await one(head, raw)
            except UnknownModel:  # of statistics alone Triton says it with another status
                raise RequestRejected("requested model is not available") from None
        caller = head.caller(self._services)
        inspector = self._services.inspection.server_inspector()
        answer = _answer(
            service_pb2.ModelStatisticsResponse,
            await inspector.grpc("ModelStatistics", b"", _wait_s(head)),
        )
        allowed = set(self._names(caller))
        allowed_models = [model for model in answer.model_stats if model.name in allowed]
        del answer.model_stats[:]
        answer.model_stats.extend(allowed_models)
        return _written(answer)

    async def _index(self, head: GrpcCallHead, raw: bytes) -> bytes:
        caller = head.caller(self._services)
        message = parse(service_pb2.RepositoryIndexRequest, raw)
        if message.repository_name:
            raise NotOffered("repository_name: is not offered; leave it out to list every model")
        names, wait_s = sorted(self._names(caller)), _wait_s(head)
        versions = await asyncio.gather(*(self._versions(caller, n, wait_s) for n in names))
        answer = service_pb2.RepositoryIndexResponse()
        for name, ready in zip(names, versions, strict=True):
            for version in ready:
                answer.models.add(name=name, version=version, state="READY")
            if not ready and not message.ready:
                answer.models.add(name=name, state="UNAVAILABLE")
        return _written(answer)

    async def _versions(self, caller: Caller, name: str, wait_s: float) -> list[str]:
        """Those that are ready; of a server that names none, the one without a number."""
        if not self._ready(caller, name):
            return []
        try:
            inspector, there = self._services.inspection.model_inspector(name)
            request = service_pb2.ModelMetadataRequest(name=there)
            raw = await inspector.grpc("ModelMetadata", _written(request), wait_s)
            return list(_answer(service_pb2.ModelMetadataResponse, raw).versions) or [""]
        except GatewayError:
            return [""]

    def _names(self, caller: Caller) -> list[str]:
        return [name for name in self._services.catalog.names() if caller.may_use(name)]

    def _ready(self, caller: Caller, name: str) -> bool:
        """An unknown model is not ready, as on Triton; so is one that is not this caller's."""
        try:
            entry = self._services.catalog.find(name)
        except GatewayError:
            return False
        return caller.may_use(entry.name) and self._services.inspection.model_ready(entry.name)

    def _find(self, caller: Caller, name: str, version: str) -> tuple[Inspector, str]:
        entry = self._services.catalog.find(name)
        if not caller.may_use(entry.name):
            raise Forbidden("this key may not use this model")
        _check_version(version)
        self._services.catalog.refuse_other_versions(entry, version)
        return self._services.inspection.model_inspector(entry.name)


def _check_version(version: str) -> None:
    if version and not (version.isascii() and version.isdigit() and len(version) <= 18):
        raise MalformedBody("version: must be at most 18 decimal digits, or empty")


def _answer(kind: Any, raw: bytes) -> Any:
    try:
        return parse(kind, raw)
    except MalformedBody:
        raise UpstreamFailed("the server's answer is not of the protocol") from None


def _wait_s(head: GrpcCallHead) -> float:
    left_s = head.remaining_s()
    return _WAIT_S if left_s is None else min(_WAIT_S, left_s)


def _written(message: Any) -> bytes:
    written: bytes = message.SerializeToString()
    return written
