"""What a model says of itself: `model.yaml`, beside its `config.pbtxt`.

Everything else that names the model's tensors, ranges or precisions is generated from this or
checked against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gateway.config import ConfigError
from gateway.config.reading import validated
from gateway.config.section import Contradiction, Count, Name, NotNegative, Positive, Section, known
from gateway.core import yaml_document

FILE = "model.yaml"

ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
AxisName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,47}$")]
Inside = Annotated[str, Field(min_length=1, description="a path inside the model's directory")]
Free = Literal[-1]  # a size that nothing bounds
Dims = tuple[Count | Free | AxisName, ...]
Scalar = bool | int | float | str


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


class Metric(StrEnum):
    """How good a variant is on the named data set; 1 is the best of each."""

    SPEARMAN = "pairwise_spearman"  # of similarities between all pairs, against the reference
    AGREEMENT = "agreement"  # share of rows with the reference's largest score
    AUC = "auc"  # area under the ROC curve, against labels
    ACCURACY = "accuracy"  # share of rows whose largest score is their label's


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
    dims: Dims = Field(min_length=1, description="sizes; the name of an axis; -1 for any size")
    text: bool = Field(False, description="holds text, which the gateway scans")
    optional: bool = False
    ragged: bool = Field(False, description="rows of unequal sizes may share a batch")
    between: tuple[float, float] | None = Field(None, description="of random values in checks")


class TextDeclaration(Section):
    """Text that is cut into word pieces before the graph sees it."""

    input: Name = Field(description="the model's input of text")
    tokenizer: Inside = Field("tokenizer.json", description="in the version's directory")
    axis: AxisName = Field(description="the axis of the pieces; its max is where texts are cut")


class GraphDeclaration(Section):
    """The ONNX graph behind the model; its tensors where they are not the model's own."""

    file: Inside = Field("model.onnx", description="in the version's directory")
    precision: Precision = Field(Precision.FP32, description="of the file itself")
    inputs: Mapping[Name, TensorDeclaration] | None = None
    outputs: Mapping[Name, TensorDeclaration] | None = None
    text: TextDeclaration | None = None


class AccuracyDeclaration(Section):
    """What a variant in lower precision must still be good at."""

    metric: Metric
    data: Inside = Field(description="lines of text, or an .npz of inputs (and `label`)")
    output: Name | None = Field(None, description="the output that is judged; the first one if not")
    largest_loss: NotNegative = Field(description="how far the metric may fall below fp32's")


class QuantizationDeclaration(Section):
    """How the int8 variant is made."""

    method: Literal["dynamic", "static"] = "dynamic"
    per_channel: bool = True
    reduce_range: bool = Field(False, description="7 bits, for processors without VNNI")
    symmetric: bool = Field(False, description="static: activations as an engine takes them")
    keep: tuple[str, ...] = Field((), description="weights, by name, that stay as they are")


class VerifyDeclaration(Section):
    """How far a variant's outputs may be from the fp32 reference, relative to the largest value
    of an output."""

    tolerance: Mapping[Precision, Positive] = Field(
        default_factory=lambda: {
            Precision.FP32: 1e-4,
            Precision.FP16: 1e-2,
            Precision.BF16: 1e-1,
        }
    )
    seed: int = 20261122
    golden: Inside = "expected.json"


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


class CanaryTensor(Section):
    """One row of an input."""

    dims: tuple[Count, ...] | None = Field(None, description="where the declared ones are free")
    values: Scalar | tuple[Scalar, ...] = Field(description="all of them flat, or one for all")


class CanaryOutput(Section):
    first: tuple[float, ...] = Field(min_length=1, description="the output's first values")
    tolerance: Positive = 1e-3


class CanaryDeclaration(Section):
    """One small inference whose answer is known: a new version must give it before it serves."""

    inputs: Mapping[Name, CanaryTensor]
    outputs: Mapping[Name, CanaryOutput] = Field(default_factory=dict)


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
            _check_row(where, given, self.inputs[name])
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


def _check_row(where: tuple[str, ...], given: CanaryTensor, tensor: TensorDeclaration) -> None:
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
