"""Tensors in the protobuf messages of the Open Inference Protocol, to and from numpy."""

from collections.abc import Mapping
from typing import Any

from tritonclient.grpc import service_pb2

from gateway.demo.cloud import tensors
from gateway.demo.cloud.errors import InvalidRequest
from gateway.demo.cloud.models import SimulatedModel, checked_datatype
from gateway.demo.cloud.tensors import Array

_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def read_inputs(model: SimulatedModel, request: Any) -> dict[str, Array]:
    raw = list(request.raw_input_contents)
    if raw and len(raw) != len(request.inputs):
        raise InvalidRequest("raw_input_contents must hold one item for each input")
    inputs = {}
    for at, tensor in enumerate(request.inputs):
        datatype = checked_datatype(model, tensor.name, tensor.datatype)
        if any(size < 0 for size in tensor.shape):
            raise InvalidRequest(f"input '{tensor.name}': its shape must hold sizes")
        if raw:
            array = tensors.from_raw(tensor.name, datatype, tensor.shape, raw[at])
        elif datatype in _CONTENTS:
            values = list(getattr(tensor.contents, _CONTENTS[datatype]))
            array = tensors.from_values(tensor.name, datatype, tensor.shape, values)
        else:
            raise InvalidRequest(f"input '{tensor.name}': {datatype} must be raw")
        inputs[tensor.name] = array
    return inputs


def make_response(model: SimulatedModel, request: Any, outputs: Mapping[str, Array]) -> Any:
    response = service_pb2.ModelInferResponse(
        model_name=model.name, model_version="1", id=request.id
    )
    datatypes = {spec.name: spec.datatype for spec in model.outputs}
    names = [output.name for output in request.outputs] or list(outputs)
    for name in names:
        if name not in datatypes:
            raise InvalidRequest(f"unexpected inference output '{name}' for model '{model.name}'")
        if name not in outputs:
            continue  # a streamed answer leaves out what it has nothing of
        array = outputs[name]
        response.outputs.add(name=name, datatype=datatypes[name], shape=array.shape)
        response.raw_output_contents.append(tensors.to_raw(array, datatypes[name]))
    return response
