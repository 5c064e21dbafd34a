"""Graphs by hand, of twenty shapes and types, and files that are broken or too new."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from tests.scenarios.exports import FLOAT, INT64, STRING, ExportCase, Tensors, node, saved

_RNG = np.random.default_rng(12)
MIX = _RNG.normal(0, 1, (4, 3)).astype(np.float32)
ROWS: Tensors = {"x": (FLOAT, ["batch", 4])}
SCORES: Tensors = {"y": (FLOAT, ["batch", 3])}


def _typed(kind: int, wide: Any = None) -> Callable[[Path], Path]:
    """Rows of one datatype, each mixed in 32 bits and cast back."""

    def write(path: Path) -> Path:
        nodes = [
            node("Cast", "x", "wide", to=FLOAT),
            node("MatMul", "wide mix", "mixed"),
            node("Cast", "mixed", "y", to=kind),
        ]
        return saved(
            path, nodes, {"x": (kind, ["batch", 4])}, {"y": (kind, ["batch", 3])}, {"mix": MIX * 9}
        )

    return write


def _halves(path: Path) -> Path:
    half = TensorProto.FLOAT16
    held = {"mix": MIX.astype(np.float16)}
    rows: Tensors = {"x": (half, ["batch", 4])}
    scores: Tensors = {"y": (half, ["batch", 3])}
    return saved(path, [node("MatMul", "x mix", "y")], rows, scores, held)


def _strings(path: Path) -> Path:
    given: Tensors = {"x": (STRING, ["batch", 2])}
    outputs: Tensors = {"y": (STRING, ["batch", 2])}
    return saved(path, [node("Identity", "x", "y")], given, outputs)


def _truths(path: Path) -> Path:
    given: Tensors = {"x": (TensorProto.BOOL, ["batch", 4])}
    nodes = [node("Not", "x", "y")]
    return saved(path, nodes, given, {"y": (TensorProto.BOOL, ["batch", 4])})


def _value_each(path: Path) -> Path:
    """A number for each row goes in, and one comes out."""
    given: Tensors = {"x": (FLOAT, ["n"]), "z": (FLOAT, ["n"])}
    return saved(path, [node("Mul", "x z", "y")], given, {"y": (FLOAT, ["n"])})


def _two_lengths(path: Path) -> Path:
    """Two sequences of unequal names, and a score for each pair of their places."""
    given: Tensors = {"a": (FLOAT, ["batch", "left", 2]), "b": (FLOAT, ["batch", "right", 2])}
    nodes = [node("Transpose", "b", "turned", perm=[0, 2, 1]), node("MatMul", "a turned", "y")]
    return saved(path, nodes, given, {"y": (FLOAT, ["batch", "left", "right"])})


def _unnamed(path: Path) -> Path:
    given: Tensors = {"x": (FLOAT, [None, None, 4])}
    nodes = [node("MatMul", "x mix", "each"), node("ReduceMean", "each", "y", axes=[1], keepdims=0)]
    return saved(path, nodes, given, {"y": (FLOAT, [None, 3])}, {"mix": MIX})


def _threshold(path: Path) -> Path:
    """One input has rows and the other is for all of them."""
    given: Tensors = {**ROWS, "least": (FLOAT, [1])}
    nodes = [node("MatMul", "x mix", "z"), node("Max", "z least", "y")]
    return saved(path, nodes, given, SCORES, {"mix": MIX})


def _scalar(path: Path) -> Path:
    given: Tensors = {**ROWS, "least": (FLOAT, [])}
    nodes = [node("MatMul", "x mix", "z"), node("Max", "z least", "y")]
    return saved(path, nodes, given, SCORES, {"mix": MIX})


def _one_row(path: Path) -> Path:
    given: Tensors = {"x": (FLOAT, [1, 4])}
    outputs: Tensors = {"y": (FLOAT, [1, 3])}
    return saved(path, [node("MatMul", "x mix", "y")], given, outputs, {"mix": MIX})


def _made_for_one(path: Path) -> Path:
    """A free batch axis, and a shape of one row within."""
    held = {"mix": MIX, "shape": np.array([1, 4], np.int64)}
    nodes = [node("Reshape", "x shape", "row"), node("MatMul", "row mix", "y")]
    return saved(path, nodes, ROWS, {"y": (FLOAT, [1, 3])}, held)


def _fixed_length(path: Path) -> Path:
    """The file calls its second axis free; its weights have a place for 77."""
    held = {"places": _RNG.normal(0, 1, (77, 2)).astype(np.float32)}
    nodes = [node("Add", "x places", "z"), node("ReduceMax", "z", "y", axes=[1], keepdims=0)]
    return saved(path, nodes, {"x": (FLOAT, ["batch", "length", 2])}, {"y": (FLOAT, ["batch", 2])},
                 held)  # fmt: skip


def _summed(path: Path) -> Path:
    nodes = [node("ReduceSum", "x", "sum", keepdims=0), node("Mul", "x sum", "y")]
    return saved(path, nodes, ROWS, {"y": (FLOAT, ["batch", 4])})


def _total(path: Path) -> Path:
    nodes = [node("MatMul", "x mix", "z"), node("ReduceMean", "z", "y", axes=[0], keepdims=0)]
    return saved(path, nodes, ROWS, {"y": (FLOAT, [3])}, {"mix": MIX})


def _one_number(path: Path) -> Path:
    nodes = [node("MatMul", "x mix", "z"), node("ReduceMean", "z", "y", keepdims=0)]
    return saved(path, nodes, ROWS, {"y": (FLOAT, [])}, {"mix": MIX})


def _over_rows(path: Path) -> Path:
    nodes = [node("MatMul", "x mix", "z"), node("Softmax", "z", "y", axis=0)]
    return saved(path, nodes, ROWS, SCORES, {"mix": MIX})


def _places(path: Path) -> Path:
    """How many rows come out follows from what is in them."""
    nodes = [node("NonZero", "x", "at"), node("Transpose", "at", "y")]
    return saved(path, nodes, ROWS, {"y": (INT64, ["n", 2])})


def _names(path: Path) -> Path:
    """As tf2onnx takes them over."""
    given: Tensors = {"serving_default_x:0": (FLOAT, ["batch", 4])}
    nodes = [node("MatMul", "serving_default_x:0 mix", "dense/BiasAdd:0")]
    return saved(path, nodes, given, {"dense/BiasAdd:0": (FLOAT, ["batch", 3])}, {"mix": MIX})


def _paths(path: Path) -> Path:
    """As PyTorch names what is inside a module."""
    given: Tensors = {"_x": (FLOAT, ["batch", 4])}
    outputs: Tensors = {"/head/Gemm_output_0": (FLOAT, ["batch", 3])}
    return saved(path, [node("MatMul", "_x mix", "/head/Gemm_output_0")], given, outputs,
                 {"mix": MIX})  # fmt: skip


def _logarithm(path: Path) -> Path:
    """No number for negative values."""
    return saved(path, [node("Log", "x", "y")], ROWS, {"y": (FLOAT, ["batch", 4])})


def _beside(path: Path) -> Path:
    nodes = [node("MatMul", "x mix", "y")]
    return saved(path, nodes, ROWS, SCORES, {"mix": MIX}, beside=f"{path.stem}.onnx.data")


def _one_longer(path: Path) -> Path:
    """One sequence is longer by one than the other, as attention over a cache has it."""
    given: Tensors = {"a": (FLOAT, ["batch", 1, "past"]), "b": (FLOAT, ["batch", "total", 1])}
    held = {"ends": np.array([0, 0, 0, 0, 0, 1], np.int64)}
    nodes = [node("Pad", "a ends", "longer"), node("MatMul", "longer b", "y")]
    return saved(path, nodes, given, {"y": (FLOAT, ["batch", 1, 1])}, held)


def _lost_weights(path: Path) -> Path:
    _beside(path).with_name(f"{path.stem}.onnx.data").unlink()
    return path


def _newer(ir: int = 8, opset: int = 17) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        nodes = [node("MatMul", "x mix", "y")]
        return saved(path, nodes, ROWS, SCORES, {"mix": MIX}, opset=opset, ir=ir)

    return write


def _extension(path: Path) -> Path:
    nodes = [node("BertTokenizer", "x", "y", domain="ai.onnx.contrib")]
    return saved(path, nodes, {"x": (STRING, ["batch"])}, {"y": (INT64, ["batch", "pieces"])},
                 domains=["ai.onnx.contrib"])  # fmt: skip


def _locale(path: Path) -> Path:
    """As TfidfVectorizer lowers words, in a locale that no machine has."""
    lower = node("StringNormalizer", "x", "y", case_change_action="LOWER", locale="xx_XX")
    return saved(path, [lower], {"x": (STRING, ["n"])}, {"y": (STRING, ["n"])})


def _sequence(path: Path) -> Path:
    tensor = helper.make_tensor_type_proto(FLOAT, None)
    output = helper.make_value_info("y", helper.make_sequence_type_proto(tensor))
    given = [helper.make_tensor_value_info("x", FLOAT, ["batch", 4])]
    graph = helper.make_graph([node("SplitToSequence", "x", "y")], "exported", given, [output])
    opsets = [helper.make_opsetid("", 17)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )
    return path


def _no_inputs(path: Path) -> Path:
    held = helper.make_tensor("value", FLOAT, [2], [1.0, 2.0])
    constant = helper.make_node("Constant", [], ["y"], value=held)
    return saved(path, [constant], {}, {"y": (FLOAT, [2])})


def _no_values(path: Path) -> Path:
    given: Tensors = {"x": (FLOAT, ["batch", 0])}
    return saved(path, [node("Identity", "x", "y")], given, {"y": (FLOAT, ["batch", 0])})


def _complex(path: Path) -> Path:
    kind = TensorProto.COMPLEX64
    given: Tensors = {"x": (kind, ["batch", 4])}
    outputs: Tensors = {"y": (kind, ["batch", 4])}
    return saved(path, [node("Identity", "x", "y")], given, outputs)


def _brain_floats(path: Path) -> Path:
    kind = TensorProto.BFLOAT16
    given: Tensors = {"x": (kind, ["batch", 4])}
    outputs: Tensors = {"y": (kind, ["batch", 4])}
    return saved(path, [node("Relu", "x", "y")], given, outputs)


def _brain_weights(path: Path) -> Path:
    """Stored in 16 bits, and cast before they are used."""
    held = {"mix": MIX.astype(ml_dtypes.bfloat16)}
    nodes = [node("Cast", "mix", "wide", to=FLOAT), node("MatMul", "x wide", "y")]
    return saved(path, nodes, ROWS, SCORES, held)


def _random(path: Path) -> Path:
    nodes = [node("RandomNormalLike", "x", "noise"), node("Add", "x noise", "y")]
    return saved(path, nodes, ROWS, {"y": (FLOAT, ["batch", 4])})


def _cut(path: Path) -> Path:
    path.write_bytes(_typed(FLOAT)(path).read_bytes()[:-30])
    return path


def _page(path: Path) -> Path:
    path.write_bytes(b"<!doctype html><title>404</title>" * 20)
    return path


def _types(path: Path) -> Path:
    """A Cast to whole numbers, said to be floats."""
    nodes = [node("Cast", "x", "y", to=INT64)]
    return saved(path, nodes, ROWS, {"y": (FLOAT, ["batch", 4])})


def _folder(path: Path) -> Path:
    """What `save_pretrained` writes."""
    folder = path.with_suffix("")
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def _checkpoint(path: Path) -> Path:
    checkpoint = path.with_suffix(".pt")
    checkpoint.write_bytes(b"PK")
    return checkpoint


T = TensorProto
SERVED = {
    **{
        T.DataType.Name(kind).lower(): ExportCase(_typed(kind))
        for kind in (T.INT8, T.UINT8, T.INT16, T.UINT16, T.INT32, T.UINT32, T.INT64, T.UINT64)
    },
    "float": ExportCase(_typed(T.FLOAT)),
    "float16": ExportCase(_halves),
    "brain_weights": ExportCase(_brain_weights),
    "strings": ExportCase(_strings),
    "truths": ExportCase(_truths),
    "a_value_each": ExportCase(_value_each),
    "two_lengths": ExportCase(_two_lengths, sizes={"left": 3, "right": 5}),
    "unnamed_axes": ExportCase(_unnamed),
    "a_threshold_for_all": ExportCase(_threshold, batched=False),
    "a_scalar_for_all": ExportCase(_scalar, batched=False),
    "one_row": ExportCase(_one_row, batched=False),
    "made_for_one_row": ExportCase(_made_for_one, batched=False, sizes={"batch": 1}),
    "a_fixed_length": ExportCase(_fixed_length, sizes={"length": 77}),
    "summed_over_rows": ExportCase(_summed, batched=False),
    "one_total": ExportCase(_total, batched=False),
    "one_number": ExportCase(_one_number, batched=False),
    "softmax_over_rows": ExportCase(_over_rows, batched=False),
    "places_of_values": ExportCase(_places, batched=False),
    "names_of_tensorflow": ExportCase(_names),
    "names_of_modules": ExportCase(_paths),
    "no_numbers": ExportCase(_logarithm),
    "weights_beside": ExportCase(_beside),
}
REFUSED = {
    "one_longer": ExportCase(
        _one_longer,
        r"no size tried fits its axes past, total: .*one_longer\.model\.yaml: complete",
    ),
    "lost_weights": ExportCase(_lost_weights, r"should be stored in .*lost_weights\.onnx\.data"),
    "a_newer_format": ExportCase(_newer(ir=99), "has IR version 99, .*`ir_version` to that"),
    "a_newer_opset": ExportCase(_newer(opset=99), "has opset 99, .*`opset_version` to that"),
    "an_extension": ExportCase(_extension, "BertTokenizer.* not a registered .*--tokenizer"),
    "a_locale": ExportCase(_locale, "Failed to construct locale .*; export it with another locale"),
    "a_sequence": ExportCase(_sequence, "y: is of type sequence; export a tensor"),
    "no_inputs": ExportCase(_no_inputs, "it has no inputs"),
    "no_values": ExportCase(_no_values, "x: has an axis of size 0"),
    "complex_numbers": ExportCase(_complex, "x: has the type COMPLEX64, which no protocol"),
    "brain_floats": ExportCase(_brain_floats, "Could not find an implementation for Relu"),
    "random_answers": ExportCase(_random, "has two answers to the same input"),
    "cut_file": ExportCase(_cut, "is no whole ONNX model"),
    "page": ExportCase(_page, "is no whole ONNX model"),
    "wrong_types": ExportCase(_types, r"elem type differs from existing elem type: \(7\) vs \(1\)"),
    "a_folder_of_weights": ExportCase(_folder, "has no ONNX file; .*optimum-cli export onnx"),
    "a_checkpoint": ExportCase(_checkpoint, r"is no ONNX file; .*torch\.onnx\.export"),
}
CASES = {**SERVED, **REFUSED}
