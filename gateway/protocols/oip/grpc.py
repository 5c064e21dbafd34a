"""The gRPC form: `inference.ModelInferRequest` and `ModelInferResponse`.

A message is read into values and written anew, so that fields which nobody knows, and which
protobuf would carry along unseen, end here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from gateway.core.errors import MalformedBody, NotOffered, RequestRejected, UpstreamFailed
from gateway.core.reply import GrpcMessage, RestBody
from gateway.core.types import Parameter, RequestedOutput, Tensor, TensorCall
from gateway.protocols.oip import rest_reply
from gateway.protocols.oip.datatypes import (
    Datatype,
    check_bytes,
    check_count,
    check_strings,
    element_count,
    find,
    join,
    label,
    tensor_error,
)
from gateway.protocols.oip.reply import TensorReply
from gateway.protocols.oip.rest import BINARY_DATA, BINARY_OUTPUT, BINARY_SIZE, NO_PARAMETERS

_VERSION = re.compile(r"[0-9]{0,18}")
_PACKED_AT_ONCE = 1 << 14  # elements
_ID_FIELD, _LENGTH_DELIMITED = 3, 2  # of a ModelInferResponse; the wire type of what has a length
_RAW_INPUTS, _RAW_OUTPUTS = b"\x3a", b"\x32"  # fields 7 and 6 of the two messages, with a length
_SHARED_MEMORY = "shared_memory"
_REST_ONLY = frozenset({BINARY_DATA, BINARY_OUTPUT, BINARY_SIZE})


def decode_request(message: Any, *, streamed: bool = False) -> TensorCall:
    """The call in a `ModelInferRequest`. Raises MalformedBody or NotOffered."""
    version = message.model_version
    if version and not _VERSION.fullmatch(version):
        raise MalformedBody("model_version: must be at most 18 decimal digits, or empty")
    check_count(message.inputs, "inputs")
    check_count(message.outputs, "outputs")
    inputs = _tensors(message.inputs, message.raw_input_contents, "inputs")
    outputs: tuple[RequestedOutput, ...] = ()
    if message.outputs:
        outputs = tuple([_output(output, at) for at, output in enumerate(message.outputs)])
        _check_names(outputs, "outputs")
    if len(inputs) > 1:
        _check_names(inputs, "inputs")
    fields = message.parameters
    parameters = _parameters(fields, "parameters: ") if fields else NO_PARAMETERS
    return TensorCall(inputs, outputs, parameters, message.id, version, streamed)


def _check_names(named: Sequence[Tensor | RequestedOutput], kind: str) -> None:
    if len({each.name for each in named}) != len(named):
        raise MalformedBody(f"{kind}: two tensors have the same name")


def _output(output: Any, at: int) -> RequestedOutput:
    name = _named(output.name, "outputs", at)
    try:
        return RequestedOutput(name, _parameters(output.parameters))
    except RequestRejected as error:
        raise tensor_error(error, "outputs", at, name) from None


def encode_request(
    call: TensorCall,
    model: str,
    version: str = "",
    *,
    timeout_us: int | None = None,
    without: Container[str] = (),
) -> list[bytes]:
    """A serialised `ModelInferRequest` in pieces, with every input in `raw_input_contents`, and all
    parameters of the request but those."""
    message = service_pb2.ModelInferRequest(model_name=model, model_version=version, id=call.id)
    if call.parameters:
        remaining = {name: value for name, value in call.parameters.items() if name not in without}
        _set(message.parameters, remaining)
    if timeout_us is not None:
        _set(message.parameters, {"timeout": timeout_us})
    _add(message.inputs, call.inputs)
    for wanted in call.outputs:
        output = message.outputs.add(name=wanted.name)
        _set(output.parameters, wanted.parameters)
    return [message.SerializeToString(), *_raw(_RAW_INPUTS, [t.data for t in call.inputs])]


def decode_response(message: GrpcMessage) -> TensorReply:
    """Raises UpstreamFailed for what is not an answer of the protocol."""
    reply = service_pb2.ModelInferResponse()
    try:
        reply.ParseFromString(message.message)
        return TensorReply(
            model=reply.model_name,
            version=reply.model_version,
            outputs=_tensors(reply.outputs, reply.raw_output_contents, "outputs"),
            id=reply.id,
            parameters=_parameters(reply.parameters),
        )
    except (DecodeError, MalformedBody, NotOffered):
        raise UpstreamFailed("the endpoint's answer is not of the protocol") from None


def response_id(message: bytes) -> bytes:
    """The id in a serialised `ModelInferResponse`, whose tensors are not read; nothing if there is
    none, or if the message is none."""
    call_id, at = b"", 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 != _LENGTH_DELIMITED:
            break  # the protocol has no field of another type
        size, at = _varint(message, at)
        if tag >> 3 == _ID_FIELD:
            call_id = message[at : at + size]
        at += size
    return call_id


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where the next one begins: behind the message if it is cut off."""
    number = shift = 0
    for position in range(at, min(at + 10, len(message))):
        number |= (message[position] & 0x7F) << shift
        if message[position] < 0x80:
            return number, position + 1
        shift += 7
    return 0, len(message)


