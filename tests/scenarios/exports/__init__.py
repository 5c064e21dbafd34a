"""Models as exporters write them, each by a function of the path that it is written to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import TensorProto, helper, numpy_helper, save_model

Shape = Sequence[int | str | None]
Tensors = Mapping[str, tuple[int, Shape]]  # by name: the onnx type and the shape
FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


@dataclass(frozen=True, slots=True)
class ExportCase:
    """`refused`: what its refusal says; None where it is served. `sizes`: of free axes in calls,
    4 where nothing is said. `batched`: whether callers' rows are joined."""

    write: Callable[[Path], Path]
    refused: str | None = None
    batched: bool = True
    sizes: Mapping[str, int] = field(default_factory=dict)
    options: Callable[[Path], list[str]] = lambda file: []


def saved(
    path: Path,
    nodes: Sequence[Any],
    inputs: Tensors,
    outputs: Tensors,
    held: Mapping[str, Any] | None = None,
    *,
    opset: int = 17,
    ir: int = 8,
    domains: Sequence[str] = (),
    beside: str | None = None,
) -> Path:
    """`beside`: the file in which weights stand."""
    constants = [numpy_helper.from_array(values, name) for name, values in (held or {}).items()]
    graph = helper.make_graph(
        nodes,
        "exported",
        [helper.make_tensor_value_info(name, *tensor) for name, tensor in inputs.items()],
        [helper.make_tensor_value_info(name, *tensor) for name, tensor in outputs.items()],
        constants,
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir)
    apart = beside is not None
    save_model(model, str(path), save_as_external_data=apart, location=beside, size_threshold=0)
    return path


def node(kind: str, takes: str, gives: str, **attributes: Any) -> Any:
    """`takes`, `gives`: names between spaces."""
    return helper.make_node(kind, takes.split(), gives.split(), **attributes)
