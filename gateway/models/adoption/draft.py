"""A declaration drafted from what an ONNX file says of itself, for its owner to complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gateway.models.adoption.extents import Extents, Range, axis_name
from gateway.models.declaration import TOKEN_COUNTS
from gateway.models.declaration.tensors import DeclaredDatatype, Precision
from gateway.models.failures import WrongModel
from gateway.models.graph import GraphTensor, Signature

HEAD = (
    "# Drafted by `spillway models build` from the ONNX file. Complete about, licence and source,\n"
    "# and set the ranges to what callers will send.\n"
)
_INT8_TOLERANCE = 0.1
"""Of a graph in 8 bits against itself: ONNX Runtime's fused operators round otherwise."""
_CUTTABLE = {"input_ids", "attention_mask", "token_type_ids"}


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """What the file does not say in its signature. `halves`: 16 bits may be made of it.
    `classes`: of outputs with a column for each class."""

    extents: Extents
    precision: Precision = Precision.FP32
    halves: bool = True
    classes: Mapping[str, Sequence[int | str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DraftDetails:
    """What its owner says with the command."""

    name: str
    about: str = "not said yet"
    licence: str = "not said yet"
    tokenizer: Path | None = None


def drafted(signature: Signature, given: DraftDetails, sha256: str, facts: GraphFacts) -> str:
    """A model.yaml. Raises WrongModel for a graph that no declaration can describe."""
    extents = facts.extents
    batched = extents.rows is not None
    inputs = {n: _tensor(n, t, batched, extents.axes) for n, t in signature.inputs.items()}
    outputs = {n: _tensor(n, t, batched, extents.axes) for n, t in signature.outputs.items()}
    for tensor in inputs.values():
        if tensor["datatype"] == DeclaredDatatype.BYTES.value:
            tensor["text"] = True  # which the gateway reads, whatever its owner knows of it
    used = {dim for tensor in inputs.values() for dim in tensor["dims"]}
    axes = {name: _range(axis) for name, axis in extents.axes.items() if name in used}
    own = facts.precision.value
    document: dict[str, Any] = {
        "name": given.name,
        "about": given.about,
        "licence": given.licence,
        "source": {"sha256": sha256},
        "task": "infer",
        "inputs": inputs,
        "outputs": outputs,
        "graph": {} if facts.precision is Precision.FP32 else {"precision": own},
        "precisions": [own, "fp16"] if facts.halves else [own],
        "targets": {
            "embedded": {"backend": "python"},
            "python": {"backend": "python"},
            "onnxruntime": {"backend": "onnxruntime"},
            "tensorrt": {"backend": "tensorrt_plan"},
        },
    }
    if facts.precision is Precision.INT8:
        document["verify"] = {"tolerance": {"int8": _INT8_TOLERANCE}}
    if extents.rows is not None:
        document["batch"] = _range(extents.rows)
    if axes:
        document["axes"] = axes
    if given.tokenizer is not None:
        _takes_text(document, given.tokenizer)
    columns = "".join(
        f"# {name}: a column for each of {', '.join(map(str, classes))}, in this order\n"
        for name, classes in facts.classes.items()
    )
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100)
    return HEAD + columns + text


def _tensor(
    name: str, tensor: GraphTensor, batched: bool, axes: Mapping[str, Range]
) -> dict[str, Any]:
    dims: list[int | str] = []
    for at, dim in enumerate(tensor.dims):
        if batched and at == 0:
            continue
        if isinstance(dim, int):
            dims.append(dim)
            continue
        axis = axes.get(named := axis_name(name, at, dim))
        if axis is None:  # an output's own: what it is follows from the inputs
            dims.append(-1)
        else:
            dims.append(named if axis.smallest < axis.largest else axis.smallest)
    return {"datatype": tensor.datatype.value, "dims": dims}


def _range(sizes: Range) -> dict[str, int]:
    return {"min": sizes.smallest, "opt": sizes.usual, "max": sizes.largest}


def takes_pieces(inputs: Mapping[str, object]) -> bool:
    """Whether a tokenizer makes all of these inputs of a graph."""
    return "input_ids" in inputs and inputs.keys() <= _CUTTABLE


def _takes_text(document: dict[str, Any], tokenizer: Path) -> None:
    """The model takes text; its pieces are the graph's inputs."""
    graph_inputs: dict[str, Any] = document["inputs"]
    if not takes_pieces(graph_inputs):
        wanted = ", ".join(sorted(_CUTTABLE))
        raise WrongModel(f"a tokenizer is for graphs whose inputs are among {wanted}")
    axis = graph_inputs["input_ids"]["dims"][-1]
    if "batch" not in document or not isinstance(axis, str):
        raise WrongModel("input_ids has a fixed size; export it with a free batch and length")
    from tokenizers import Tokenizer  # only models that take text need it

    try:
        vocabulary = Tokenizer.from_file(str(tokenizer)).get_vocab_size()
    except Exception:  # noqa: BLE001 - it raises Exception itself
        raise WrongModel(f"{tokenizer}: is no tokenizer.json; export it again") from None
    spans = {"input_ids": [0, vocabulary - 1], "attention_mask": [1, 1], "token_type_ids": [0, 0]}
    for name, tensor in graph_inputs.items():
        tensor["between"] = spans[name]
    document["graph"] |= {"inputs": graph_inputs, "text": {"input": "text", "axis": axis}}
    document["inputs"] = {"text": {"datatype": "BYTES", "dims": [1], "text": True}}
    for target in document["targets"].values():
        target["backend"] = "python"  # the tokenizer stands before the graph
    first = next(iter(document["outputs"].values()))
    if (
        first["datatype"] == DeclaredDatatype.FP32.value
        and [d for d in first["dims"] if d != -1] == first["dims"][:1]
        and isinstance(first["dims"][0], int)
    ):
        document["task"] = "embeddings"
        counts = {"datatype": DeclaredDatatype.INT32.value, "dims": [1]}
        document["outputs"][TOKEN_COUNTS] = counts
