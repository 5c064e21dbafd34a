"""Small ONNX files for tests, written with onnx itself, and tokenizers to go with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

WIDTH = 8
WORDS = ("[PAD]", "[UNK]", "spill", "the", "cloud", "over", "water", "home", "red", "ropes")


def _saved(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], held: Any) -> Path:
    constants = [numpy_helper.from_array(values, name) for name, values in held.items()]
    graph = helper.make_graph(nodes, "test", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(model, str(path))
    return path


def scores(
    path: Path,
    *,
    seed: int = 1,
    columns: int = 4,
    outputs: int = 2,
    batch: int | str = "batch",
    weight: float = 1.0,
) -> Path:
    """rows [batch, columns] -> score [batch, outputs]: two layers."""
    rng = np.random.default_rng(seed)
    held = {
        "first": rng.normal(0, 1, (columns, 64)).astype(np.float32),
        "second": (weight * rng.normal(0, 0.3, (64, outputs))).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["rows", "first"], ["hidden"], "matmul_first"),
        helper.make_node("Relu", ["hidden"], ["active"], "relu"),
        helper.make_node("MatMul", ["active", "second"], ["score"], "matmul_second"),
    ]
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, [batch, columns])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, [batch, outputs])
    return _saved(path, nodes, [rows], [score], held)


def embedder(path: Path, *, seed: int = 1, masked: bool = True) -> Path:
    """input_ids, attention_mask [batch, pieces] -> embedding [batch, WIDTH]: a masked mean."""
    rng = np.random.default_rng(seed)
    held = {
        "table": rng.normal(0, 1, (len(WORDS), WIDTH)).astype(np.float32),
        "mix": rng.normal(0, 1, (WIDTH, WIDTH)).astype(np.float32),
        "last": np.array([-1], np.int64),
        "along": np.array([1], np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Cast", ["attention_mask"], ["given"], to=TensorProto.FLOAT),
        helper.make_node("Identity" if masked else "Exp", ["given"], ["mask"]),
        helper.make_node("Unsqueeze", ["mask", "last"], ["weight"]),
        helper.make_node("Mul", ["words", "weight"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "along"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["mask", "along"], ["count"], keepdims=1),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
        helper.make_node("MatMul", ["mean", "mix"], ["embedding"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "pieces"])
        for name in ("input_ids", "attention_mask")
    ]
    out = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", WIDTH])
    return _saved(path, nodes, inputs, [out], held)


def trimmed(path: Path) -> Path:
    """x [batch, length] -> y [batch, 1]: the sum of a row, by how many columns are in use in any
    row of the batch."""
    held = {
        "along": np.array([1], np.int64),
        "over": np.array([0], np.int64),
        "zero": np.array(0, np.float32),
    }
    nodes = [
        helper.make_node("Equal", ["x", "zero"], ["empty"]),
        helper.make_node("Not", ["empty"], ["filled"]),
        helper.make_node("Cast", ["filled"], ["used"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["used"], ["columns"], axes=[0], keepdims=1),
        helper.make_node("ReduceSum", ["columns", "along"], ["width"]),
        helper.make_node("ReduceSum", ["x", "along"], ["sum"]),
        helper.make_node("Div", ["sum", "width"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])
    return _saved(path, nodes, [x], [y], held)


def cut_in_halves(path: Path) -> Path:
    """rows [batch, 4] -> score [batch, 2]. How far the first row is past 20 is multiplied by two
    constants that are equal in 32 bits, and the difference is added to every row; one of them is
    cut off where a graph is written in 16 bits."""
    held = {
        "mix": np.random.default_rng(3).normal(0, 1, (4, 2)).astype(np.float32),
        "first": np.array([0], np.int64),
        **{name: np.array(value, np.float32) for name, value in
           (("bound", 20), ("large", 131072), ("quarter", 32768), ("four", 4))},
    }  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["rows", "mix"], ["mixed"]),
        helper.make_node("Gather", ["mixed", "first"], ["one"], axis=0),
        helper.make_node("Abs", ["one"], ["size"]),
        helper.make_node("Sub", ["size", "bound"], ["past"]),
        helper.make_node("Relu", ["past"], ["excess"]),
        helper.make_node("Mul", ["excess", "large"], ["product"]),
        helper.make_node("Mul", ["excess", "quarter"], ["part"]),
        helper.make_node("Mul", ["part", "four"], ["parts"]),
        helper.make_node("Sub", ["product", "parts"], ["difference"]),
        helper.make_node("Add", ["mixed", "difference"], ["score"]),
    ]
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["batch", 4])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", 2])
    return _saved(path, nodes, [rows], [score], held)


def noisy(path: Path) -> Path:
    """rows [batch, 4] -> score [batch, 4]: with noise, as before `model.eval()`."""
    nodes = [
        helper.make_node("RandomNormalLike", ["rows"], ["noise"]),
        helper.make_node("Add", ["rows", "noise"], ["score"]),
    ]
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["batch", 4])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", 4])
    return _saved(path, nodes, [rows], [score], {})


def tokenizer(path: Path) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({w: at for at, w in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(path))
    return path


def summing(path: Path) -> Path:
    """rows [batch, 4] -> score [anything, 2]: adds all rows up, which no batch survives."""
    held = {"mix": np.ones((4, 2), np.float32), "along": np.array([0], np.int64)}
    nodes = [
        helper.make_node("ReduceSum", ["rows", "along"], ["sum"], keepdims=1),
        helper.make_node("MatMul", ["sum", "mix"], ["score"]),
    ]
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["batch", 4])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["anything", 2])
    return _saved(path, nodes, [rows], [score], held)


def determinants(path: Path) -> Path:
    """rows [batch, 4] -> score [batch, 2], by an operator that no engine has."""
    held = {"square": np.array([-1, 2, 2], np.int64), "last": np.array([1], np.int64)}
    nodes = [
        helper.make_node("Reshape", ["rows", "square"], ["squares"]),
        helper.make_node("Det", ["squares"], ["found"]),
        helper.make_node("Unsqueeze", ["found", "last"], ["column"]),
        helper.make_node("Concat", ["column", "column"], ["score"], axis=1),
    ]
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["batch", 4])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", 2])
    return _saved(path, nodes, [rows], [score], held)


def over_rows(path: Path, how: str) -> Path:
    """rows [batch, 4] -> score [batch, 2], by one of `COUPLED` or `INDEPENDENT`."""
    rng = np.random.default_rng(7)
    held: dict[str, Any] = {
        "mix": rng.normal(0, 1, (4, 2)).astype(np.float32),
        "first": np.array([0], np.int64),
        "last": np.array([-1], np.int64),
        "over": np.array(0, np.int64),
        "one": np.array([1], np.int64),
        "small": np.array(1e-5, np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["rows", "mix"], ["x"]),
        *(helper.make_node(kind, takes, gives, **told) for kind, takes, gives, told in _OVER[how]),
    ]
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["batch", 4])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", 2])
    return _saved(path, nodes, [rows], [score], held)


_MEAN = ("ReduceMean", ["x"], ["mean"], {"axes": [0], "keepdims": 1})
_COUNT: list[Any] = [
    ("Shape", ["x"], ["shape"], {"start": 0, "end": 1}),
    ("Cast", ["shape"], ["count"], {"to": TensorProto.FLOAT}),
]
COUPLED: dict[str, list[Any]] = {
    "softmax": [("Softmax", ["x"], ["score"], {"axis": 0})],
    "mean": [_MEAN, ("Sub", ["x", "mean"], ["score"], {})],
    "maximum": [
        ("ReduceMax", ["x"], ["most"], {"axes": [0], "keepdims": 1}),
        ("Sub", ["x", "most"], ["score"], {}),
    ],
    "cumulative sum": [("CumSum", ["x", "over"], ["score"], {})],
    "sort": [("Shape", ["x"], ["count"], {"start": 0, "end": 1}),
             ("TopK", ["x", "count"], ["score", "order"], {"axis": 0})],
    "argmax": [
        ("ArgMax", ["x"], ["best"], {"axis": 0, "keepdims": 1}),
        ("Cast", ["best"], ["number"], {"to": TensorProto.FLOAT}),
        ("Add", ["x", "number"], ["score"], {}),
    ],
    "batch statistics": [
        _MEAN,
        ("Sub", ["x", "mean"], ["off"], {}),
        ("Mul", ["off", "off"], ["square"], {}),
        ("ReduceMean", ["square"], ["variance"], {"axes": [0], "keepdims": 1}),
        ("Add", ["variance", "small"], ["more"], {}),
        ("Sqrt", ["more"], ["spread"], {}),
        ("Div", ["off", "spread"], ["score"], {}),
    ],
    "doubles counted": [
        ("Unique", ["x"], ["unique", "at", "back", "counts"], {"axis": 0}),
        ("Gather", ["counts", "back"], ["times"], {}),
        ("Cast", ["times"], ["count"], {"to": TensorProto.FLOAT}),
        ("Unsqueeze", ["count", "one"], ["column"], {}),
        ("Mul", ["x", "column"], ["score"], {}),
    ],
    "first row decides": [
        ("Gather", ["x", "first"], ["chosen"], {"axis": 0}),
        ("Shape", ["x"], ["shape"], {}),
        ("Expand", ["chosen", "shape"], ["score"], {}),
    ],
    "last row decides": [
        ("Gather", ["x", "last"], ["chosen"], {"axis": 0}),
        ("Shape", ["x"], ["shape"], {}),
        ("Expand", ["chosen", "shape"], ["score"], {}),
    ],
    "number of rows": [*_COUNT, ("Div", ["x", "count"], ["score"], {})],
    "attention": [
        ("Transpose", ["x"], ["turned"], {}),
        ("MatMul", ["x", "turned"], ["alike"], {}),
        ("Softmax", ["alike"], ["weights"], {"axis": 1}),
        ("MatMul", ["weights", "x"], ["score"], {}),
    ],
    "8 bits by the largest of the batch": [
        ("DynamicQuantizeLinear", ["x"], ["bits", "scale", "zero"], {}),
        ("DequantizeLinear", ["bits", "scale", "zero"], ["score"], {}),
    ],
}  # fmt: skip
INDEPENDENT: dict[str, list[Any]] = {
    "linear": [("Identity", ["x"], ["score"], {})],
    "softmax of a row": [("Softmax", ["x"], ["score"], {"axis": 1})],
    "sum of a row": [("Sigmoid", ["x"], ["score"], {})],
}
_OVER = COUPLED | INDEPENDENT
