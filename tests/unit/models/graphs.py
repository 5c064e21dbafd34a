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
    path: Path, *, seed: int = 1, columns: int = 4, outputs: int = 2, batch: int | str = "batch"
) -> Path:
    """rows [batch, columns] -> score [batch, outputs]: two layers."""
    rng = np.random.default_rng(seed)
    held = {
        "first": rng.normal(0, 1, (columns, 64)).astype(np.float32),
        "second": rng.normal(0, 0.3, (64, outputs)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["rows", "first"], ["hidden"], "matmul_first"),
        helper.make_node("Relu", ["hidden"], ["active"], "relu"),
        helper.make_node("MatMul", ["active", "second"], ["score"], "matmul_second"),
    ]
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, [batch, columns])
    score = helper.make_tensor_value_info("score", TensorProto.FLOAT, [batch, outputs])
    return _saved(path, nodes, [rows], [score], held)


def embedder(path: Path, *, seed: int = 1) -> Path:
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
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
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
