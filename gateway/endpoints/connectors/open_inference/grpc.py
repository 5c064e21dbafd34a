"""The client half of `GRPCInferenceService`, for every endpoint that speaks it.

Requests are written by us, message by message; answers are kept as the bytes that came. Every call
carries what is left of its deadline as `grpc-timeout`, and closing a reply, or cancelling the call
that opens it, cancels it at the endpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tritonclient.grpc import service_pb2

from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, NotOffered, UpstreamFailed, UpstreamRefused
from gateway.core.reply import (
    Frame,
    GrpcMessage,
    OneFrame,
    Receiver,
    ReplyStream,
    deliver_each,
)
from gateway.core.types import InferenceRequest, ServedModel, TensorCall
from gateway.endpoints.connectors.credential_mask import NO_CREDENTIALS, CredentialMask
from gateway.endpoints.connectors.open_inference import grpc_failures as failures
from gateway.endpoints.connectors.open_inference.grpc_wire import GrpcWire, encode_fields
from gateway.protocols.http2.calls import StreamedCall
from gateway.protocols.http2.message import GrpcStatusError
from gateway.protocols.http_client.wire import MAX_ANSWER_BYTES
from gateway.protocols.oip.grpc import response_id
from gateway.protocols.oip.stream_frames import StreamFrame
from gateway.protocols.pieces import joined
from gateway.protocols.tls import NO_FILES, TlsFiles

SERVICE = "/inference.GRPCInferenceService/"
_INFER = SERVICE + "ModelInfer"
_STREAM = SERVICE + "ModelStreamInfer"
READ_ONLY = frozenset(
    {
        "ServerLive",
        "ServerReady",
        "ServerMetadata",
        "ModelReady",
        "ModelMetadata",
        "ModelConfig",
        "ModelStatistics",
        "RepositoryIndex",
    }
)
PROBE_S = 2.0


@dataclass(frozen=True, slots=True)
class GrpcTarget:
    """Where an endpoint's gRPC side is, and how it is spoken to."""

    address: str  # host:port
    tls: bool = False
    files: TlsFiles = NO_FILES  # the usual authorities where there is no ca_file
    metadata: tuple[tuple[str, str], ...] = ()
    max_answer_bytes: int = MAX_ANSWER_BYTES
    connect_timeout_s: float = 5.0


Encode = Callable[[TensorCall, InferenceRequest, ServedModel], list[bytes]]
"""Writes the `ModelInferRequest` that goes out, in pieces."""


def bearer(api_key: str | None) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {api_key}"),) if api_key else ()


class OipGrpcClient:
    """Streams have a connection of their own: they may last, and a server takes so many calls on
    one."""

    def __init__(self, target: GrpcTarget, encode: Encode) -> None:
        """Raises ConfigError."""
        self._target = target
        self._encode = encode
        self._mask = CredentialMask(value for _, value in target.metadata)
        self._wire, self._streams = (
            GrpcWire(
                target.address,
                target.files if target.tls else None,
                target.metadata,
                connect_timeout_s=target.connect_timeout_s,
                max_answer_bytes=target.max_answer_bytes,
            )
            for _ in range(2)
        )

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        call = request.payload
        if not isinstance(call, TensorCall):
            raise UpstreamRefused("this endpoint serves tensors, not documents")
        message = await joined(self._encode(call, request, served))
        left_s = _remaining_s(request.deadline)
        own, held = _encode_request(request), request.held
        try:
            if call.streamed:
                stream = await self._streams.stream(_STREAM, message, left_s, own, held)
                return StreamReply(stream, self._mask)
            answer = await self._wire.call(_INFER, message, left_s, own, held)
        except failures.RAISED as exc:
            raise failures.ours(exc, self._mask) from None
        if call.id and response_id(answer) not in (b"", call.id.encode()):
            raise UpstreamFailed("the endpoint's answer has the id of another call")
        return OneFrame(GrpcMessage(answer))

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
        if method not in READ_ONLY:
            raise NotOffered(f"{method}: only methods that change nothing are offered")
        with failures.translated(self._mask):
            return await self._wire.ask(SERVICE + method, message, timeout_s)

    async def ready(self, timeout_s: float = PROBE_S) -> bool:
        for wire in (self._wire, self._streams):
            wire.renew()
        request = service_pb2.ServerReadyRequest().SerializeToString()
        try:
            raw = await self._wire.ask(SERVICE + "ServerReady", request, timeout_s)
        except GrpcStatusError:
            return False
        with failures.translated():
            return bool(service_pb2.ServerReadyResponse.FromString(raw).ready)

    async def aclose(self) -> None:
        for wire in (self._wire, self._streams):
            await wire.aclose()


def _pairs(request: InferenceRequest) -> tuple[tuple[str, str], ...]:
    pairs: tuple[tuple[str, str], ...] = (("x-request-id", request.id),)
    if request.traceparent:
        pairs += (("traceparent", request.traceparent),)
    if request.tracestate:
        pairs += (("tracestate", request.tracestate),)
    return pairs


def _encode_request(request: InferenceRequest) -> bytes:
    """The same, as a block of header fields."""
    call, trace = request.id, request.traceparent
    if request.tracestate or len(call) != _ID_LENGTH or len(trace) != _TRACE_LENGTH:
        return encode_fields(_pairs(request))
    return f"{_ID}{call}{_TRACE}{trace}".encode()


_ID_LENGTH, _TRACE_LENGTH = 36, 55  # of a UUID, of a traceparent
_ID, _TRACE = (
    encode_fields([(name, "x" * length)])[:-length].decode()
    for name, length in (("x-request-id", _ID_LENGTH), ("traceparent", _TRACE_LENGTH))
)


class StreamReply:
    """The answers to one request on a ModelStreamInfer of its own."""

    def __init__(self, call: StreamedCall, mask: CredentialMask = NO_CREDENTIALS) -> None:
        self._call = call
        self._mask = mask
        self._closed = False

    def __aiter__(self) -> StreamReply:
        return self

    async def __anext__(self) -> GrpcMessage:
        if self._closed:
            raise StopAsyncIteration
        try:
            with failures.translated(self._mask):
                return await self._next()
        except BaseException:  # to release the call, whatever ends it
            await self.aclose()
            raise

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        self._closed = True
        # guard: D3.stream-cancel
        self._call.close()  # harmless once it has ended

    async def _next(self) -> GrpcMessage:
        wire = await self._call.next()
        if wire is None:
            raise StopAsyncIteration
        frame = StreamFrame.decode(wire)
        if frame.error:
            raise failures.in_stream(frame, self._mask)
        return GrpcMessage(frame.response)


def read_message(kind: Any, raw: bytes) -> Any:
    """A message of the protocol; raises UpstreamFailed for what is none."""
    with failures.translated():
        return kind.FromString(raw)


def _remaining_s(deadline: Deadline) -> float:
    left_s = deadline.remaining_s()
    if left_s <= 0:
        raise DeadlineExceeded("the latency budget was used up before the call was sent on")
    return left_s
