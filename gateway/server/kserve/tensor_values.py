"""Plain JSON values as tensors, by what a model's metadata says, and tensors as plain values."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from gateway.core.errors import InternalError, MalformedBody, NotOffered, RequestRejected
from gateway.core.reply import Frame, GrpcMessage, RestBody
from gateway.core.types import Tensor
from gateway.protocols.oip import elements, grpc, rest_reply
from gateway.protocols.oip.datatypes import DATATYPES, check_strings, element_count, label
from gateway.protocols.oip.reply import TensorReply
from gateway.server.kserve.model_tensors import TensorShape


def tensor(name: str, value: Any, shape: TensorShape, rows: int | None) -> Tensor:
    """The input of this name; `rows`: how many there are of the first dimension, where the value
    says that by itself: None. Raises MalformedBody, BodyTooLarge."""
    try:
        nested = value if isinstance(value, list) else [value]
        natural = _extents(nested)
        count = element_count(natural)
        dims = _fitted(shape.dims, natural, count, natural[0] if rows is None else rows)
        check_strings(shape.datatype, count)
        return Tensor(name, shape.datatype.name, dims, elements.read(nested, shape.datatype, count))
    except RequestRejected as error:
        raise type(error)(f"{label('input', 0, name)}: {error.message}") from None


def _extents(value: list[Any]) -> list[int]:
    """By the first of each level; whether the others are as long, who reads the elements checks."""
    extents, level = [], value
    while True:
        extents.append(len(level))
        if not level or not isinstance(level[0], list):
            return extents
        level = level[0]


def _fitted(dims: Sequence[int], natural: Sequence[int], count: int, rows: int) -> tuple[int, ...]:
    """The shape that a model takes of so many elements: that of the value where it fits; else the
    last free dimension has what the others leave."""
    for extents in (natural, natural[1:] if natural[0] == 1 else natural):
        if len(extents) == len(dims) and all(
            d in (-1, n) for d, n in zip(dims, extents, strict=True)
        ):
            return tuple(extents)
    fitted = list(dims)
    if len(fitted) > 1 and fitted[0] == -1:
        fitted[0] = rows
    free = [at for at, size in enumerate(fitted) if size == -1]
    for at in free:
        fitted[at] = 1
    given = math.prod(fitted)
    if free and given and count % given == 0:
        fitted[free[-1]] = count // given
    if math.prod(fitted) != count:
        raise MalformedBody(f"the model takes the shape {list(dims)}, this has {count} elements")
    return tuple(fitted)


def reply(frame: Frame) -> TensorReply:
    """Raises UpstreamFailed for what is no answer of the protocol."""
    if isinstance(frame, GrpcMessage):
        return grpc.decode_response(frame)
    if isinstance(frame, RestBody):
        return rest_reply.decode_response(frame)
    raise InternalError("an answer came in other frames than this protocol has")


def size(frame: Frame) -> int:
    """Bytes of an answer."""
    if isinstance(frame, GrpcMessage):
        return len(frame.message)
    return len(frame.body) if isinstance(frame, RestBody) else 0


def json_text(output: Tensor) -> tuple[bytes, int]:
    """The elements of an output as a JSON list, and how many there are. Raises NotOffered."""
    datatype, count = DATATYPES[output.datatype], element_count(output.shape)
    if not datatype.code and datatype.size:
        raise NotOffered(f"outputs of datatype {datatype.name} cannot be said in JSON")
    return elements.write(output.data, datatype, count), count


def nested(output: Tensor) -> Any:
    """The output as lists in lists; one without dimensions as its value."""
    text, _ = json_text(output)  # which has NaN and any bytes, as Triton writes them
    level: list[Any] = json.loads(text.decode("utf-8", "replace"))
    for size in reversed(output.shape[1:]):
        level = [level[at : at + size] for at in range(0, len(level), size)] if size else []
    return level if output.shape else level[0]
