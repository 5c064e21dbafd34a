"""The tensors of a model and of its graph, with their datatypes and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gateway.config.section import Contradiction, Count, Section

AxisName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,47}$")]
TensorName = Annotated[str, Field(pattern=r'^[^\x00-\x1f"\\]{1,255}$')]
"""As exporters make them up, such as `/head/Gemm_output_0` and `_x`; they stand in a pbtxt."""
Inside = Annotated[str, Field(min_length=1, description="a path inside the model's directory")]
Free = Literal[-1]  # a size that nothing bounds
Dims = tuple[Count | Free | AxisName, ...]


class DeclaredDatatype(StrEnum):
    """The datatypes of the Open Inference Protocol."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BF16 = "BF16"
    BYTES = "BYTES"


class Precision(StrEnum):
    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"


class RangeDeclaration(Section):
    """The sizes of a dynamic axis: the smallest, the usual one (engines are fastest there), the
    largest."""

    min: Count = 1
    opt: Count
    max: Count

    @model_validator(mode="after")
    def _rises(self) -> RangeDeclaration:
        if not self.min <= self.opt <= self.max:
            raise Contradiction(("opt",), "must be from min to max")
        return self


class TensorDeclaration(Section):
    """One input or output, its batch axis left out."""

    datatype: DeclaredDatatype
    dims: Dims = Field(description="sizes; the name of an axis; -1 for any size; [] for one value")
    text: bool = Field(False, description="holds text, which the gateway scans")
    optional: bool = False
    ragged: bool = Field(False, description="rows of unequal sizes may share a batch")
    between: tuple[float, float] | None = Field(None, description="of random values in checks")

    @property
    def wire_dims(self) -> Dims:
        """As callers have it: Triton gives one value an axis of size 1."""
        return self.dims or (1,)


class TextDeclaration(Section):
    """Text that is cut into word pieces before the graph sees it."""

    input: TensorName = Field(description="the model's input of text")
    tokenizer: Inside = Field("tokenizer.json", description="in the version's directory")
    axis: AxisName = Field(
        description="the axis of the pieces; its max is how many a text may have"
    )


class GraphDeclaration(Section):
    """The ONNX graph behind the model; its tensors where they are not the model's own."""

    file: Inside = Field("model.onnx", description="in the version's directory")
    precision: Precision = Field(Precision.FP32, description="of the file itself")
    inputs: Mapping[TensorName, TensorDeclaration] | None = None
    outputs: Mapping[TensorName, TensorDeclaration] | None = None
    text: TextDeclaration | None = None