def encode_response(reply: TensorReply) -> GrpcMessage:
    message = service_pb2.ModelInferResponse(
        model_name=reply.model, model_version=reply.version, id=reply.id
    )
    _set(message.parameters, reply.parameters)
    _add(message.outputs, reply.outputs)
    contents = raw_outputs([tensor.data for tensor in reply.outputs])
    return GrpcMessage(b"".join((message.SerializeToString(), *contents)))


def raw_outputs(contents: Sequence[bytes]) -> Iterator[bytes]:
    """The outputs' contents as the last field of a `ModelInferResponse`."""
    return _raw(_RAW_OUTPUTS, contents)


def rest_from_grpc(message: GrpcMessage, call: TensorCall) -> RestBody:
    """A gRPC endpoint's answer for the REST caller of this call."""
    return rest_reply.encode_response(decode_response(message), call)


def grpc_from_rest(body: RestBody) -> GrpcMessage:
    """A REST endpoint's answer for a gRPC caller."""
    return encode_response(rest_reply.decode_response(body))


def _tensors(given: Sequence[Any], raw: Sequence[bytes], kind: str) -> tuple[Tensor, ...]:
    """Tensors with their elements in `raw`, one each; or all of them in typed contents."""
    if raw and len(raw) != len(given):
        for at, item in enumerate(given):  # a reference into shared memory has no raw contents
            _parameters(item.parameters, f"{label(kind, at, item.name)}: ")
        raise MalformedBody(
            f"{kind}: {len(given)} tensors, but raw_{kind[:-1]}_contents has {len(raw)} entries"
        )
    tensors = []
    for at, item in enumerate(given):
        name = _named(item.name, kind, at)
        try:
            datatype, shape = find(item.datatype), tuple(item.shape)
            count = element_count(shape)
            if kind == "inputs":
                check_strings(datatype, count)
            parameters = _parameters(item.parameters) if item.parameters else NO_PARAMETERS
            typed: Sequence[str] = ()
            if item.HasField("contents"):
                typed = [field.name for field, _ in item.contents.ListFields()]
            if not raw:
                data = _from_contents(item.contents, typed, datatype, count)
            elif typed:
                raise MalformedBody("has both contents and raw contents; send one of them")
            else:
                data = raw[at]
                check_bytes(data, datatype, count)
        except RequestRejected as error:
            raise tensor_error(error, kind, at, name) from None
        tensors.append(Tensor(name, datatype.name, shape, data, parameters))
    return tuple(tensors)


def _from_contents(contents: Any, typed: Sequence[str], datatype: Datatype, count: int) -> bytes:
    if not datatype.contents and (typed or count):
        raise MalformedBody(f"{datatype.name} must be sent in raw contents")
    if any(name != datatype.contents for name in typed):
        raise MalformedBody(f"{datatype.name} belongs into {datatype.contents} alone")
    values = getattr(contents, datatype.contents) if datatype.contents else ()
    if len(values) != count:
        raise MalformedBody(f"its shape expects {count} elements, contents have {len(values)}")
    if not datatype.size:
        return join(values)
    try:
        return _packed(values, count, datatype.code or "B")
    except (struct.error, OverflowError):
        raise MalformedBody(f"contents have a number that {datatype.name} cannot hold") from None


def _packed(values: Any, count: int, code: str) -> bytes:
    """Many in parts: as objects they are ten times what they are on the wire."""
    if count <= _PACKED_AT_ONCE:
        return struct.pack(f"<{count}{code}", *values)
    packed = bytearray()
    for at in range(0, count, _PACKED_AT_ONCE):
        part = values[at : at + _PACKED_AT_ONCE]
        packed += struct.pack(f"<{len(part)}{code}", *part)
    return bytes(packed)


def _raw(field: bytes, contents: Sequence[bytes]) -> Iterator[bytes]:
    """The contents of tensors as the last field of a message, without a copy: protobuf makes
    several."""
    for data in contents:
        yield field + _length(len(data))
        yield data


def _length(size: int) -> bytes:
    written = b""
    while size > 0x7F:
        written += bytes((size & 0x7F | 0x80,))
        size >>= 7
    return written + bytes((size,))


def _add(messages: Any, tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        item = messages.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        if tensor.parameters:
            _set(item.parameters, tensor.parameters)


def _named(name: str, kind: str, at: int) -> str:
    if not name:
        raise MalformedBody(f"{kind}[{at}]: has no name")
    return name


def _parameters(given: Any, prefix: str = "") -> Mapping[str, Parameter]:
    parameters: dict[str, Parameter] = {}
    for name, parameter in given.items():
        if name.startswith(_SHARED_MEMORY):
            raise NotOffered(f"{prefix}shared memory is not offered; send the tensor itself")
        choice = parameter.WhichOneof("parameter_choice")
        if choice is None:
            raise MalformedBody(f"{prefix}a parameter has no value")
        parameters[name] = getattr(parameter, choice)
    return parameters


def _set(messages: Any, given: Mapping[str, Parameter]) -> None:
    for name, value in given.items():
        if name in _REST_ONLY:
            continue
        parameter = messages[name]
        if isinstance(value, bool):
            parameter.bool_param = value
        elif isinstance(value, int):
            if value >= 1 << 63:
                parameter.uint64_param = value
            else:
                parameter.int64_param = value
        elif isinstance(value, float):
            parameter.double_param = value
        else:
            parameter.string_param = value
