"""ONNX files: whether one is whole, what it takes and gives, and whether that is declared."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.models.declaration import Declaration
from gateway.models.declaration.tensors import DeclaredDatatype, Precision, TensorDeclaration
from gateway.models.failures import WrongModel, cause, needs

_OTHER_NAMES = {"FLOAT": "FP32", "FLOAT16": "FP16", "DOUBLE": "FP64", "BFLOAT16": "BF16"}
_OTHER_NAMES["STRING"] = "BYTES"
_IN_8_BITS = {"QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"}
_IN_8_BITS |= {"QLinearMatMul", "QLinearConv"}
LARGEST_FILE_BYTES = (1 << 31) - 1  # of protobuf; what is larger has its weights beside it


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """As the file has it, the batch axis included; a free axis is its name, or ''."""

    datatype: DeclaredDatatype
    dims: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    inputs: Mapping[str, GraphTensor]
    outputs: Mapping[str, GraphTensor]


def read(path: Path) -> Any:
    """The file as an onnx.ModelProto, checked in full; of weights that stand in files beside it,
    where they stand. Raises WrongModel."""
    onnx = _onnx()
    try:
        model = onnx.load(str(path), load_external_data=False)
        if (newer := _newer(model)) is not None:
            raise WrongModel(f"{path}: {newer}")
        onnx.checker.check_model(str(path), full_check=True)  # guard: V1.graph-check
    except FileNotFoundError:
        raise WrongModel(f"{path}: is not there") from None
    except OSError as exc:
        raise WrongModel(f"{path}: cannot be read: {exc.strerror}") from exc
    except WrongModel:
        raise
    except Exception as exc:  # noqa: BLE001 - onnx raises whatever its C++ does; all mean one thing
        raise WrongModel(
            f"{path}: is no whole ONNX model ({cause(exc)}); export or fetch it again"
        ) from None
    if not model.graph.output:
        raise WrongModel(f"{path}: is no whole ONNX model (no outputs); export or fetch it again")
    return model


def weighted(path: Path) -> Any:
    """The file with all of its weights in memory, no larger than one file can be. Raises
    WrongModel."""
    model = read(path)
    if (size := size_bytes(path, model)) > LARGEST_FILE_BYTES:
        raise WrongModel(
            f"{path}: has {size >> 20} MiB with its weights, and one ONNX file holds "
            f"{LARGEST_FILE_BYTES >> 20}; export it in the precision that is to be served"
        )
    _onnx().load_external_data_for_model(model, str(path.parent))
    return model


def _newer(model: Any) -> str | None:
    """What the installed onnx is too old for, and the remedy."""
    onnx = _onnx()
    if model.ir_version > onnx.IR_VERSION:
        return (
            f"has IR version {model.ir_version}, and onnx {onnx.__version__} reads up to "
            f"{onnx.IR_VERSION}: set `ir_version` to that or less when you export it"
        )
    latest = onnx.defs.onnx_opset_version()
    opset = max((o.version for o in model.opset_import if not o.domain), default=0)
    if opset > latest:
        return (
            f"has opset {opset}, and onnx {onnx.__version__} reads up to {latest}: set "
            "`opset_version` to that or less when you export it"
        )
    return None


def _onnx() -> Any:
    try:
        import onnx  # an extra: a gateway that serves needs none
    except ModuleNotFoundError:
        raise needs("onnx", "models") from None
    return onnx


def signature(model: Any) -> Signature:
    """Raises WrongModel for tensors that no protocol carries."""
    constants = {initializer.name for initializer in model.graph.initializer}
    inputs = {v.name: _tensor(v) for v in model.graph.input if v.name not in constants}
    if not inputs:
        raise WrongModel("it has no inputs, so there is nothing to ask it")
    return Signature(inputs, {v.name: _tensor(v) for v in model.graph.output})


def _tensor(value: Any) -> GraphTensor:
    if (kind := value.type.WhichOneof("value")) != "tensor_type":
        shown = str(kind).removesuffix("_type").replace("_", " ")
        raise WrongModel(f"{value.name}: is of type {shown}; export a tensor instead")
    kind = value.type.tensor_type
    name = _onnx().TensorProto.DataType.Name(kind.elem_type)
    name = _OTHER_NAMES.get(name, name)
    if name not in DeclaredDatatype.__members__:
        raise WrongModel(
            f"{value.name}: has the type {name}, which no protocol carries; export it with a Cast"
        )
    dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in kind.shape.dim)
    if 0 in dims:
        raise WrongModel(f"{value.name}: has an axis of size 0; export it with values on it")
    return GraphTensor(DeclaredDatatype(name), dims)


def precision(model: Any) -> Precision:
    """That of most weights; without any, of the inputs."""
    if any(node.op_type in _IN_8_BITS for node in model.graph.node):
        return Precision.INT8
    types = _onnx().TensorProto
    known = {
        types.FLOAT: Precision.FP32,
        types.FLOAT16: Precision.FP16,
        types.BFLOAT16: Precision.BF16,
    }
    weights: Counter[Precision] = Counter()
    for tensor in tensors(model.graph):
        if tensor.data_type in known:
            weights[known[tensor.data_type]] += math.prod(tensor.dims)
    for value in model.graph.input if not weights else ():
        if value.type.tensor_type.elem_type in known:
            weights[known[value.type.tensor_type.elem_type]] += 1
    return weights.most_common(1)[0][0] if weights else Precision.FP32


def tensors(graph: Any) -> Iterator[Any]:
    """The weights and constants of a graph and of the graphs within it, as onnx.TensorProto."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from tensors(inner)


