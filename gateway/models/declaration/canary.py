"""The declared canary."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from gateway.config.section import Contradiction, Count, Positive, Section
from gateway.models.declaration.tensors import TensorDeclaration, TensorName

Scalar = bool | int | float | str


class CanaryTensor(Section):
    """One row of an input."""

    dims: tuple[Count, ...] | None = Field(None, description="where the declared ones are free")
    values: Scalar | tuple[Scalar, ...] = Field(description="all of them flat, or one for all")


class CanaryOutput(Section):
    first: tuple[float, ...] = Field(min_length=1, description="the output's first values")
    tolerance: Positive = 1e-3


class CanaryDeclaration(Section):
    """One small inference whose answer is known: a new version must give it before it serves."""

    inputs: Mapping[TensorName, CanaryTensor]
    outputs: Mapping[TensorName, CanaryOutput] = Field(default_factory=dict)


def check_row(where: tuple[str, ...], given: CanaryTensor, tensor: TensorDeclaration) -> None:
    dims = given.dims or tensor.dims
    if any(isinstance(dim, str) or dim < 1 for dim in dims):
        raise Contradiction((*where, "dims"), "must be given: the declared ones are free")
    if len(dims) != len(tensor.dims) or any(
        isinstance(declared, int) and declared > 0 and declared != dim
        for declared, dim in zip(tensor.dims, dims, strict=True)
    ):
        raise Contradiction((*where, "dims"), f"must fit the declared {list(tensor.dims)}")
    count = 1
    for dim in dims:
        count *= int(dim)
    if isinstance(given.values, tuple) and len(given.values) != count:
        raise Contradiction(
            (*where, "values"), f"has {len(given.values)} values; {list(dims)} takes {count}"
        )
