"""The client half of `GRPCInferenceService`, for every endpoint that speaks it.

Requests are written by us, message by message; answers are kept as the bytes that came. Every call
carries what is left of its deadline as `grpc-timeout`, and closing a reply, or cancelling the call
that opens it, cancels it at the endpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2

from gateway.core.configfile import ConfigError
from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded, NotOffered, UpstreamFailed, UpstreamRefused
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare
from gateway.core.types import (
    GrpcMessage,
    InferenceRequest,
    OneFrame,
    ReplyStream,
    ServedModel,
    TensorCall,
)
from gateway.endpoints.connectors.open_inference import grpc_failures as failures
from gateway.endpoints.connectors.open_inference.grpc_wire import GrpcWire, fields_of
from gateway.protocols.http2.message import Status
from gateway.protocols.http_client.connection import answers_full
from gateway.protocols.http_client.wire import MAX_ANSWER_BYTES
from gateway.protocols.oip.grpc import response_id
from gateway.protocols.oip.stream_frames import StreamFrame
from gateway.protocols.pieces import joined
from gateway.protocols.tls import NO_FILES, TlsFiles

log = logging.getLogger(__name__)

SERVICE = "/inference.GRPCInferenceService/"
_INFER = SERVICE + "ModelInfer"
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
_KEEPALIVE_MS = 30_000
_EOF: Any = vars(grpc.aio)["EOF"]  # its stubs lack it


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
    """Unary calls over a connection of our own. Streams have a channel of gRPC's, made for the
    first of them, and another one when its certificates have changed, beside which calls go on
    over the last."""

    def __init__(self, target: GrpcTarget, encode: Encode) -> None:
        """Raises ConfigError."""
        self._target = target
        self._encode = encode
        self._wire = GrpcWire(
            target.address,
            target.files if target.tls else None,
            target.metadata,
            connect_timeout_s=target.connect_timeout_s,
            max_answer_bytes=target.max_answer_bytes,
        )
        self._seen = target.files.seen()
        self._channel: grpc.aio.Channel | None = None
        self._former: grpc.aio.Channel | None = None

    def _stream(self) -> Any:
        """A method of the channel."""
        if self._channel is None:
            self._channel = _channel(self._target)
        channel: Any = self._channel  # its stubs ask for serialisers, and we have none
        return channel.stream_stream(SERVICE + "ModelStreamInfer")

    async def _renew(self) -> None:
        self._wire.renew()
        if self._channel is None or not self._target.tls:
            return
        if (seen := self._target.files.seen()) == self._seen:
            return
        self._seen = seen
        try:
            channel = _channel(self._target)
        except ConfigError as exc:
            log.error("%s; those of before stay in use", exc)
            return
        last, self._former, self._channel = self._former, self._channel, channel
        if last is not None:
            await last.close(None)

    async def open(self, request: InferenceRequest, served: ServedModel) -> ReplyStream:
        call = request.payload
        if not isinstance(call, TensorCall):
            raise UpstreamRefused("this endpoint serves tensors, not documents")
        message = await joined(self._encode(call, request, served))
        left_s = _remaining_s(request.deadline)
        if call.streamed:
            pairs = Pairs((*self._target.metadata, *_pairs(request)))
            sent = self._stream()(metadata=pairs, timeout=left_s)
            return StreamReply(sent, message, request.held)
        try:
            answer = await self._wire.call(_INFER, message, left_s, _told(request), request.held)
        except failures.RAISED as exc:
            raise failures.ours(exc) from None
        if call.id and response_id(answer) not in (b"", call.id.encode()):
            raise UpstreamFailed("the endpoint's answer has the id of another call")
        return OneFrame(GrpcMessage(answer))

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
        if method not in READ_ONLY:
            raise NotOffered(f"{method}: only methods that change nothing are offered")
        with failures.translated():
            return await self._wire.ask(SERVICE + method, message, timeout_s)

    async def ready(self, timeout_s: float = PROBE_S) -> bool:
        await self._renew()
        request = service_pb2.ServerReadyRequest().SerializeToString()
        try:
            raw = await self._wire.ask(SERVICE + "ServerReady", request, timeout_s)
        except Status:
            return False
        with failures.translated():
            return bool(service_pb2.ServerReadyResponse.FromString(raw).ready)

    async def aclose(self) -> None:
        await self._wire.aclose()
        for channel in (self._channel, self._former):
            if channel is not None:
                await channel.close(None)


def _pairs(request: InferenceRequest) -> tuple[tuple[str, str], ...]:
    told: tuple[tuple[str, str], ...] = (("x-request-id", request.id),)
    if request.traceparent:
        told += (("traceparent", request.traceparent),)
    if request.tracestate:
        told += (("tracestate", request.tracestate),)
    return told


def _told(request: InferenceRequest) -> bytes:
    """The same, as a block of header fields."""
    call, trace = request.id, request.traceparent
    if request.tracestate or len(call) != _ID_LENGTH or len(trace) != _TRACE_LENGTH:
        return fields_of(_pairs(request))
    return f"{_ID}{call}{_TRACE}{trace}".encode()


_ID_LENGTH, _TRACE_LENGTH = 36, 55  # of a UUID, of a traceparent
_ID, _TRACE = (
    fields_of([(name, "x" * length)])[:-length].decode()
    for name, length in (("x-request-id", _ID_LENGTH), ("traceparent", _TRACE_LENGTH))
)


class Pairs(grpc.aio.Metadata):
    """Metadata that are only sent. gRPC's own sort them by name, which nobody asks for."""

    def __init__(self, pairs: tuple[tuple[str, str], ...]) -> None:
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)


