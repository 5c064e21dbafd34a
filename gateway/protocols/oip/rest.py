"""The REST form: a JSON object, and behind it the raw bytes of the tensors that it only announces
(the binary tensor extension). What is read here is written anew: no byte of the caller's JSON
goes on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.core.errors import MalformedBody, NotOffered, RequestRejected
from gateway.core.types import Parameter, RequestedOutput, Tensor, TensorCall
from gateway.protocols import strictjson
from gateway.protocols.oip import elements
from gateway.protocols.oip.datatypes import (
    Datatype,
    check_bytes,
    check_count,
    element_count,
    find,
    label,
    tensor_error,
)
from gateway.protocols.strictjson import BOUNDS, JsonBounds

_REQUEST_KEYS = frozenset({"id", "inputs", "outputs", "parameters", "model_name", "model_version"})
_INPUT_KEYS = frozenset({"name", "datatype", "shape", "data", "parameters"})
_OUTPUT_KEYS = frozenset({"name", "parameters", "datatype", "shape"})
_SHARED_MEMORY = "shared_memory"
BINARY_SIZE, BINARY_DATA, BINARY_OUTPUT = "binary_data_size", "binary_data", "binary_data_output"

NO_PARAMETERS: Mapping[str, Parameter] = {}
_FREE = (str, bool)  # types of parameters of which any value will do


def decode_request(
    body: bytes,
    header_length: int | None = None,
    max_depth: int = 64,
    version: str = "",
    bounds: JsonBounds = BOUNDS,
) -> TensorCall:
    """`header_length` is the value of `inference-header-content-length`; None when the body is
    JSON alone. The path has the `version`. Raises MalformedBody (400) or NotOffered (400)."""
    text, tail = (body, b"") if header_length is None else divide(body, header_length)
    document = strictjson.load_object(text, max_depth, bounds)
    if not _REQUEST_KEYS.issuperset(document):
        raise _unknown_field(_REQUEST_KEYS, "the request")
    given = document.get("inputs")
    if not isinstance(given, list):
        raise MalformedBody("inputs: must be a list of tensors")
    check_count(given, "inputs")
    inputs = read_tensors(given, tail, "inputs", from_caller=True)
    _unique(inputs, "inputs")
    outputs: tuple[RequestedOutput, ...] = ()
    requested = document.get("outputs")
    if requested is not None:
        check_count(_list(requested, "outputs"), "outputs")
        outputs = tuple([_output(item, at) for at, item in enumerate(requested)])
        _unique(outputs, "outputs")
    pairs = document.get("parameters")
    pairs = NO_PARAMETERS if pairs is None else parameters(pairs, "the request")
    if not isinstance(pairs.get(BINARY_OUTPUT, False), bool):
        raise MalformedBody(f"parameters: {BINARY_OUTPUT} must be true or false")
    return TensorCall(inputs, outputs, pairs, _string(document.get("id", ""), "id"), version)


def encode_request(
    call: TensorCall,
    *,
    id: str | None = None,
    binary_outputs: bool = False,
    timeout_us: int | None = None,
) -> tuple[bytes, int]:
    """The body, and the length of its JSON part; every input goes as raw bytes. It has this `id`,
    or without one the caller's. With
    `binary_outputs` the answer comes in raw bytes too, whatever the caller asked for (for a
    caller that reads no JSON); `timeout_us` takes the place of the caller's `timeout`."""
    sent_id = call.id if id is None else id
    document: dict[str, Any] = {"id": sent_id} if sent_id else {}
    if call.parameters or timeout_us is not None or binary_outputs:
        parameters = dict(call.parameters)
        if timeout_us is not None:
            parameters["timeout"] = timeout_us
        if binary_outputs:
            parameters[BINARY_OUTPUT] = True
        document["parameters"] = parameters
    document["inputs"] = [
        {
            "name": tensor.name,
            "shape": tensor.shape,
            "datatype": tensor.datatype,
            "parameters": {**tensor.parameters, BINARY_SIZE: len(tensor.data)},
        }
        for tensor in call.inputs
    ]
    if call.outputs:
        document["outputs"] = [_requested(output, binary_outputs) for output in call.outputs]
    text = strictjson.dumps(document)
    return b"".join([text, *[tensor.data for tensor in call.inputs]]), len(text)


def wants_binary(call: TensorCall, name: str) -> bool:
    """Whether the caller asked for this output as raw bytes. As on Triton 2.51,
    `binary_data_output` is about a call that names no output."""
    for output in call.outputs:
        if output.name == name:
            return bool(output.parameters.get(BINARY_DATA, False))
    return bool(call.parameters.get(BINARY_OUTPUT, False))


def divide(body: bytes, header_length: int) -> tuple[bytes, bytes]:
    """The JSON part, and the raw bytes behind it."""
    if header_length == 0:
        raise NotOffered(
            "inference-header-content-length: raw requests without a JSON part are not offered"
        )
    if not 0 < header_length <= len(body):
        raise MalformedBody(
            f"inference-header-content-length: must be within the body's {len(body)} bytes"
        )
    return body[:header_length], body[header_length:]


