"""`GRPCInferenceService` on grpc.aio; calls of methods that it lacks are recorded too."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import json_format
from tritonclient.grpc import service_pb2

from gateway.demo.cloud import inference
from gateway.demo.cloud.bytelog import ByteLog, Record
from gateway.demo.cloud.conditions import Conditions, Fate, Refusal
from gateway.demo.cloud.errors import Failed, ProviderError, RateLimited, UnservedModel, WrongKey
from gateway.demo.cloud.grpc_door import GrpcDoor
from gateway.demo.cloud.inference import Inference
from gateway.demo.cloud.provider import LABEL
from gateway.demo.cloud.settings import OutageMode
from gateway.demo.cloud.v2_messages import make_response, read_inputs

SERVICE = "/inference.GRPCInferenceService/"
_NOT_A_MESSAGE = b"\xff\xff\xff\xff"
_MOST_MESSAGE_BYTES = 64 * 1024 * 1024

Context = Any  # grpc.aio.ServicerContext, of untyped messages
Unary = Callable[[Any], Awaitable[Any]]


if TYPE_CHECKING:  # generic in its stubs only
    _Handler = grpc.GenericRpcHandler[Any, Any]
else:
    _Handler = grpc.GenericRpcHandler


class V2Grpc(_Handler):
    def __init__(
        self, models: Inference, conditions: Conditions, log: ByteLog, door: GrpcDoor
    ) -> None:
        self._models = models
        self._conditions = conditions
        self._log = log
        self._door = door
        self._unary: dict[str, tuple[Any, Unary]] = {
            "ServerLive": (service_pb2.ServerLiveRequest, self._server_live),
            "ServerReady": (service_pb2.ServerReadyRequest, self._server_ready),
            "ServerMetadata": (service_pb2.ServerMetadataRequest, self._server_metadata),
            "ModelReady": (service_pb2.ModelReadyRequest, self._model_ready),
            "ModelMetadata": (service_pb2.ModelMetadataRequest, self._model_metadata),
            "ModelConfig": (service_pb2.ModelConfigRequest, self._model_config),
            "ModelInfer": (service_pb2.ModelInferRequest, self._model_infer),
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        path = handler_call_details.method
        lines = [path.encode()]
        for name, value in handler_call_details.invocation_metadata or ():
            raw = value if isinstance(value, bytes) else value.encode()
            lines.append(name.encode() + b": " + raw)
        self._log.append(Record("grpc", 0, "metadata", b"\n".join(lines)))
        method = path.removeprefix(SERVICE)
        if method in self._unary:
            return self._unary_handler(method)
        if method == "ModelStreamInfer":
            return grpc.stream_stream_rpc_method_handler(
                self._stream_infer, self._reader(service_pb2.ModelInferRequest), _written
            )
        return grpc.stream_stream_rpc_method_handler(_unknown_method, self._recorded, _written)

    def _recorded(self, raw: bytes) -> bytes:
        self._log.append(Record("grpc", 0, "message", raw))
        return raw

    def _reader(self, message: Any) -> Callable[[bytes], Any]:
        return lambda raw: message.FromString(self._recorded(raw))

    def _unary_handler(self, method: str) -> Any:
        message, answer = self._unary[method]

        async def handle(request: Any, context: Context) -> Any:
            model = getattr(request, "model_name", None) or getattr(request, "name", None)
            with self._conditions.call(f"grpc {method}", model or None) as fate:
                await self._meet(fate, context, inference_call=method == "ModelInfer")
                try:
                    response = await answer(request)
                except ProviderError as error:
                    await _abort(context, error)
                if method != "ModelInfer":
                    return response
                return await self._spoiled(fate, context, response)

        return grpc.unary_unary_rpc_method_handler(handle, self._reader(message), _written)

    async def _meet(self, fate: Fate, context: Context, *, inference_call: bool) -> None:
        context.set_trailing_metadata((LABEL,))
        if fate.outage is OutageMode.HANG:
            await asyncio.Event().wait()  # until the caller's deadline cancels it
        await asyncio.sleep(fate.round_trip_s)
        settings = self._conditions.settings
        given = dict(context.invocation_metadata() or ()).get("authorization")
        if settings.api_key is not None and given != f"Bearer {settings.api_key}":
            await _abort(context, WrongKey("Incorrect API key provided."))
        if inference_call and fate.refusal is Refusal.RATE_LIMITED:
            await _abort(context, RateLimited(settings))
        if inference_call and fate.refusal is Refusal.FAILED:
            await _abort(context, Failed(settings))

    async def _spoiled(self, fate: Fate, context: Context, response: Any) -> Any:
        if fate.outage is OutageMode.MALFORMED:
            return _NOT_A_MESSAGE
        if fate.outage is OutageMode.ERROR_EVENT:
            await _abort(context, Failed(self._conditions.settings))
        if fate.outage in (OutageMode.CUT, OutageMode.RESET):
            await self._break_off(fate, context)
        return response

    async def _break_off(self, fate: Fate, context: Context) -> None:
        if fate.outage is OutageMode.RESET:
            self._door.reset(context.peer())
        else:
            self._door.cut(context.peer())
        await asyncio.Event().wait()  # the call is cancelled as its connection ends

    async def _stream_infer(
        self, requests: AsyncIterator[Any], context: Context
    ) -> AsyncIterator[Any]:
        answered = 0
        async for request in requests:
            name = request.model_name
            with self._conditions.call("grpc ModelStreamInfer", name or None) as fate:
                await self._meet(fate, context, inference_call=True)
                async for response in self._answers(request):
                    if answered >= self._conditions.settings.cut_after_chunks:
                        spoiled = await self._spoiled_event(fate, context)
                        if spoiled is not None:
                            yield spoiled
                            return
                    answered += 1
                    yield response

    async def _spoiled_event(self, fate: Fate, context: Context) -> Any:
        if fate.outage is OutageMode.MALFORMED:
            return _NOT_A_MESSAGE
        if fate.outage is OutageMode.ERROR_EVENT:
            message = Failed(self._conditions.settings).message
            return service_pb2.ModelStreamInferResponse(error_message=message)
        if fate.outage in (OutageMode.CUT, OutageMode.RESET):
            await self._break_off(fate, context)
        return None

    async def _answers(self, request: Any) -> AsyncIterator[Any]:
        try:
            model = await self._models.model(request.model_name, request.model_version)
            inputs = read_inputs(model, request)
            if not model.decoupled:
                outputs = await self._models.infer(model, inputs)
                yield _event(make_response(model, request, outputs))
                return
            async for outputs in self._models.stream(model, inputs):
                response = make_response(model, request, outputs)
                response.parameters["triton_final_response"].bool_param = False
                yield _event(response)
            if request.parameters["triton_enable_empty_final_response"].bool_param:
                final = service_pb2.ModelInferResponse(
                    model_name=model.name, model_version="1", id=request.id
                )
                final.parameters["triton_final_response"].bool_param = True
                yield _event(final)
        except ProviderError as error:
            # Triton puts the failed request's id into an otherwise empty response.
            response = service_pb2.ModelInferResponse(id=request.id)
            yield service_pb2.ModelStreamInferResponse(
                error_message=error.message, infer_response=response
            )

    async def _server_live(self, _: Any) -> Any:
        return service_pb2.ServerLiveResponse(live=True)

    async def _server_ready(self, _: Any) -> Any:
        return service_pb2.ServerReadyResponse(ready=True)

    async def _server_metadata(self, _: Any) -> Any:
        return service_pb2.ServerMetadataResponse(**inference.SERVER)

    async def _model_ready(self, request: Any) -> Any:
        try:
            await self._models.model(request.name, request.version)
        except UnservedModel:
            return service_pb2.ModelReadyResponse(ready=False)
        return service_pb2.ModelReadyResponse(ready=True)

    async def _model_metadata(self, request: Any) -> Any:
        model = await self._models.model(request.name, request.version)
        return json_format.ParseDict(inference.metadata(model), service_pb2.ModelMetadataResponse())

    async def _model_config(self, request: Any) -> Any:
        model = await self._models.model(request.name, request.version)
        return service_pb2.ModelConfigResponse(config=model.config)

    async def _model_infer(self, request: Any) -> Any:
        model = await self._models.model(request.model_name, request.model_version)
        outputs = await self._models.infer(model, read_inputs(model, request))
        return make_response(model, request, outputs)


def server(handler: V2Grpc) -> Any:
    options: Sequence[tuple[str, Any]] = (
        ("grpc.max_receive_message_length", _MOST_MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MOST_MESSAGE_BYTES),
        ("grpc.so_reuseport", 0),
    )
    served = grpc.aio.server(options=options)
    served.add_generic_rpc_handlers((handler,))
    return served


def _written(message: Any) -> bytes:
    raw: bytes = message if isinstance(message, bytes) else message.SerializeToString()
    return raw


def _event(response: Any) -> Any:
    return service_pb2.ModelStreamInferResponse(infer_response=response)


async def _unknown_method(requests: AsyncIterator[Any], context: Context) -> None:
    async for _ in requests:
        pass  # it was recorded as it was read
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "", (LABEL,))


async def _abort(context: Context, error: ProviderError) -> None:
    metadata = [LABEL, *error.headers.items()]
    if "retry-after-ms" in error.headers:  # gRFC A6: when the server wants to be asked again
        metadata.append(
            ("grpc-retry-pushback-ms", str(int(float(error.headers["retry-after-ms"]))))
        )
    await context.abort(error.grpc_status, error.message, tuple(metadata))