class StreamReply:
    """The answers to one request on a ModelStreamInfer of its own."""

    def __init__(self, call: Any, request: bytes, held: AnswerShare | None = None) -> None:
        """`held`: where the last answer is counted."""
        self._held = held
        self._call = call
        self._request: bytes | None = request
        self._closed = False

    def __aiter__(self) -> StreamReply:
        return self

    async def __anext__(self) -> GrpcMessage:
        if self._closed:
            raise StopAsyncIteration
        try:
            with failures.translated():
                return await self._next()
        except BaseException:  # to release the call, whatever ends it
            await self.aclose()
            raise

    async def aclose(self) -> None:
        self._closed = True
        # guard: D3.stream-cancel
        self._call.cancel()  # harmless once it has ended

    async def _next(self) -> GrpcMessage:
        if self._request is not None:
            request, self._request = self._request, None
            await self._call.write(request)
            await self._call.done_writing()
        wire = await self._call.read()
        if wire is _EOF:
            if (code := await self._call.code()) is not grpc.StatusCode.OK:
                raise failures.of_status(code, await self._call.details() or "")
            raise StopAsyncIteration
        if self._held is not None and not self._held.hold(self, _counted(len(wire))):
            raise answers_full()
        frame = StreamFrame.decode(wire)
        if frame.error:
            raise failures.in_stream(frame)
        return GrpcMessage(frame.response)


def _counted(size: int) -> int:
    return size if size > UNCOUNTED_BYTES else 0


def read_message(kind: Any, raw: bytes) -> Any:
    """A message of the protocol; raises UpstreamFailed for what is none."""
    with failures.translated():
        return kind.FromString(raw)


def _remaining_s(deadline: Deadline) -> float:
    left_s = deadline.remaining_s()
    if left_s <= 0:
        raise DeadlineExceeded("the latency budget was used up before the call was sent on")
    return left_s


def _channel(target: GrpcTarget) -> grpc.aio.Channel:
    options = (
        ("grpc.enable_http_proxy", 0),  # or the environment could divert calls
        ("grpc.max_send_message_length", -1),  # capped where requests come in
        ("grpc.max_receive_message_length", target.max_answer_bytes),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.enable_retries", 0),  # attempts are counted where they are decided
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.use_local_subchannel_pool", 1),
    )
    if not target.tls:
        return grpc.aio.insecure_channel(target.address, options=options)
    files = target.files
    credentials = grpc.ssl_channel_credentials(
        files.read(files.ca_file), files.read(files.key_file), files.read(files.cert_file)
    )
    return grpc.aio.secure_channel(target.address, credentials, options=options)
