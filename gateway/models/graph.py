"""ONNX files: whether one is whole, what it takes and gives, and whether that is declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.models.declaration import Declaration
from gateway.models.declaration.tensors import DeclaredDatatype, TensorDeclaration
from gateway.models.failures import WrongModel, needs

_OTHER_NAMES = {"FLOAT": "FP32", "FLOAT16": "FP16", "DOUBLE": "FP64", "BFLOAT16": "BF16"}
_OTHER_NAMES["STRING"] = "BYTES"


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
    """The file as an onnx.ModelProto, checked in full. Raises WrongModel."""
    onnx = _onnx()
    try:
        model = onnx.load(str(path))
        onnx.checker.check_model(str(path), full_check=True)  # guard: V1.graph-check
    except FileNotFoundError:
        raise WrongModel(f"{path}: is not there") from None
    except OSError as exc:
        raise WrongModel(f"{path}: cannot be read: {exc.strerror}") from exc
    except Exception as exc:  # noqa: BLE001 - onnx raises whatever its C++ does; all mean one thing
        reason = str(exc).strip().partition("\n")[0][:200] or type(exc).__name__
        raise WrongModel(
            f"{path}: is no whole ONNX model ({reason}); export or fetch it again"
        ) from None
    if not model.graph.output:
        raise WrongModel(f"{path}: is no whole ONNX model (no outputs); export or fetch it again")
    return model


def _onnx() -> Any:
    try:
        import onnx  # an extra: a gateway that serves needs none
    except ModuleNotFoundError:
        raise needs("onnx", "models") from None
    return onnx


def signature(model: Any) -> Signature:
    constants = {initializer.name for initializer in model.graph.initializer}
    inputs = {v.name: _tensor(v) for v in model.graph.input if v.name not in constants}
    return Signature(inputs, {v.name: _tensor(v) for v in model.graph.output})


def _tensor(value: Any) -> GraphTensor:
    kind = value.type.tensor_type
    name = _onnx().TensorProto.DataType.Name(kind.elem_type)
    name = _OTHER_NAMES.get(name, name)
    if name not in DeclaredDatatype.__members__:
        raise WrongModel(f"{value.name}: has the type {name}, which no protocol carries")
    dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in kind.shape.dim)
    return GraphTensor(DeclaredDatatype(name), dims)


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
