"""Classifiers and regressors as skl2onnx 1.20 writes them: names, types, shapes and operators are
those of `skl2onnx.to_onnx(model, rows[:1])` for scikit-learn 1.7, its options as said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.scenarios.exports import FLOAT, INT64, STRING, ExportCase, Tensors, node, saved

ML = "ai.onnx.ml"
ROWS: Tensors = {"X": (FLOAT, [None, 4])}
LABEL, SCORES = (INT64, [None]), (FLOAT, [None, 2])
_RNG = np.random.default_rng(11)
_WEIGHTS = _RNG.normal(0, 1, 4).astype(np.float32)


def _linear(classes: dict[str, Any], takes: str = "X", weights: Any = _WEIGHTS) -> Any:
    return node(
        "LinearClassifier", takes, "label probability_tensor", domain=ML, multi_class=1,
        post_transform="LOGISTIC", coefficients=[*(-weights).tolist(), *weights.tolist()],
        intercepts=[-0.2, 0.2], **classes,
    )  # fmt: skip


def _zip_map(path: Path, nodes: list[Any], inputs: Tensors, classes: list[int] | list[str]) -> Path:
    """The ends of a classifier: a label, and a list of maps from class to probability."""
    numbers = isinstance(classes[0], int)
    kind = "classlabels_int64s" if numbers else "classlabels_strings"
    ends = [
        node("Cast", "label", "output_label", to=INT64)
        if numbers
        else node("Identity", "label", "output_label"),
        node("ZipMap", "probabilities", "output_probability", domain=ML, **{kind: classes}),
    ]
    nodes = [*nodes, node("Normalizer", "probability_tensor", "probabilities", domain=ML), *ends]
    label = helper.make_tensor_value_info("output_label", INT64 if numbers else STRING, [None])
    each = helper.make_map_type_proto(
        INT64 if numbers else STRING, helper.make_tensor_type_proto(FLOAT, [])
    )
    maps = helper.make_value_info("output_probability", helper.make_sequence_type_proto(each))
    given = [helper.make_tensor_value_info(name, *tensor) for name, tensor in inputs.items()]
    graph = helper.make_graph(nodes, "exported", given, [label, maps])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )
    return path


def _numbers(path: Path) -> Path:
    return _zip_map(path, [_linear({"classlabels_ints": [0, 1]})], ROWS, [0, 1])


def _words(path: Path) -> Path:
    classes = ["no", "yes"]
    return _zip_map(path, [_linear({"classlabels_strings": classes})], ROWS, classes)


def _scaled(path: Path) -> Path:
    scaler = node(
        "Scaler", "X", "scaled", domain=ML, offset=[0.1, 0.0, -0.2, 0.3], scale=[1.5, 0.5, 2.0, 1.0]
    )
    linear = _linear({"classlabels_ints": [0, 1]}, "scaled")
    return _zip_map(path, [scaler, linear], ROWS, [0, 1])


def _mixed(path: Path) -> Path:
    """A ColumnTransformer: an age, and a city that becomes three columns."""
    nodes = [
        node("Scaler", "age", "scaled", domain=ML, offset=[40.0], scale=[0.1]),
        node("OneHotEncoder", "city", "hot", domain=ML, cats_strings=["a", "b", "c"], zeros=1),
        node("Reshape", "hot flat", "columns"),
        node("Concat", "scaled columns", "variable", axis=1),
    ]
    shape = helper.make_tensor("flat", INT64, [2], [-1, 3])
    nodes.insert(0, helper.make_node("Constant", [], ["flat"], value=shape))
    inputs: Tensors = {"age": (FLOAT, [None, 1]), "city": (STRING, [None, 1])}
    linear = _linear({"classlabels_ints": [0, 1]}, "variable")
    return _zip_map(path, [*nodes, linear], inputs, [0, 1])


def _forest(kind: str, **more: Any) -> Any:
    """Two trees of one split each."""
    nodes = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 0, 1, 2],
        "nodes_featureids": [0, 0, 0, 2, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
        "nodes_values": [0.1, 0.0, 0.0, -0.3, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0, 2, 0, 0],
        "nodes_missing_value_tracks_true": [0] * 6,
        "nodes_hitrates": [1.0] * 6,
    }
    return node(kind, "X", more.pop("gives"), domain=ML, **nodes, **more)


def _trees(path: Path) -> Path:
    leaves = [(tree, leaf, number) for tree in (0, 1) for leaf in (1, 2) for number in (0, 1)]
    forest = _forest(
        "TreeEnsembleClassifier", gives="label probability_tensor", classlabels_int64s=[0, 1],
        class_treeids=[at for at, _, _ in leaves], class_nodeids=[at for _, at, _ in leaves],
        class_ids=[at for _, _, at in leaves], post_transform="NONE",
        class_weights=[0.4, 0.1, 0.05, 0.45, 0.3, 0.2, 0.1, 0.4],
    )  # fmt: skip
    return _zip_map(path, [forest], ROWS, [0, 1])


def _boosted(path: Path) -> Path:
    forest = _forest(
        "TreeEnsembleRegressor", gives="variable", n_targets=1, post_transform="NONE",
        target_treeids=[0, 0, 1, 1], target_nodeids=[1, 2, 1, 2], target_ids=[0] * 4,
        target_weights=[-0.5, 0.75, 0.25, 1.5],
    )  # fmt: skip
    outputs: Tensors = {"variable": (FLOAT, [None, 1])}
    return saved(path, [forest], ROWS, outputs, domains=[ML, ""])  # it names one domain twice


def _line(path: Path) -> Path:
    line = node(
        "LinearRegressor", "X", "variable", domain=ML, coefficients=_WEIGHTS.tolist(),
        intercepts=[0.5],
    )  # fmt: skip
    return saved(path, [line], ROWS, {"variable": (FLOAT, [None, 1])}, domains=[ML])


def _without_maps(path: Path) -> Path:
    """`options={"zipmap": False}`"""
    nodes = [
        _linear({"classlabels_ints": [0, 1]}),
        node("Normalizer", "probability_tensor", "probabilities", domain=ML),
    ]
    return saved(path, nodes, ROWS, {"label": LABEL, "probabilities": SCORES}, domains=[ML])


def _columns(path: Path) -> Path:
    """`options={"zipmap": "columns"}`"""
    held = {
        "flat": np.array([-1], np.int64),
        "along": np.array([1], np.int64),
        **{f"at{at}": np.array([at], np.int64) for at in range(3)},
    }
    nodes = [_linear({"classlabels_ints": [0, 1]}), node("Cast", "label", "output_label", to=INT64)]
    for at in range(2):
        nodes.append(node("Slice", f"probability_tensor at{at} at{at + 1} along", f"column{at}"))
        nodes.append(node("Reshape", f"column{at} flat", f"i{at}"))
    column = (FLOAT, [None])
    outputs: Tensors = {"output_label": LABEL, "i0": column, "i1": column}
    return saved(path, nodes, ROWS, outputs, held, domains=[ML])


def _clusters(path: Path) -> Path:
    held = {
        "centres": _RNG.normal(0, 1, (1, 3, 4)).astype(np.float32),
        "along": np.array([1], np.int64),
    }
    nodes = [
        node("Unsqueeze", "X along", "rows"),
        node("Sub", "rows centres", "off"),
        node("ReduceSumSquare", "off", "squares", axes=[2], keepdims=0),
        node("Sqrt", "squares", "scores"),
        node("ArgMin", "scores", "label", axis=1, keepdims=0),
    ]
    outputs: Tensors = {"label": LABEL, "scores": (FLOAT, [None, 3])}
    return saved(path, nodes, ROWS, outputs, held)


def _doubles(path: Path) -> Path:
    held = {"weights": _RNG.normal(0, 1, (4, 1))}
    rows: Tensors = {"X": (TensorProto.DOUBLE, [None, 4])}
    outputs: Tensors = {"variable": (TensorProto.DOUBLE, [None, 1])}
    return saved(path, [node("MatMul", "X weights", "variable")], rows, outputs, held)


CASES = {
    "maps_of_numbers": ExportCase(_numbers),
    "maps_of_words": ExportCase(_words),
    "scaled_rows": ExportCase(_scaled),
    "a_column_of_strings": ExportCase(_mixed),
    "forest": ExportCase(_trees),
    "boosted_trees": ExportCase(_boosted),
    "line": ExportCase(_line),
    "without_maps": ExportCase(_without_maps),
    "a_value_for_each_class": ExportCase(_columns),
    "clusters": ExportCase(_clusters),
    "doubles": ExportCase(_doubles),
}
