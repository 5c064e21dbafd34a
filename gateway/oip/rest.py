"""The REST form: a JSON object, and behind it the raw bytes of the tensors that it only announces
(the binary tensor extension). What is read here is written anew: no byte of the caller's JSON
goes on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gateway import strictjson
from gateway.errors import MalformedBody, NotOffered
from gateway.oip import elements
from gateway.oip.datatypes import check_bytes, element_count, find, label
from gateway.types import Parameter, RequestedOutput, Tensor, TensorCall

_REQUEST_KEYS = frozenset({"id", "inputs", "outputs", "parameters", "model_name", "model_version"})
_INPUT_KEYS = frozenset({"name", "datatype", "shape", "data", "parameters"})
_OUTPUT_KEYS = frozenset({"name", "parameters", "datatype", "shape"})
_SHARED_MEMORY = "shared_memory"
BINARY_SIZE, BINARY_DATA, BINARY_OUTPUT = "binary_data_size", "binary_data", "binary_data_output"

NO_PARAMETERS: Mapping[str, Parameter] = {}


def decode_request(
    body: bytes, header_length: int | None = None, max_depth: int = 64
) -> TensorCall:
    """`header_length` is the value of `inference-header-content-length`; None when the body is
    JSON alone. Raises MalformedBody (400) or NotOffered (400)."""
    text, tail = divide(body, header_length)
    document = strictjson.load_object(text, max_depth)
    _only(document, _REQUEST_KEYS, "the request")
    given = document.get("inputs")
    if not isinstance(given, list):
        raise MalformedBody("inputs: must be a list of tensors")
    inputs = tuple(Tensors(tail, "inputs", _INPUT_KEYS).read(given))
    outputs = tuple(
        _output(item, at) for at, item in enumerate(_list(document.get("outputs"), "outputs"))
    )
    _unique([tensor.name for tensor in inputs], "inputs")
    _unique([output.name for output in outputs], "outputs")
    found = parameters(document.get("parameters"), "the request")
    if not isinstance(found.get(BINARY_OUTPUT, False), bool):
        raise MalformedBody(f"parameters: {BINARY_OUTPUT} must be true or false")
    return TensorCall(inputs, outputs, found, _string(document.get("id", ""), "id"))


def encode_request(
    call: TensorCall, *, binary_outputs: bool = False, timeout_us: int | None = None
) -> tuple[bytes, int]:
    """The body, and the length of its JSON part; every input goes as raw bytes. With
    `binary_outputs` the answer comes in raw bytes too, whatever the caller asked for (for a
    caller that reads no JSON); `timeout_us` takes the place of the caller's `timeout`."""
    document: dict[str, Any] = {}
    if call.id:
        document["id"] = call.id
    asked = dict(call.parameters)
    if timeout_us is not None:
        asked["timeout"] = timeout_us
    if binary_outputs:
        asked[BINARY_OUTPUT] = True
    if asked:
        document["parameters"] = asked
    document["inputs"] = [_announced(tensor) for tensor in call.inputs]
    if call.outputs:
        document["outputs"] = [_requested(output, binary_outputs) for output in call.outputs]
    text = strictjson.dumps(document)
    return b"".join((text, *(tensor.data for tensor in call.inputs))), len(text)


def wants_binary(call: TensorCall, name: str) -> bool:
    """Whether the caller asked for this output as raw bytes. As on Triton 2.51,
    `binary_data_output` is about a call that names no output."""
    for output in call.outputs:
        if output.name == name:
            return bool(output.parameters.get(BINARY_DATA, False))
    return bool(call.parameters.get(BINARY_OUTPUT, False))


def divide(body: bytes, header_length: int | None) -> tuple[bytes, bytes]:
    """The JSON part, and the raw bytes behind it."""
    if header_length is None:
        return body, b""
    if header_length == 0:
        raise NotOffered(
            "inference-header-content-length: raw requests without a JSON part are not offered"
        )
    if not 0 < header_length <= len(body):
        raise MalformedBody(
            f"inference-header-content-length: must be within the body's {len(body)} bytes"
        )
    return body[:header_length], body[header_length:]


