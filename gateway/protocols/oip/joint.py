"""Several calls as one of more rows, and its answer as theirs.

A row is an element of the first axis, which all tensors of a batched model share. What is divided
are the bytes of the server's answer: no number is read and written anew.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from gateway.core.errors import UpstreamFailed
from gateway.core.reply import Frame, GrpcMessage, RestBody
from gateway.core.types import RequestedOutput, Tensor, TensorCall
from gateway.protocols import strictjson
from gateway.protocols.oip import literals
from gateway.protocols.oip.datatypes import DATATYPES
from gateway.protocols.oip.grpc import raw_outputs
from gateway.protocols.oip.rest import BINARY_SIZE, divide

_SEQUENCE = "sequence_"
_UNREADABLE = (
    *(DecodeError, ValueError, LookupError, TypeError, AttributeError, RecursionError),
    struct.error,
)
_LENGTH = struct.Struct("<I")
_SIZE = BINARY_SIZE.encode()


@dataclass(frozen=True, slots=True)
class Part:
    """What one call has of a joint one: so many rows, behind those of the parts before it."""

    rows: int
    id: str  # the caller's


def row_count(call: TensorCall) -> int:
    """The rows of a call that may be joined with others; 0: it may not."""
    if call.streamed or not call.inputs:
        return 0
    if call.parameters and any(name.startswith(_SEQUENCE) for name in call.parameters):
        return 0  # guard: E5.sequence-alone
    rows = call.inputs[0].shape[:1]
    if any(tensor.shape[:1] != rows for tensor in call.inputs):
        return 0
    return rows[0] if rows else 0


def likeness(call: TensorCall) -> Hashable:
    """Calls with equal ones differ in their ids, their rows, and what is in these."""
    # guard: E5.like-shapes tensor.shape[1:] -> len(tensor.shape)
    tensors = tuple(
        [
            (tensor.name, tensor.datatype, tensor.shape[1:], _parameters(tensor))
            for tensor in call.inputs
        ]
    )
    # guard: E5.like-outputs -> outputs = ()
    outputs = tuple([(output.name, _parameters(output)) for output in call.outputs])
    parameters = _parameters(call)  # guard: E5.like-parameters -> parameters = ""
    return tensors, outputs, parameters


def _parameters(item: TensorCall | Tensor | RequestedOutput) -> str:
    """Parameters, with the type of each: true, 1 and 1.0 are three."""
    return repr(sorted(item.parameters.items())) if item.parameters else ""


def joined(calls: Sequence[TensorCall]) -> TensorCall:
    """One call with the rows of all of them, which are alike, in their order."""
    first = calls[0]
    inputs = []
    for at, tensor in enumerate(first.inputs):
        columns = [call.inputs[at] for call in calls]
        shape = (sum([column.shape[0] for column in columns]), *tensor.shape[1:])
        data = b"".join([column.data for column in columns])
        inputs.append(Tensor(tensor.name, tensor.datatype, shape, data, tensor.parameters))
    return TensorCall(tuple(inputs), first.outputs, first.parameters, "", first.version)


def divided(answer: Frame | None, parts: Sequence[Part]) -> list[Frame]:
    """The answer to a joint call as each of its parts would have had it alone. Raises
    UpstreamFailed for one that is not of so many rows."""
    try:
        if isinstance(answer, GrpcMessage):
            return [*_divided_message(answer.message, parts)]
        if isinstance(answer, RestBody):
            return [*_divided_body(answer, parts)]
    except _UNREADABLE:
        pass
    raise UpstreamFailed("the endpoint's answer cannot be divided into rows")


def _divided_message(message: bytes, parts: Sequence[Part]) -> Iterator[GrpcMessage]:
    reply = service_pb2.ModelInferResponse.FromString(message)
    outputs = reply.outputs
    if reply.parameters or any(output.parameters for output in outputs):
        raise ValueError  # of which part?
    ends = _ends(parts)
    columns = [
        _divided_data(
            data, DATATYPES[output.datatype].size, _row_elements(output.shape, ends), ends
        )
        for output, data in zip(outputs, reply.raw_output_contents, strict=True)
    ]
    model = service_pb2.ModelInferResponse(
        model_name=reply.model_name, model_version=reply.model_version
    ).SerializeToString()
    described: dict[int, bytes] = {}  # by rows, the part of a message that describes the outputs
    for part, *contents in zip(parts, *columns, strict=True):
        description = described.get(part.rows)
        if description is None:
            description = described[part.rows] = _described(outputs, part.rows)
        own = service_pb2.ModelInferResponse(id=part.id).SerializeToString() if part.id else b""
        yield GrpcMessage(b"".join((model, own, description, *raw_outputs(contents))))


def _described(outputs: Any, rows: int) -> bytes:
    message = service_pb2.ModelInferResponse()
    for output in outputs:
        shape = [rows, *output.shape[1:]]
        message.outputs.add(name=output.name, datatype=output.datatype, shape=shape)
    described: bytes = message.SerializeToString()
    return described


def _ends(parts: Sequence[Part]) -> list[int]:
    """Of each part, the row behind its last."""
    ends, end = [], 0
    for part in parts:
        end += part.rows
        ends.append(end)
    return ends


def _row_elements(shape: Sequence[int], ends: Sequence[int]) -> int:
    """Elements of one row of an output, which must have as many rows as were sent."""
    if not shape or shape[0] != ends[-1]:  # guard: E5.row-count
        raise ValueError
    return math.prod(shape[1:])


def _divided_data(data: bytes, size: int, elements: int, ends: Sequence[int]) -> list[bytes]:
    """A tensor's raw bytes by parts. `size`: of an element; 0: each says its own."""
    if size:
        if len(data) != ends[-1] * elements * size:
            raise ValueError
        bounds = [end * elements * size for end in ends]
    else:
        bounds = _string_bounds(data, [end * elements for end in ends])
    return [data[begin:end] for begin, end in zip([0, *bounds], bounds, strict=False)]