def read_tensors(
    items: Sequence[object], tail: bytes, kind: str, *, from_caller: bool
) -> tuple[Tensor, ...]:
    """A list of tensors, each with its slice of the raw bytes, in order. Of a caller only the
    fields that are known are taken, and of JSON only what Triton takes."""
    tensors, begin = [], 0
    for at, item in enumerate(items):
        if not isinstance(item, dict):
            raise MalformedBody(f"{kind}[{at}]: must be an object")
        name = item.get("name")
        if not isinstance(name, str) or not name:
            raise MalformedBody(f"{kind}[{at}].name: must be a string")
        try:
            if from_caller and not _INPUT_KEYS.issuperset(item):
                raise _unknown_field(_INPUT_KEYS)
            datatype = find(item.get("datatype"))
            shape = item.get("shape")
            if not isinstance(shape, list):
                raise MalformedBody("shape: must be a list")
            count = element_count(shape)
            given, size = item.get("parameters"), None
            if given is None:
                given = NO_PARAMETERS
            else:
                given, size = _without_size(parameters(given))
            if size is None:
                data = _encode_json_values(item, datatype, count, from_caller)
            else:
                end = begin + _size(item, size, len(tail) - begin)
                data, begin = tail[begin:end], end
                check_bytes(data, datatype, count)
        except RequestRejected as error:
            raise tensor_error(error, kind, at, name) from None
        tensors.append(Tensor(name, datatype.name, tuple(shape), data, given))
    if begin != len(tail):
        raise MalformedBody(
            f"{kind}: the tensors announce {begin} bytes of binary data, the body has {len(tail)}"
        )
    return tuple(tensors)


def _encode_json_values(
    item: dict[str, Any], datatype: Datatype, count: int, from_caller: bool
) -> bytes:
    if "data" not in item:
        raise MalformedBody(f"has neither data nor {BINARY_SIZE}")
    if from_caller and datatype.name in elements.BINARY_ONLY:
        raise MalformedBody(
            f"receiving {datatype.name} data via JSON is not supported. "
            "Please use the binary data format"
        )
    return elements.read(item["data"], datatype, count)


def _without_size(
    given: Mapping[str, Parameter],
) -> tuple[Mapping[str, Parameter], Parameter | None]:
    """Parameters of a tensor but for the one that says how many raw bytes it has, and that one."""
    size = given.get(BINARY_SIZE)
    if size is None or len(given) == 1:
        return given if size is None else NO_PARAMETERS, size
    return {name: value for name, value in given.items() if name != BINARY_SIZE}, size


def _size(item: dict[str, Any], size: Parameter, left: int) -> int:
    if "data" in item:
        raise MalformedBody(f"has both data and {BINARY_SIZE}; send one of them")
    if type(size) is int and 0 <= size <= left:
        return size
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise MalformedBody(f"{BINARY_SIZE} must be a number of bytes")
    raise MalformedBody(f"expects {size} bytes of binary data, the body has {left} left")


def parameters(given: object, where: str = "") -> Mapping[str, Parameter]:
    """Checked parameters of a request, a tensor or an answer."""
    if given is None:
        return NO_PARAMETERS
    prefix = where and f"{where}: "
    if not isinstance(given, dict):
        raise MalformedBody(f"{prefix}parameters must be an object")
    for name, value in given.items():
        if name.startswith(_SHARED_MEMORY):
            raise NotOffered(f"{prefix}shared memory is not offered; send the tensor itself")
        kind = type(value)
        if kind is int:
            if not -(1 << 63) <= value < 1 << 64:
                raise MalformedBody(f"{prefix}a parameter is beyond 64 bits")
        elif kind not in _FREE and not (kind is float and math.isfinite(value)):
            raise MalformedBody(f"{prefix}parameters must be strings, numbers, true or false")
    return given


def _output(item: object, at: int) -> RequestedOutput:
    if not isinstance(item, dict):
        raise MalformedBody(f"outputs[{at}]: must be an object")
    name = _string(item.get("name"), f"outputs[{at}].name", needed=True)
    where = label("outputs", at, name)
    if not _OUTPUT_KEYS.issuperset(item):
        raise _unknown_field(_OUTPUT_KEYS, where)
    given = parameters(item.get("parameters"), where)
    if not isinstance(given.get(BINARY_DATA, False), bool):
        raise MalformedBody(f"{where}: {BINARY_DATA} must be true or false")
    top = given.get("classification", 0)
    if not isinstance(top, int) or isinstance(top, bool) or top < 0:
        raise MalformedBody(f"{where}: classification must be a number of classes")
    return RequestedOutput(name, given)


def _requested(output: RequestedOutput, binary: bool) -> dict[str, Any]:
    parameters = dict(output.parameters)
    if binary:
        parameters[BINARY_DATA] = True
    return {"name": output.name, "parameters": parameters} if parameters else {"name": output.name}


def _unknown_field(known: frozenset[str], where: str = "") -> NotOffered:
    words = f"has a field other than {', '.join(sorted(known))}"
    return NotOffered(f"{where}: {words}" if where else words)


def _unique(tensors: Sequence[Tensor] | Sequence[RequestedOutput], kind: str) -> None:
    if len(tensors) > 1 and len({tensor.name for tensor in tensors}) != len(tensors):
        raise MalformedBody(f"{kind}: two tensors have the same name")


def _string(value: object, where: str, *, needed: bool = False) -> str:
    if not isinstance(value, str) or (needed and not value):
        raise MalformedBody(f"{where}: must be a string")
    return value


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise MalformedBody(f"{where}: must be a list")
    return value
