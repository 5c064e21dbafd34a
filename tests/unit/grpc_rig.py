"""A fake Triton on a real socket, and the gRPC front on one over a pipeline that does as told."""

from __future__ import annotations

import asyncio
import itertools
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pytest
from pydantic import SecretStr
from tritonclient.grpc import service_pb2, service_pb2_grpc

from gateway.auth import Callers
from gateway.config import KeySettings, LimitSettings
from gateway.config.model_catalog import Catalog, CatalogModel
from gateway.core.errors import GatewayError, InternalError, UpstreamUnreachable
from gateway.core.reply import (
    Frame,
    GrpcMessage,
    InferenceReply,
    Placement,
    Receiver,
    ReplyStream,
    RestBody,
    deliver_each,
)
from gateway.core.types import InferenceRequest, Sensitivity, TensorCall, Zone
from gateway.endpoints.connectors import Inspector
from gateway.server import Services
from gateway.server.grpc.front import GrpcFront

Message = Any
PLACEMENT = Placement(Zone.ONPREM, "gpu", "onprem_room", 1, Sensitivity.RESTRICTED, 0.0015)
OPTIONS = (("grpc.enable_http_proxy", 0),)


def infer_request(
    model: str = "simple", values: Sequence[int] = range(16), call: str = "", **parameters: Any
) -> Message:
    message = service_pb2.ModelInferRequest(model_name=model, id=call)
    for name in ("INPUT0", "INPUT1"):
        message.inputs.add(name=name, datatype="INT32", shape=[1, len(values)])
        message.raw_input_contents.append(struct.pack(f"<{len(values)}i", *values))
    for name, value in parameters.items():
        kind = {bool: "bool", int: "int64", str: "string", float: "double"}[type(value)]
        setattr(message.parameters[name], f"{kind}_param", value)
    return message


def infer_response(call: str = "", final: bool | None = None, model: str = "simple") -> Message:
    message = service_pb2.ModelInferResponse(model_name=model, model_version="1", id=call)
    if final is not None:
        message.parameters["triton_final_response"].bool_param = final
    return message


class Frames:
    """A reply of the frames that an iterator gives, which notes that it was closed."""

    def __init__(self, frames: AsyncIterator[Frame]) -> None:
        self._frames = frames
        self.closed = asyncio.Event()
        self.closed_s = 0.0

    def __aiter__(self) -> Frames:
        return self

    async def __anext__(self) -> Frame:
        return await anext(self._frames)

    async def deliver(self, receiver: Receiver[Frame]) -> None:
        await deliver_each(self, receiver)

    async def aclose(self) -> None:
        if not self.closed.is_set():
            self.closed_s = time.monotonic()
            self.closed.set()


async def answers(*messages: Message) -> AsyncIterator[Frame]:
    for message in messages:
        yield GrpcMessage(message.SerializeToString())


def reply(*messages: Message) -> InferenceReply:
    return InferenceReply(PLACEMENT, Frames(answers(*messages)))


class FakeInspector:
    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.answers: dict[str, Message] = {}

    async def rest(self, path: str, timeout_s: float) -> RestBody:
        raise NotImplementedError

    async def grpc(self, method: str, message: bytes, timeout_s: float) -> bytes:
        self.asked.append((method, message))
        if method not in self.answers:
            raise UpstreamUnreachable("there is nobody")
        answer: bytes = self.answers[method].SerializeToString()
        return answer


@dataclass
class FakeInspection:
    inspector: FakeInspector = field(default_factory=FakeInspector)
    is_ready: bool = True
    onprem: bool = True
    names: Mapping[str, str] = field(default_factory=dict)

    def server_inspector(self) -> Inspector:
        return self.inspector

    def model_inspector(self, model: str) -> tuple[Inspector, str]:
        return self.inspector, self.names.get(model, model)

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return self.is_ready

    def onprem_up(self) -> bool:
        return self.onprem

    def model_ready(self, model: str) -> bool:
        return self.is_ready


Handle = Callable[[InferenceRequest], Awaitable[InferenceReply]]


async def unhandled(request: InferenceRequest) -> InferenceReply:
    raise InternalError("this test expects no call")


