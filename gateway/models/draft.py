"""A declaration drafted from what an ONNX file says of itself, for its owner to complete."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gateway.models.declaration import TOKEN_COUNTS
from gateway.models.declaration.tensors import DeclaredDatatype
from gateway.models.failures import WrongModel
from gateway.models.graph import GraphTensor, Signature

HEAD = (
    "# Drafted by `spillway models build` from the ONNX file. Complete about, licence and source,\n"
    "# and set the ranges to what callers will send.\n"
)
BATCH = {"min": 1, "opt": 8, "max": 32}
AXIS = {"min": 1, "opt": 32, "max": 256}
_CUTTABLE = {"input_ids", "attention_mask", "token_type_ids"}


@dataclass(frozen=True, slots=True)
class DraftDetails:
    """What its owner says with the command."""

    name: str
    about: str = "not said yet"
    licence: str = "not said yet"
    tokenizer: Path | None = None


def drafted(signature: Signature, given: DraftDetails, sha256: str) -> str:
    """A model.yaml. Raises WrongModel for a graph that no declaration can describe."""
    batched = _batched(signature)
    axes: dict[str, Any] = {}
    inputs = _tensors(signature.inputs, batched, axes, free=False)
    outputs = _tensors(signature.outputs, batched, dict(axes), free=True)
    document: dict[str, Any] = {
        "name": given.name,
        "about": given.about,
        "licence": given.licence,
        "source": {"sha256": sha256},
        "task": "infer",
        "inputs": inputs,
        "outputs": outputs,
        "graph": {},
        "precisions": ["fp32", "fp16"],
        "targets": {
            "embedded": {"backend": "python"},
            "python": {"backend": "python"},
            "onnxruntime": {"backend": "onnxruntime"},
            "tensorrt": {"backend": "tensorrt_plan"},
        },
    }
    if batched:
        document["batch"] = BATCH
    if axes:
        document["axes"] = axes
    if given.tokenizer is not None:
        _takes_text(document, given.tokenizer)
    return HEAD + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100)


def _batched(signature: Signature) -> bool:
    """Whether the first axis of every input is free."""
    free = {bool(t.dims) and not isinstance(t.dims[0], int) for t in signature.inputs.values()}
    if free == {True, False}:
        raise WrongModel(
            "some inputs have a free first axis and some have not; export all with a batch axis, "
            "or write model.yaml by hand"
        )
    return free == {True}


def _tensors(
    tensors: Mapping[str, GraphTensor], batched: bool, axes: dict[str, Any], free: bool
) -> dict[str, Any]:
    declared: dict[str, Any] = {}
    for name, tensor in tensors.items():
        dims: list[int | str] = []
        for at, dim in enumerate(tensor.dims[1:] if batched else tensor.dims):
            axis = dim if isinstance(dim, int) else _axis(dim or f"{name}_{at}")
            if isinstance(axis, str) and axis not in axes:
                if free:  # an output's own: what it is follows from the inputs
                    axis = -1
                else:
                    axes[axis] = dict(AXIS)
            dims.append(axis)
        if not dims:
            raise WrongModel(f"{name}: has no axis but the batch; give it one of size 1")
        declared[name] = {"datatype": tensor.datatype.value, "dims": dims}
    return declared


def _axis(name: str) -> str:
    return re.sub(r"\W", "_", name)[:48].lstrip("0123456789") or "size"


def _takes_text(document: dict[str, Any], tokenizer: Path) -> None:
    """The model takes text; its pieces are the graph's inputs."""
    graph_inputs: dict[str, Any] = document["inputs"]
    if "input_ids" not in graph_inputs or not graph_inputs.keys() <= _CUTTABLE:
        wanted = ", ".join(sorted(_CUTTABLE))
        raise WrongModel(f"a tokenizer is for graphs whose inputs are among {wanted}")
    (axis,) = graph_inputs["input_ids"]["dims"]
    if not isinstance(axis, str):
        raise WrongModel("input_ids has a fixed length; export it with a free second axis")
    from tokenizers import Tokenizer  # only models that take text need it

    try:
        vocabulary = Tokenizer.from_file(str(tokenizer)).get_vocab_size()
    except Exception:  # noqa: BLE001 - it raises Exception itself
        raise WrongModel(f"{tokenizer}: is no tokenizer.json; export it again") from None
    spans = {"input_ids": [0, vocabulary - 1], "attention_mask": [1, 1], "token_type_ids": [0, 0]}
    for name, tensor in graph_inputs.items():
        tensor["between"] = spans[name]
    document["graph"] = {"inputs": graph_inputs, "text": {"input": "text", "axis": axis}}
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
