"""Where a model is served, by which backend, and in what batches."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from gateway.config.section import Contradiction, Count, Section
from gateway.models.declaration.tensors import Precision


class ServingTarget(StrEnum):
    """Where a model is served: `embedded` is its config.pbtxt, each other one is
    configs/<target>.pbtxt, for a Triton that is started with `--model-config-name <target>`."""

    EMBEDDED = "embedded"
    PYTHON = "python"
    ONNXRUNTIME = "onnxruntime"
    TENSORRT = "tensorrt"


class Backend(StrEnum):
    PYTHON = "python"
    ONNXRUNTIME = "onnxruntime"
    TENSORRT_PLAN = "tensorrt_plan"


class BatchingDeclaration(Section):
    """Triton's dynamic batching. Plain unless a profile shows that more helps."""

    dynamic: bool = True
    rows_independent: bool = Field(
        False,
        description="its owner's word that rows do not influence each other; else it is tried",
    )
    preferred: tuple[Count, ...] = ()
    delay_us: Annotated[int, Field(ge=0, le=1_000_000)] = 0

    @model_validator(mode="after")
    def _needs_batching(self) -> BatchingDeclaration:
        if not self.dynamic and (self.preferred or self.delay_us):
            raise Contradiction(("dynamic",), "preferred and delay_us need dynamic: true")
        return self


class InstancesDeclaration(Section):
    count: Count = 1
    threads: Count | None = Field(None, description="of one instance; None: the runtime's own")


class TargetDeclaration(Section):
    backend: Backend
    precision: Precision | None = Field(None, description="of the variant; the graph's own if not")
    instances: InstancesDeclaration = InstancesDeclaration()
