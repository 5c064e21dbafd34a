"""Calls to measure a model with: of its declared tensors, made up from a seed."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence

from tritonclient.grpc import service_pb2

from gateway.models.declaration import Declaration
from gateway.models.declaration.canary import Scalar
from gateway.models.declaration.tensors import DeclaredDatatype, TensorDeclaration
from gateway.models.failures import WrongModel

SEED = 20261122
_TEXT = (
    "water over the old wall runs down to river stone and field while people in town count boats "
    "rain makes spring late a bridge was closed on monday when engineers came with long red ropes "
    "nobody knew how deep it is here because maps show only roads and churches between hills"
)
_WORDS = tuple(_TEXT.split())
_PACK = {
    DeclaredDatatype.BOOL: "?",
    DeclaredDatatype.UINT8: "B",
    DeclaredDatatype.UINT16: "H",
    DeclaredDatatype.UINT32: "I",
    DeclaredDatatype.UINT64: "Q",
    DeclaredDatatype.INT8: "b",
    DeclaredDatatype.INT16: "h",
    DeclaredDatatype.INT32: "i",
    DeclaredDatatype.INT64: "q",
    DeclaredDatatype.FP16: "e",
    DeclaredDatatype.FP32: "f",
    DeclaredDatatype.FP64: "d",
}


class CannotSample(WrongModel):
    """The declaration does not say enough; the message says what is missing."""


def requests(declaration: Declaration, rows: int, words: int, count: int) -> list[bytes]:
    """ModelInferRequests, all different in their texts."""
    rng = random.Random(SEED + rows)
    return [_request(declaration, rows, words, rng) for _ in range(count)]


def takes_text(declaration: Declaration) -> bool:
    return any(tensor.text for tensor in declaration.inputs.values())


def _request(declaration: Declaration, rows: int, words: int, rng: random.Random) -> bytes:
    message = service_pb2.ModelInferRequest(model_name=declaration.name)
    for name, tensor in declaration.inputs.items():
        if tensor.optional and not _given(declaration, name):
            continue
        sizes = _sizes(declaration, tensor)
        shape = [rows, *sizes] if declaration.batch is not None else sizes
        tensor_message = message.inputs.add(name=name, datatype=tensor.datatype.value)
        tensor_message.shape.extend(shape)
        values = [_values(declaration, name, sizes, words, rng) for _ in range(rows)]
        message.raw_input_contents.append(b"".join(_packed(name, tensor, one) for one in values))
    written: bytes = message.SerializeToString()
    return written


def _sizes(declaration: Declaration, tensor: TensorDeclaration) -> list[int]:
    """Those of a row; a dynamic axis has its usual size."""
    return [
        declaration.axes[dim].opt if isinstance(dim, str) else max(1, dim)
        for dim in tensor.wire_dims
    ]


def _given(declaration: Declaration, name: str) -> bool:
    return declaration.canary is not None and name in declaration.canary.inputs


def _values(
    declaration: Declaration, name: str, sizes: Sequence[int], words: int, rng: random.Random
) -> list[Scalar]:
    tensor, count = declaration.inputs[name], math.prod(sizes)
    if tensor.text and not tensor.optional:
        return [" ".join(rng.choices(_WORDS, k=words)) for _ in range(count)]
    if not _given(declaration, name) or declaration.canary is None:
        raise CannotSample(
            f"nothing says what {name} may hold: give it under canary.inputs of model.yaml"
        )
    values = declaration.canary.inputs[name].values
    if not isinstance(values, tuple):
        return [values] * count
    if len(values) != count:
        raise CannotSample(f"canary.inputs.{name} has {len(values)} values, and {count} are needed")
    return list(values)


def _packed(name: str, tensor: TensorDeclaration, values: Sequence[Scalar]) -> bytes:
    """As `raw_input_contents` has them: little-endian, strings behind their length."""
    if tensor.datatype is DeclaredDatatype.BYTES:
        encoded = [str(value).encode() for value in values]
        return b"".join(struct.pack("<I", len(one)) + one for one in encoded)
    kind = _PACK.get(tensor.datatype)
    if kind is None:
        raise CannotSample(f"{name} is {tensor.datatype.value}, which cannot be made up here")
    numbers = [float(v) if kind in "efd" else int(v) for v in values]
    return struct.pack(f"<{len(values)}{kind}", *numbers)
