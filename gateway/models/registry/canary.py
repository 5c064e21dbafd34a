"""The declared canary as a call to a server, and whether the answer is the declared one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gateway.core.types import Tensor, TensorCall
from gateway.models.declaration import Declaration
from gateway.models.declaration.canary import CanaryTensor, Scalar
from gateway.models.declaration.tensors import DeclaredDatatype, TensorDeclaration
from gateway.protocols.oip.datatypes import join, split

_NUMBERS: Mapping[DeclaredDatatype, str] = {
    DeclaredDatatype.BOOL: "?",
    DeclaredDatatype.FP16: "<f2",
    DeclaredDatatype.FP32: "<f4",
    DeclaredDatatype.FP64: "<f8",
    **{DeclaredDatatype(f"INT{bits}"): f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{DeclaredDatatype(f"UINT{bits}"): f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
}


def rows_to_warm(declaration: Declaration) -> tuple[int, ...]:
    """Every batch size that the declaration names; 0 for a model without batches."""
    batch = declaration.batch
    if batch is None:
        return (0,)
    return tuple(sorted({batch.min, batch.opt, batch.max, *declaration.batching.preferred}))


def call(declaration: Declaration, rows: int) -> TensorCall:
    """So many equal rows, of a declaration that has a canary."""
    given = declaration.canary.inputs if declaration.canary else {}
    return TensorCall(
        tuple(_tensor(name, given[name], declaration.inputs[name], rows) for name in given)
    )


def scalars(declaration: Declaration) -> dict[str, Any]:
    """The same for Triton's `generate` routes, which streaming models answer over HTTP."""
    given = declaration.canary.inputs if declaration.canary else {}
    return {
        name: list(row.values) if isinstance(row.values, tuple) else row.values
        for name, row in given.items()
    }


def wrong(declaration: Declaration, outputs: Sequence[Tensor], rows: int) -> str | None:
    """What is not as declared, in a few words; of every row."""
    there = {tensor.name: tensor for tensor in outputs}
    for name, declared in declaration.outputs.items():
        if name not in there:
            return f"it does not answer the output {name}"
        problem = _unlike(name, declared, there[name], rows)
        if problem:
            return problem
    expected = declaration.canary.outputs if declaration.canary else {}
    for name, output in expected.items():
        values = _decoded(there[name]).reshape(max(rows, 1), -1)
        for row in values:
            got = [float(value) for value in row[: len(output.first)]]
            if len(got) != len(output.first) or not all(
                math.isfinite(g) and abs(g - e) <= output.tolerance
                for g, e in zip(got, output.first, strict=True)
            ):
                shown = ", ".join(f"{value:.6g}" for value in got)
                wanted = ", ".join(f"{value:.6g}" for value in output.first)
                return f"the canary's {name} begins with {shown}; declared is {wanted}"
    return None


def _unlike(name: str, declared: TensorDeclaration, got: Tensor, rows: int) -> str | None:
    if got.datatype != declared.datatype.value:
        return f"the output {name} is {got.datatype}; declared is {declared.datatype.value}"
    dims = got.shape[1:] if rows else got.shape
    if rows and got.shape[:1] != (rows,):
        return f"the output {name} has shape {list(got.shape)} for {rows} rows"
    wanted = declared.wire_dims
    fits = len(dims) == len(wanted) and all(
        not isinstance(want, int) or want < 0 or want == size
        for want, size in zip(wanted, dims, strict=True)
    )
    return None if fits else f"the output {name} is {list(dims)}; declared is {list(wanted)}"


def _tensor(name: str, row: CanaryTensor, declared: TensorDeclaration, rows: int) -> Tensor:
    dims = row.dims or tuple(dim if isinstance(dim, int) else 1 for dim in declared.wire_dims)
    count = math.prod(dims)
    values = row.values if isinstance(row.values, tuple) else (row.values,) * count
    data = _encoded(values, declared.datatype) * max(rows, 1)
    return Tensor(name, declared.datatype.value, (*((rows,) if rows else ()), *dims), data)


def _encoded(values: Sequence[Scalar], datatype: DeclaredDatatype) -> bytes:
    if datatype is DeclaredDatatype.BYTES:
        return join([str(value).encode() for value in values])
    if datatype is DeclaredDatatype.BF16:  # the upper half of a float
        return np.asarray(values, "<f4").view("<u2")[1::2].tobytes()
    return np.asarray(values).astype(_NUMBERS[datatype]).tobytes()


def _decoded(tensor: Tensor) -> npt.NDArray[Any]:
    datatype = DeclaredDatatype(tensor.datatype)
    data = bytes(tensor.data)
    if datatype is DeclaredDatatype.BYTES:
        return np.asarray([len(text) for text in split(data, math.prod(tensor.shape))])
    if datatype is DeclaredDatatype.BF16:
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, _NUMBERS[datatype])
