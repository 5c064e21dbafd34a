"""The Open Inference Protocol over HTTP, with Triton's binary tensors in both directions."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.demo.cloud import inference, tensors
from gateway.demo.cloud.conditions import Conditions
from gateway.demo.cloud.documents import JsonDocument, parsed
from gateway.demo.cloud.errors import InvalidRequest, ProviderError
from gateway.demo.cloud.inference import Inference
from gateway.demo.cloud.models import SimulatedModel, checked_datatype
from gateway.demo.cloud.provider import decompressed
from gateway.demo.cloud.tensors import Array

HEADER_LENGTH = "inference-header-content-length"


@dataclasses.dataclass(frozen=True, slots=True)
class WantedOutput:
    name: str
    binary: bool


@dataclasses.dataclass(frozen=True, slots=True)
class RestCall:
    id: str | None
    inputs: dict[str, Array]
    outputs: tuple[WantedOutput, ...]


class V2Rest:
    def __init__(self, models: Inference, conditions: Conditions) -> None:
        self._models = models
        self._conditions = conditions

    async def live(self, _: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, _: Request) -> Response:
        return JSONResponse({"ready": True})

    async def server(self, _: Request) -> Response:
        return JSONResponse(inference.SERVER)

    async def metadata(self, request: Request) -> Response:
        return JSONResponse(inference.metadata(await self._model(request)))

    async def model_ready(self, request: Request) -> Response:
        model = await self._model(request)
        return JSONResponse({"name": model.name, "ready": True})

    async def config(self, request: Request) -> Response:
        return JSONResponse(inference.config(await self._model(request)))

    async def stats(self, request: Request) -> Response:
        model = await self._model(request)
        count = self._conditions.models[model.name]
        return JSONResponse(
            {
                "model_stats": [
                    {
                        "name": model.name,
                        "version": "1",
                        "inference_count": count,
                        "execution_count": count,
                    }
                ]
            }
        )

    async def infer(self, request: Request) -> Response:
        model = await self._model(request)
        body = decompressed(request.headers, await request.body())
        call = _call(model, body, _header_bytes(request, len(body)))
        outputs = await self._models.infer(model, call.inputs)
        return _answer(model, call, outputs)

    async def _model(self, request: Request) -> SimulatedModel:
        parts: Mapping[str, str] = request.path_params
        return await self._models.model(parts["model"], parts.get("version", ""))


def _header_bytes(request: Request, body_bytes: int) -> int:
    given = request.headers.get(HEADER_LENGTH)
    if given is None:
        return body_bytes
    if not given.isascii() or not given.isdigit() or int(given) > body_bytes:
        raise InvalidRequest(f"{HEADER_LENGTH}: not a length within the body")
    return int(given)


def _call(model: SimulatedModel, body: bytes, header_bytes: int) -> RestCall:
    head = parsed(body[:header_bytes])
    inputs: dict[str, Array] = {}
    at = header_bytes
    for tensor in head.items("inputs"):
        name = tensor.need("name", str)
        datatype = checked_datatype(model, name, tensor.need("datatype", str))
        shape = _shape(tensor)
        size = JsonDocument(tensor.get("parameters", dict, {})).get("binary_data_size", int)
        if size is None:
            inputs[name] = tensors.from_values(name, datatype, shape, tensor.need("data", list))
            continue
        if size < 0 or at + size > len(body):
            raise InvalidRequest(f"input '{name}': binary_data_size is beyond the body")
        inputs[name] = tensors.from_raw(name, datatype, shape, body[at : at + size])
        at += size
    if at != len(body):
        raise InvalidRequest("the body holds more binary data than its header describes")
    return RestCall(head.get("id", str), inputs, _wanted(model, head))


def _shape(tensor: JsonDocument) -> list[int]:
    shape = tensor.need("shape", list)
    if not all(type(size) is int and size >= 0 for size in shape):
        raise InvalidRequest("'shape' must hold sizes")
    return shape


def _wanted(model: SimulatedModel, head: JsonDocument) -> tuple[WantedOutput, ...]:
    known = [spec.name for spec in model.outputs]
    parameters = JsonDocument(head.get("parameters", dict, {}))
    all_binary = parameters.get("binary_data_output", bool, False)
    if not head.fields.get("outputs"):
        return tuple(WantedOutput(name, all_binary) for name in known)
    wanted = []
    for output in head.items("outputs"):
        name = output.need("name", str)
        if name not in known:
            raise InvalidRequest(f"unexpected inference output '{name}' for model '{model.name}'")
        body = JsonDocument(output.get("parameters", dict, {}))
        wanted.append(WantedOutput(name, body.get("binary_data", bool, all_binary)))
    return tuple(wanted)


def _answer(model: SimulatedModel, call: RestCall, outputs: Mapping[str, Array]) -> Response:
    datatypes = {spec.name: spec.datatype for spec in model.outputs}
    described: list[dict[str, Any]] = []
    raw = b""
    for wanted in call.outputs:
        if wanted.name not in outputs:
            raise ProviderError(f"model '{model.name}' gave no output '{wanted.name}'")
        array, datatype = outputs[wanted.name], datatypes[wanted.name]
        tensor: dict[str, Any] = {
            "name": wanted.name,
            "datatype": datatype,
            "shape": list(array.shape),
        }
        if wanted.binary:
            piece = tensors.to_raw(array, datatype)
            tensor["parameters"] = {"binary_data_size": len(piece)}
            raw += piece
        else:
            tensor["data"] = tensors.to_values(array, datatype)
        described.append(tensor)
    head: dict[str, Any] = {"model_name": model.name, "model_version": "1", "outputs": described}
    if call.id:
        head["id"] = call.id
    if not raw:
        return JSONResponse(head)
    encoded = json.dumps(head, separators=(",", ":")).encode()
    return Response(
        encoded + raw,
        media_type="application/octet-stream",
        headers={HEADER_LENGTH: str(len(encoded))},
    )