def external_files(model: Any) -> list[str]:
    """The files that hold weights, relative to that of the graph."""
    places = (
        entry.value
        for tensor in tensors(model.graph)
        if tensor.data_location == _onnx().TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    )
    return list(dict.fromkeys(places))


def size_bytes(path: Path, model: Any) -> int:
    """Of the file of the model and those that hold its weights."""
    files = (path.parent / name for name in external_files(model))
    return sum(file.stat().st_size for file in (path, *files))


def disagreements(signature: Signature, declared: Declaration) -> list[str]:
    """What the file has otherwise than model.yaml says, a line each."""
    batched = declared.batch is not None
    return [
        *_differences("input", signature.inputs, declared.graph_inputs, batched),
        *_differences("output", signature.outputs, declared.graph_outputs, batched),
    ]


def _differences(
    kind: str,
    tensors: Mapping[str, GraphTensor],
    declared: Mapping[str, TensorDeclaration],
    batched: bool,
) -> Iterator[str]:
    for name in declared.keys() - tensors.keys():
        there = ", ".join(sorted(tensors)) or "none"
        yield f"{kind} {name} is declared and not in the graph; there are: {there}"
    for name in tensors.keys() - declared.keys() if kind == "input" else ():
        yield f"{kind} {name} is in the graph and not declared"
    for name in declared.keys() & tensors.keys():
        if (difference := _difference(tensors[name], declared[name], batched)) is not None:
            yield f"{kind} {name} {difference}"


def _difference(tensor: GraphTensor, declared: TensorDeclaration, batched: bool) -> str | None:
    if tensor.datatype is not declared.datatype:
        return f"is {tensor.datatype} in the graph and {declared.datatype} in model.yaml"
    dims = tensor.dims
    if batched:
        if dims and isinstance(dims[0], int):
            return f"has a batch of {dims[0]} alone; export it with a free first axis"
        dims = dims[1:]
    if len(dims) != len(declared.dims) or any(
        isinstance(there, int) and isinstance(dim, int) and dim > 0 and there != dim
        for there, dim in zip(dims, declared.dims, strict=True)
    ):
        return f"is {_shown(dims)} in the graph and {_shown(declared.dims)} in model.yaml"
    fixed = [
        dim
        for there, dim in zip(dims, declared.dims, strict=True)
        if isinstance(there, int) and (isinstance(dim, str) or dim < 0)
    ]
    return f"has a fixed size where model.yaml says {fixed[0]}" if fixed else None


def _shown(dims: tuple[int | str, ...]) -> str:
    return "[" + ", ".join(str(dim) or "?" for dim in dims) + "]"