@dataclass
class RunningFront:
    front: GrpcFront
    services: Services
    port: int
    inspection: FakeInspection
    channel: Any
    stub: Any

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def running_front(
    handle: Handle = unhandled,
    *,
    keys: Mapping[str, KeySettings] | None = None,
    limits: LimitSettings | None = None,
    inspection: FakeInspection | None = None,
    made: Services | None = None,
) -> AsyncIterator[RunningFront]:
    ids = itertools.count()
    inspection = inspection or FakeInspection()
    services = made or Services(
        handle=handle,
        callers=Callers(keys or {}),
        catalog=Catalog(
            {n: CatalogModel(n, "infer", ("gpu",)) for n in ("simple", "repeat", "seq")}
        ),
        inspection=inspection,
        limits=limits or LimitSettings(),
        new_id=lambda: f"call-{next(ids)}",
        clock=time.monotonic,
    )
    front = GrpcFront(services, "127.0.0.1", 0)
    port = await front.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            yield RunningFront(front, services, port, inspection, channel, stub)
    finally:
        await front.drain(0)


def key(secret: str = "secret", models: tuple[str, ...] | None = None) -> KeySettings:
    return KeySettings(key=SecretStr(secret), tenant="t", models=models)


class FakeTriton(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Records what reaches it, and answers as its hooks say."""

    def __init__(self) -> None:
        self.requests: list[Message] = []
        self.metadata: list[dict[str, str]] = []
        self.remaining_s: list[float] = []
        self.cancelled = asyncio.Event()
        self.cancelled_s = 0.0
        self.entered = asyncio.Event()
        self.infer: Callable[[Message, Any], Awaitable[Message]] | None = None
        self.stream: Callable[[Message, Any], AsyncIterator[Message]] | None = None

    def _note(self, request: Message, context: Any) -> None:
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        self.remaining_s.append(context.time_remaining())
        self.entered.set()

    def _note_cancel(self) -> None:
        self.cancelled_s = time.monotonic()
        self.cancelled.set()

    async def ModelInfer(self, request: Message, context: Any) -> Message:
        self._note(request, context)
        try:
            if self.infer is not None:
                return await self.infer(request, context)
            return infer_response(request.id, model=request.model_name)
        except asyncio.CancelledError:
            self._note_cancel()
            raise

    async def ModelStreamInfer(
        self, requests: AsyncIterator[Message], context: Any
    ) -> AsyncIterator[Message]:
        try:
            async for request in requests:
                self._note(request, context)
                assert self.stream is not None
                async for event in self.stream(request, context):
                    yield event
        except asyncio.CancelledError:
            self._note_cancel()
            raise

    async def ServerReady(self, request: Message, context: Any) -> Message:
        return service_pb2.ServerReadyResponse(ready=True)

    async def ModelMetadata(self, request: Message, context: Any) -> Message:
        self._note(request, context)
        return service_pb2.ModelMetadataResponse(name=request.name, platform="fake")


def event(response: Message, error: str = "") -> Message:
    return service_pb2.ModelStreamInferResponse(infer_response=response, error_message=error)


@asynccontextmanager
async def fake_triton() -> AsyncIterator[tuple[FakeTriton, str]]:
    server = grpc.aio.server(options=OPTIONS)
    fake = FakeTriton()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(fake, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield fake, f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def all_of(stream: ReplyStream) -> list[Message]:
    found = []
    try:
        async for frame in stream:
            assert isinstance(frame, GrpcMessage)
            found.append(service_pb2.ModelInferResponse.FromString(frame.message))
    finally:
        await stream.aclose()
    return found


def payload_of(request: InferenceRequest) -> TensorCall:
    assert isinstance(request.payload, TensorCall)
    return request.payload


class Pipeline:
    """Answers each call alike, and remembers them."""

    def __init__(self, error: GatewayError | None = None) -> None:
        self.error = error
        self.seen: list[InferenceRequest] = []
        self.frames: list[Any] = []

    async def handle(self, request: InferenceRequest) -> InferenceReply:
        self.seen.append(request)
        if self.error is not None:
            raise self.error
        answer = reply(infer_response(payload_of(request).id))
        self.frames.append(answer.frames)
        return answer


async def failure(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def told(error: grpc.aio.AioRpcError) -> dict[str, Any]:
    trailers: Any = error.trailing_metadata() or ()
    return dict(trailers)
