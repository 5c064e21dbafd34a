"""Writes the ONNX graph of all-MiniLM-L6-v2 from its safetensors: no torch, no model hub.

The graph is BERT's encoder (6 layers, 12 heads of 32, post-norm, exact GELU) with the sentence
pooling behind it: the mean over the pieces that are not padding, scaled to length one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, WIDTH = 6, 12, 384
EPSILON = 1e-12
OPSET, IR_VERSION = (
    17,
    8,
)  # the first opset with LayerNormalization; read by ONNX Runtime since 1.13

Array = npt.NDArray[np.float32]
Weights = dict[str, Array]


def read_safetensors(path: Path) -> Weights:
    """The float tensors of a file: 8 bytes of header length, a JSON header, then the raw values."""
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    weights = {}
    for name, entry in header.items():
        if entry.get("dtype") != "F32":
            continue
        start, end = entry["data_offsets"]
        values = np.frombuffer(raw[8 + length + start : 8 + length + end], dtype="<f4")
        weights[name] = values.reshape(entry["shape"])
    return weights


@dataclass(slots=True)
class Graph:
    """Collects nodes and constants; every method returns the name of the value that it adds."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def constant(self, name: str, values: npt.NDArray[np.generic]) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name

    def integers(self, *values: int) -> str:
        return self.constant(f"int_{'_'.join(map(str, values))}", np.array(values, dtype=np.int64))

    def scalar(self, value: float) -> str:
        return self.constant(f"float_{value:.9g}", np.array(value, dtype=np.float32))

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def split(self, value: str, parts: int) -> Sequence[str]:
        names = [f"split_{len(self.nodes)}_{part}" for part in range(parts)]
        self.nodes.append(helper.make_node("Split", [value], names, names[0], axis=-1))
        return names

    def dense(self, value: str, name: str, kernel: Array, bias: Array) -> str:
        product = self.add("MatMul", value, self.constant(f"{name}.kernel", kernel))
        return self.add("Add", product, self.constant(f"{name}.bias", bias))

    def norm(self, value: str, name: str, weights: Weights) -> str:
        return self.add(
            "LayerNormalization",
            value,
            self.constant(f"{name}.scale", weights[f"{name}.weight"]),
            self.constant(f"{name}.shift", weights[f"{name}.bias"]),
            axis=-1,
            epsilon=EPSILON,
        )


def embeddings(graph: Graph, weights: Weights) -> str:
    def table(name: str) -> Array:
        return weights[f"embeddings.{name}_embeddings.weight"]

    words = graph.add("Gather", graph.constant("words", table("word")), "input_ids")
    # Every text is one segment: its row is added to each position once and for all.
    positions = graph.constant("positions", table("position") + table("token_type")[0])
    length = graph.add(
        "Slice", graph.add("Shape", "input_ids"), graph.integers(1), graph.integers(2)
    )
    used = graph.add("Slice", positions, graph.integers(0), length, graph.integers(0))
    return graph.norm(graph.add("Add", words, used), "embeddings.LayerNorm", weights)


def attention(graph: Graph, value: str, bias: str, name: str, weights: Weights) -> str:
    def joined(kind: str) -> Array:
        parts = [weights[f"{name}.self.{part}.{kind}"] for part in ("query", "key", "value")]
        return np.concatenate(parts)

    def heads(part: str, order: list[int]) -> str:
        shaped = graph.add("Reshape", part, graph.integers(0, 0, HEADS, WIDTH // HEADS))
        return graph.add("Transpose", shaped, perm=order)

    # One product for query, key and value: larger, so faster than three.
    projected = graph.dense(value, f"{name}.qkv", joined("weight").T, joined("bias"))
    query, key, values = graph.split(projected, 3)
    scores = graph.add("MatMul", heads(query, [0, 2, 1, 3]), heads(key, [0, 2, 3, 1]))
    scaled = graph.add("Mul", scores, graph.scalar((WIDTH // HEADS) ** -0.5))
    shares = graph.add("Softmax", graph.add("Add", scaled, bias), axis=-1)
    mixed = graph.add("MatMul", shares, heads(values, [0, 2, 1, 3]))
    merged = graph.add(
        "Reshape",
        graph.add("Transpose", mixed, perm=[0, 2, 1, 3]),
        graph.integers(0, 0, WIDTH),
    )
    output = f"{name}.output.dense"
    out = graph.dense(merged, output, weights[f"{output}.weight"].T, weights[f"{output}.bias"])
    return graph.norm(graph.add("Add", out, value), f"{name}.output.LayerNorm", weights)


def feed_forward(graph: Graph, value: str, name: str, weights: Weights) -> str:
    def dense(at: str, part: str) -> str:
        return graph.dense(at, part, weights[f"{part}.weight"].T, weights[f"{part}.bias"])

    inner = dense(value, f"{name}.intermediate.dense")
    erf = graph.add("Erf", graph.add("Div", inner, graph.scalar(2**0.5)))
    gate = graph.add("Add", erf, graph.scalar(1.0))
    active = graph.add("Mul", graph.add("Mul", inner, gate), graph.scalar(0.5))
    out = dense(active, f"{name}.output.dense")
    return graph.norm(graph.add("Add", out, value), f"{name}.output.LayerNorm", weights)


def pooled(graph: Graph, value: str, mask: str) -> None:
    weight = graph.add("Unsqueeze", mask, graph.integers(-1))
    summed = graph.add("ReduceSum", graph.add("Mul", value, weight), graph.integers(1), keepdims=0)
    count = graph.add("ReduceSum", mask, graph.integers(1), keepdims=1)
    mean = graph.add("Div", summed, graph.add("Max", count, graph.scalar(1e-9)))
    length = graph.add("ReduceL2", mean, axes=[1], keepdims=1)
    shortest = graph.add("Max", length, graph.scalar(1e-12))
    graph.nodes.append(helper.make_node("Div", [mean, shortest], ["embedding"], "embedding"))


def graph_of(weights: Weights) -> onnx.ModelProto:
    graph = Graph()
    mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    padding = graph.add("Sub", graph.scalar(1.0), mask)
    bias = graph.add("Mul", padding, graph.scalar(-1e4))
    bias = graph.add("Unsqueeze", bias, graph.integers(1, 2))
    value = embeddings(graph, weights)
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        value = attention(graph, value, bias, f"{name}.attention", weights)
        value = feed_forward(graph, value, name, weights)
    pooled(graph, value, mask)

    def tensor(name: str, kind: int, shape: list[str | int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "all-MiniLM-L6-v2",
            [
                tensor("input_ids", TensorProto.INT64, ["batch", "pieces"]),
                tensor("attention_mask", TensorProto.INT64, ["batch", "pieces"]),
            ],
            [tensor("embedding", TensorProto.FLOAT, ["batch", WIDTH])],
            list(graph.constants.values()),
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="spillway",
    )
    onnx.checker.check_model(model, full_check=True)
    return model
