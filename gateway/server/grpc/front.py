"""The Open Inference Protocol over gRPC, as Triton's clients speak it; health and reflection.

Messages are read by us, since they must be scanned, and answers go out as the bytes that came.
Nothing that changes the server, or reaches into its memory, is passed on (C7).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc
from tritonclient.grpc import service_pb2

from gateway.core.errors import Draining, GatewayError, NotOffered
from gateway.core.reply import OneFrame
from gateway.protocols.http2.exchange import Http2Exchange
from gateway.protocols.http2.exchange import status_fields as status_fields
from gateway.protocols.http2.hpack import literal
from gateway.protocols.http2.request import Http2RequestHead
from gateway.protocols.http2.sender import Fields
from gateway.protocols.oip.grpc import decode_request
from gateway.protocols.tls import TlsFiles, listening
from gateway.server import Services, intake
from gateway.server.grpc.calls import (
    LARGE_BYTES,
    GrpcCallHead,
    Unary,
    answer_bytes,
    answered,
    answered_by,
    authenticate,
    bounded,
    error_status,
    infer_request,
    only_answer,
    read_metadata,
    too_late,
)
from gateway.server.grpc.context import Context
from gateway.server.grpc.inspection import Inspections
from gateway.server.grpc.server import GrpcServer
from gateway.server.grpc.stream import StreamSession

SERVICE_NAME = "inference.GRPCInferenceService"
_SERVICE = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
_READINESS_S = 0.5
_NOT_OFFERED = "is not offered by this gateway: models, memory, logs and traces of the servers "
_NOT_OFFERED += "behind it are their operator's"


if TYPE_CHECKING:  # generic in its stubs only
    _GenericHandler = grpc.GenericRpcHandler[Any, Any]
else:
    _GenericHandler = grpc.GenericRpcHandler


class InferenceService(_GenericHandler):
    """Every method of the service: ours, or a clear refusal. A call has the services that are in
    use when it comes, and so has each message of a stream."""

    def __init__(self, services: Services) -> None:
        self._sessions: set[StreamSession] = set()
        self.serve(services)

    def serve(self, services: Services) -> None:
        self._services = services
        infer = partial(self._infer, services)
        ours: dict[str, Unary] = {**Inspections(services).methods, "ModelInfer": infer}
        handlers = {name: _unary(answered(services, method)) for name, method in ours.items()}
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._stream)
        for method in _SERVICE.methods:
            if method.name not in handlers:
                handlers[method.name] = self._refusal(services, method.name)
        self._handlers = {f"/{SERVICE_NAME}/{name}": h for name, h in handlers.items()}
        closed = (ours.keys() | {"ModelStreamInfer"}) - Inspections.OPEN
        self._guarded = frozenset(f"/{SERVICE_NAME}/{name}" for name in closed)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(handler_call_details.method)

    def drain(self) -> None:
        for session in self._sessions:
            session.drain()

    # By the head of a call

    def guards(self, path: str) -> bool:
        return path in self._guarded

    def admit(self, exchange: Http2Exchange) -> None:
        """Raises Unauthenticated, Unverifiable, RequestRejected."""
        services, opening = self._services, exchange.head.known
        if opening is None or opening.services is not services or opening.caller is None:
            context = Context(exchange, None)
            caller = authenticate(read_metadata(context, services), context, services)
            exchange.admitted = services, caller
        else:
            caller = opening.caller
        exchange.caller = caller.tenant  # guard: A9.message-caller

    def arrives_s(self, head: Http2RequestHead) -> float:
        """As long as the caller would wait for the answer, or as a call may take."""
        limits = self._services.limits
        if head.timeout_s is None:
            return limits.default_latency_budget_ms / 1000
        return min(head.timeout_s, limits.max_latency_budget_ms / 1000)

    def refusal(self, exchange: Http2Exchange, error: GatewayError) -> Fields:
        services = self._services
        head = GrpcCallHead(Context(exchange, None), services)
        code, words, pairs = error_status(head.arrival, error, services)
        own = b"".join([literal(n.encode(), v.encode("ascii", "replace")) for n, v in pairs])
        return status_fields(code.name, words, own)

    @staticmethod
    def _refusal(services: Services, name: str) -> Any:
        async def refuse(head: GrpcCallHead, raw: bytes) -> bytes:
            raise NotOffered(f"{name} {_NOT_OFFERED}")

        return _unary(answered(services, refuse))

    @staticmethod
    async def _infer(services: Services, head: GrpcCallHead, raw: bytes) -> bytes:
        caller = head.caller(services)
        message = await infer_request(raw)
        terms = head.opening.terms(caller, services.catalog.find(caller.named(message.model_name)))
        payload = decode_request(message)
        if len(raw) > LARGE_BYTES:
            del message, raw
            await asyncio.sleep(0)
        request = terms.request(head.arrival, payload, head.remaining_s())
        head.context.held = request.held
        try:
            with bounded(request.deadline.remaining_s()):
                reply = await services.handle(request)
                frames = reply.frames
                if isinstance(frames, OneFrame):
                    answer = await answer_bytes(frames.take())
                else:
                    answer = await only_answer(frames)
        except TimeoutError:
            raise too_late() from None
        # guard: S7.grpc-trailers
        head.context.answered_by(answered_by(head.arrival, reply.placement))
        return answer

    async def _stream(self, messages: AsyncIterator[bytes], context: Context) -> None:
        head = GrpcCallHead(context, self._services)
        try:
            head.caller(self._services)
            session = StreamSession(lambda: self._services, head)
        except GatewayError as error:
            await context.abort(*error_status(head.arrival, error, self._services))
            return
        self._sessions.add(session)
        try:
            await session.run(messages)
        finally:
            self._sessions.discard(session)
        if session.drained:
            stopping = Draining("the gateway is shutting down")
            await context.abort(*error_status(head.arrival, stopping, self._services))
        headers = intake.placement_headers(head.arrival, session.placement)
        context.set_trailing_metadata(tuple(headers.items()))


ONPREM_SERVICE: Final = "spillway.onprem"
"""Serves while restricted calls have a place."""
_SERVICES = ("", SERVICE_NAME, ONPREM_SERVICE)


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """`grpc.health.v1`, which says what `/v2/health/ready` and `/readyz/onprem` say."""

    def __init__(self, ready: Callable[[], bool], onprem_up: Callable[[], bool]) -> None:
        self._ready, self._onprem_up = ready, onprem_up
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Not serving any more, which whoever watches is told as the last thing."""
        self._draining.set()

    async def Check(self, request: Any, context: Context) -> Any:
        if request.service not in _SERVICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service here")
        return health_pb2.HealthCheckResponse(status=self._status(request.service))

    async def Watch(self, request: Any, context: Context) -> None:
        previous: int | None = None
        while True:
            last = self._draining.is_set()
            if (status := self._status(request.service)) != previous:
                await context.write(health_pb2.HealthCheckResponse(status=status))
                previous = status
            if last:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._draining.wait(), _READINESS_S)

    def _status(self, service: str) -> int:
        if service not in _SERVICES:
            return int(health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        # guard: O8.grpc-signal minus 2
        serves = self._ready() and (service != ONPREM_SERVICE or self._onprem_up())
        if serves and not self._draining.is_set():
            return int(health_pb2.HealthCheckResponse.SERVING)
        return int(health_pb2.HealthCheckResponse.NOT_SERVING)


class GrpcFront:
    """The listening server."""

    def __init__(
        self,
        services: Services,
        host: str,
        port: int,
        *,
        max_receive_bytes: int | None = None,
        tls: TlsFiles | None = None,
        shared: bool = False,
    ) -> None:
        """`shared`: the port is that of other workers, too."""
        self._address = host, port
        self._service = InferenceService(services)
        self._inspection = services.inspection
        self._health = Health(
            lambda: self._inspection.ready(), lambda: self._inspection.onprem_up()
        )
        limits = services.limits
        self._server = GrpcServer(
            max_receive_bytes or limits.max_body_bytes,
            limits.max_concurrent,
            services.held_bytes,
            self._service,
        )
        self._tls = tls
        self._shared = shared
        names = (SERVICE_NAME, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
        reflecting = vars(reflection)["aio"].ReflectionServicer((*names, reflection.SERVICE_NAME))
        self._server.add_generic_rpc_handlers((self._service,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflecting, self._server)

    def serve(self, services: Services) -> None:
        """These are in use from the next call on; connections stay open."""
        self._service.serve(services)
        self._server.forget()  # guard: O2.grpc-newest
        self._inspection = services.inspection

    async def start(self) -> int:
        """Listen, and say on which port. Raises OSError when the address cannot be had."""
        # guard: M5.grpc-tls -> tls = None
        tls = None if self._tls is None else listening(self._tls, speaks="h2")
        host, port = self._address
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._shared:  # else a second gateway on the port is a mistake, not a peer
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            sock.bind(self._address)
            await self._server.start(sock, tls)
        except OSError as exc:
            sock.close()
            raise OSError(f"cannot listen on {host}:{port}") from exc
        bound: int = sock.getsockname()[1]
        return bound

    async def drain(self, grace_s: float) -> None:
        """Accept nothing more, finish what is in flight within `grace_s`, then cancel it."""
        self._health.drain()
        self._service.drain()
        await self._server.stop(grace_s)


def _unary(handle: Callable[[bytes, Context], Any]) -> Any:
    return grpc.unary_unary_rpc_method_handler(handle)