def _string_bounds(data: bytes, ends: Sequence[int]) -> list[int]:
    """Where so many elements end that each stand behind their length."""
    bounds, at, count = [], 0, 0
    for end in ends:
        while count < end:
            at += _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
            count += 1
        bounds.append(at)
    if at != len(data):
        raise ValueError
    return bounds


# The REST form


def _divided_body(body: RestBody, parts: Sequence[Part]) -> Iterator[RestBody]:
    length = body.header_length
    text, tail = (body.body, b"") if length is None else divide(body.body, length)
    document = json.loads(text, parse_float=str, parse_constant=str)  # digits as they stand
    outputs = document["outputs"]
    if document.get("parameters"):
        raise ValueError  # of which part?
    ends, begin = _ends(parts), 0
    binaries: list[list[bytes]] = []
    columns: list[list[bytes]] = []  # by output and part, what stands behind its shape
    for output in outputs:
        elements = _row_elements(output["shape"], ends)
        size = output.get("parameters", {}).get(BINARY_SIZE)
        if size is None:
            columns.append(_divided_list(output["data"], output["datatype"], elements, ends))
            continue
        datatype, begins, begin = DATATYPES[output["datatype"]], begin, begin + size
        binary = _divided_data(tail[begins:begin], datatype.size, elements, ends)
        binaries.append(binary)
        columns.append([b'"parameters":{"%b":%d}' % (_SIZE, len(data)) for data in binary])
    if begin != len(tail):
        raise ValueError
    model = {name: document[name] for name in ("model_name", "model_version")}
    for at, part in enumerate(parts):
        head = strictjson.dumps(({"id": part.id} if part.id else {}) | model)
        written = [
            b'{"name":%b,"datatype":"%b","shape":%b,%b}'
            % (
                strictjson.dumps(output["name"]),
                output["datatype"].encode(),
                strictjson.dumps([part.rows, *output["shape"][1:]]),
                column[at],
            )
            for output, column in zip(outputs, columns, strict=True)
        ]
        own = b'%b,"outputs":[%b]}' % (head[:-1], b",".join(written))
        data = [binary[at] for binary in binaries]
        yield RestBody(b"".join((own, *data)), len(own) if data else None)


def _divided_list(
    data: Sequence[Any], datatype: str, elements: int, ends: Sequence[int]
) -> list[bytes]:
    """Elements of a list in JSON by parts."""
    if len(data) != ends[-1] * elements:
        raise ValueError
    if datatype == "BYTES":
        words = [literals.string(item.encode()) for item in data]
    elif datatype == "BOOL":
        words = [b"true" if item else b"false" for item in data]
    else:
        words = [str(item).encode() for item in data]
    bounds = [end * elements for end in ends]
    return [
        b'"data":[%b]' % b",".join(words[begin:end])
        for begin, end in zip([0, *bounds], bounds, strict=False)
    ]
