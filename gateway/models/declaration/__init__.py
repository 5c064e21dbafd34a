"""What a model says of itself: `model.yaml`, beside its `config.pbtxt`.

Everything else that names the model's tensors, ranges or precisions is generated from this or
checked against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gateway.config import ConfigError
from gateway.config.section import Contradiction, Name, Section, known
from gateway.config.validation import validated
from gateway.core import yaml_document
from gateway.models.declaration.canary import CanaryDeclaration, check_row
from gateway.models.declaration.serving import (
    Backend,
    BatchingDeclaration,
    ServingTarget,
    TargetDeclaration,
)
from gateway.models.declaration.tensors import (
    AxisName,
    DeclaredDatatype,
    GraphDeclaration,
    Inside,
    Precision,
    RangeDeclaration,
    TensorDeclaration,
)
from gateway.models.declaration.variants import (
    AccuracyDeclaration,
    QuantizationDeclaration,
    VerifyDeclaration,
)

FILE = "model.yaml"
ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]


class SourceDeclaration(Section):
    """Where the weights come from."""

    url: str | None = None
    package: str | None = Field(None, description="of a package registry")
    pinned: Inside | None = Field(None, description="the file with the hashes of what is fetched")
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    script: Inside | None = Field(None, description="what trains or writes the weights")

    @model_validator(mode="after")
    def _says_something(self) -> SourceDeclaration:
        if not (self.url or self.package or self.script or self.sha256):
            raise Contradiction((), "says nothing; give url, package, script or sha256")
        return self


class Declaration(Section):
    """A model's own page. Written by hand; what it generates is checked in beside it."""

    name: ModelName
    about: str = Field(min_length=1, description="what it is, in a line")
    licence: str = Field(min_length=1)
    source: SourceDeclaration
    task: Literal["infer", "embeddings", "generate"] = "infer"
    inputs: Mapping[Name, TensorDeclaration] = Field(min_length=1)
    outputs: Mapping[Name, TensorDeclaration] = Field(min_length=1)
    batch: RangeDeclaration | None = Field(None, description="rows of a batch; None: no batches")
    axes: Mapping[AxisName, RangeDeclaration] = Field(default_factory=dict)
    graph: GraphDeclaration | None = None
    precisions: tuple[Precision, ...] = Field((), description="that may be made and served")
    accuracy: AccuracyDeclaration | None = None
    quantization: QuantizationDeclaration = QuantizationDeclaration()
    verify: VerifyDeclaration = VerifyDeclaration()
    batching: BatchingDeclaration = BatchingDeclaration()
    decoupled: bool = False
    parameters: Mapping[Name, str] = Field(default_factory=dict, description="of the pbtxt")
    targets: Mapping[ServingTarget, TargetDeclaration] = Field(min_length=1)
    canary: CanaryDeclaration | None = None

    @property
    def graph_inputs(self) -> Mapping[str, TensorDeclaration]:
        return (self.graph and self.graph.inputs) or self.inputs

    @property
    def graph_outputs(self) -> Mapping[str, TensorDeclaration]:
        return (self.graph and self.graph.outputs) or self.outputs

    @property
    def max_batch(self) -> int:
        """As Triton says it: 0 is a model without a batch axis."""
        return 0 if self.batch is None else self.batch.max

    @model_validator(mode="after")
    def _axes_are_declared(self) -> Declaration:
        for kind, tensors in _all_tensors(self):
            for name, tensor in tensors.items():
                for dim in tensor.dims:
                    if isinstance(dim, str) and dim not in self.axes:
                        where = (*kind, name, "dims")
                        raise Contradiction(where, f"no axis {dim!r}; {known(self.axes)}")
        return self

    @model_validator(mode="after")
    def _text_is_bytes(self) -> Declaration:
        for name, tensor in self.inputs.items():
            if tensor.text and tensor.datatype is not DeclaredDatatype.BYTES:
                raise Contradiction(("inputs", name, "text"), "only BYTES can hold text")
        text = self.graph.text if self.graph else None
        if text is None:
            return self
        if text.input not in self.inputs or not self.inputs[text.input].text:
            raise Contradiction(("graph", "text", "input"), "must be an input with text: true")
        if text.axis not in self.axes:
            where = ("graph", "text", "axis")
            raise Contradiction(where, f"no axis {text.axis!r}; {known(self.axes)}")
        return self

    @model_validator(mode="after")
    def _targets_can_serve(self) -> Declaration:
        if ServingTarget.EMBEDDED not in self.targets:
            raise Contradiction(("targets",), "embedded is missing; it is the config.pbtxt")
        for target, served in self.targets.items():
            where = ("targets", target.value, "backend")
            if target is ServingTarget.EMBEDDED and served.backend is not Backend.PYTHON:
                raise Contradiction(where, "the embedded Triton has the python backend alone")
            if served.backend is Backend.PYTHON:
                continue
            if self.graph is None:
                raise Contradiction(where, f"{served.backend.value} needs a graph")
            # guard: V3.declared-tensors
            if self.graph_inputs is not self.inputs or self.graph_outputs is not self.outputs:
                raise Contradiction(
                    where,
                    "the graph's tensors are not the model's own, so callers would see others; "
                    "only python can stand between",
                )
        return self

    @model_validator(mode="after")
    def _precisions_are_judged(self) -> Declaration:
        if self.precisions and self.graph is None:
            raise Contradiction(("precisions",), "are of a graph, and there is none")
        if Precision.INT8 in self.precisions and self.accuracy is None:  # guard: V2.gate-required
            if self.graph and self.graph.precision is Precision.INT8:
                return self
            raise Contradiction(("precisions",), "int8 needs an accuracy gate (accuracy)")
        for target, served in self.targets.items():
            if served.precision and served.precision not in self.precisions:
                where = ("targets", target.value, "precision")
                raise Contradiction(where, f"is not in precisions; {known(self.precisions)}")
        if self.accuracy and (self.accuracy.output or "") not in {"", *self.outputs}:
            raise Contradiction(("accuracy", "output"), f"no such output; {known(self.outputs)}")
        return self

    @model_validator(mode="after")
    def _canary_fits(self) -> Declaration:
        if self.canary is None:
            return self
        for name, given in self.canary.inputs.items():
            where = ("canary", "inputs", name)
            if name not in self.inputs:
                raise Contradiction(where, f"no such input; {known(self.inputs)}")
            check_row(where, given, self.inputs[name])
        for name, tensor in self.inputs.items():
            if not tensor.optional and name not in self.canary.inputs:
                raise Contradiction(("canary", "inputs"), f"{name} is missing")
        for name in self.canary.outputs:
            if name not in self.outputs:
                where = ("canary", "outputs", name)
                raise Contradiction(where, f"no such output; {known(self.outputs)}")
        return self

    @model_validator(mode="after")
    def _paths_stay_inside(self) -> Declaration:
        for where, path in _paths(self):
            if path and (PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts):
                raise Contradiction(where, "must be a path inside the model's directory")
        return self