class Tensors:
    """Reads a list of tensors, and hands each its slice of the raw bytes, in order."""

    def __init__(self, tail: bytes, kind: str, keys: frozenset[str] | None) -> None:
        self._tail = tail
        self._kind = kind
        self._keys = keys
        self._at = 0

    def read(self, items: Sequence[object]) -> list[Tensor]:
        found = [self._tensor(item, at) for at, item in enumerate(items)]
        if self._at != len(self._tail):
            raise MalformedBody(
                f"{self._kind}: the tensors announce {self._at} bytes of binary data, "
                f"the body has {len(self._tail)}"
            )
        return found

    def _tensor(self, item: object, at: int) -> Tensor:
        if not isinstance(item, dict):
            raise MalformedBody(f"{self._kind}[{at}]: must be an object")
        name = _string(item.get("name"), f"{self._kind}[{at}].name", needed=True)
        where = label(self._kind, at, name)
        if self._keys is not None:
            _only(item, self._keys, where)
        datatype = find(item.get("datatype"), where)
        shape = _list(item.get("shape"), f"{where}: shape", needed=True)
        count = element_count(shape, where)
        asked = dict(parameters(item.get("parameters"), where))
        size = asked.pop(BINARY_SIZE, None)
        if size is not None:
            if "data" in item:
                raise MalformedBody(f"{where}: has both data and {BINARY_SIZE}; send one of them")
            data = self._slice(size, where)
            check_bytes(data, datatype, count, where)
        elif "data" not in item:
            raise MalformedBody(f"{where}: has neither data nor {BINARY_SIZE}")
        else:
            if self._keys is not None and datatype.name in elements.BINARY_ONLY:
                raise MalformedBody(
                    f"{where}: receiving {datatype.name} data via JSON is not supported. "
                    "Please use the binary data format"
                )
            data = elements.read(item["data"], datatype, count, where)
        return Tensor(name, datatype.name, tuple(shape), data, asked)

    def _slice(self, size: Parameter, where: str) -> bytes:
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise MalformedBody(f"{where}: {BINARY_SIZE} must be a number of bytes")
        left = len(self._tail) - self._at
        if size > left:
            raise MalformedBody(
                f"{where}: expects {size} bytes of binary data, the body has {left} left"
            )
        found = self._tail[self._at : self._at + size]
        self._at += size
        return found


def parameters(given: object, where: str) -> Mapping[str, Parameter]:
    """Checked parameters of a request, a tensor or an answer."""
    if given is None:
        return NO_PARAMETERS
    if not isinstance(given, dict):
        raise MalformedBody(f"{where}: parameters must be an object")
    for name, value in given.items():
        if name.startswith(_SHARED_MEMORY):
            raise NotOffered(f"{where}: shared memory is not offered; send the tensor itself")
        if isinstance(value, int):
            if not -(1 << 63) <= value < 1 << 64:
                raise MalformedBody(f"{where}: a parameter is beyond 64 bits")
        elif not isinstance(value, str) and not (isinstance(value, float) and math.isfinite(value)):
            raise MalformedBody(f"{where}: parameters must be strings, numbers, true or false")
    return given


def _output(item: object, at: int) -> RequestedOutput:
    if not isinstance(item, dict):
        raise MalformedBody(f"outputs[{at}]: must be an object")
    name = _string(item.get("name"), f"outputs[{at}].name", needed=True)
    where = label("outputs", at, name)
    _only(item, _OUTPUT_KEYS, where)
    asked = parameters(item.get("parameters"), where)
    if not isinstance(asked.get(BINARY_DATA, False), bool):
        raise MalformedBody(f"{where}: {BINARY_DATA} must be true or false")
    top = asked.get("classification", 0)
    if not isinstance(top, int) or isinstance(top, bool) or top < 0:
        raise MalformedBody(f"{where}: classification must be a number of classes")
    return RequestedOutput(name, asked)


def _announced(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "shape": tensor.shape,
        "datatype": tensor.datatype,
        "parameters": {**tensor.parameters, BINARY_SIZE: len(tensor.data)},
    }


def _requested(output: RequestedOutput, binary: bool) -> dict[str, Any]:
    asked = dict(output.parameters)
    if binary:
        asked[BINARY_DATA] = True
    return {"name": output.name, "parameters": asked} if asked else {"name": output.name}


def _only(document: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    if len(document.keys() - known) > 0:
        raise NotOffered(f"{where}: has a field other than {', '.join(sorted(known))}")


def _unique(names: Sequence[str], kind: str) -> None:
    if len(set(names)) != len(names):
        raise MalformedBody(f"{kind}: two tensors have the same name")


def _string(value: object, where: str, *, needed: bool = False) -> str:
    if not isinstance(value, str) or (needed and not value):
        raise MalformedBody(f"{where}: must be a string")
    return value


def _list(value: object, where: str, *, needed: bool = False) -> list[Any]:
    if value is None and not needed:
        return []
    if not isinstance(value, list):
        raise MalformedBody(f"{where}: must be a list")
    return value