def load(path: Path) -> Declaration:
    """Of a model.yaml. Raises ConfigError, each line `file:line: key: what to do`."""
    if path.exists() and not path.read_bytes().strip():
        raise ConfigError(f"{path}:1: the file is empty; it needs at least a name and its tensors")
    declared = validated(yaml_document.read(path), Declaration)
    if declared.name != path.absolute().parent.name:
        raise ConfigError(
            f"{path}: name: {declared.name!r} is not the name of its directory, "
            f"{path.absolute().parent.name!r}"
        )
    return declared


def parse(text: str, name: str = FILE) -> Declaration:
    return validated(yaml_document.parse(text, name), Declaration)


def declared(repository: Path) -> list[Path]:
    """The model.yaml of every model in a repository."""
    return sorted(repository.glob(f"*/{FILE}"))


def _all_tensors(
    model: Declaration,
) -> Iterable[tuple[tuple[str, ...], Mapping[str, TensorDeclaration]]]:
    yield ("inputs",), model.inputs
    yield ("outputs",), model.outputs
    if model.graph is not None:
        yield ("graph", "inputs"), model.graph.inputs or {}
        yield ("graph", "outputs"), model.graph.outputs or {}


def _paths(model: Declaration) -> Iterable[tuple[tuple[str, ...], str | None]]:
    yield ("source", "pinned"), model.source.pinned
    yield ("source", "script"), model.source.script
    yield ("verify", "golden"), model.verify.golden
    if model.accuracy is not None:
        yield ("accuracy", "data"), model.accuracy.data
    if model.graph is not None:
        yield ("graph", "file"), model.graph.file
        if model.graph.text is not None:
            yield ("graph", "text", "tokenizer"), model.graph.text.tokenizer
