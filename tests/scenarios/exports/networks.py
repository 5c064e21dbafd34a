"""Small convolutional networks as PyTorch exports them, and encoders of text with a tokenizer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from tests.scenarios.exports import FLOAT, ExportCase, Tensors, node, saved
from tests.unit.models import graphs

_RNG = np.random.default_rng(13)
_KERNEL = _RNG.normal(0, 0.3, (2, 3, 3, 3)).astype(np.float32)
PICTURE: Tensors = {"input": (FLOAT, ["batch_size", 3, "height", "width"])}
CLASSES: Tensors = {"output": (FLOAT, ["batch_size", 5])}


def _classifier(path: Path) -> Path:
    """Of pictures of 16 by 16, with the normalisation of a batch as it was learnt."""
    held = {
        "kernel": _KERNEL,
        "dense": _RNG.normal(0, 0.2, (2 * 8 * 8, 5)).astype(np.float32),
        **{name: np.array([0.9, 1.1], np.float32) for name in ("scale", "mean", "spread")},
        "shift": np.array([0.1, -0.1], np.float32),
    }
    nodes = [
        node("Conv", "input kernel", "conv", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "conv scale shift mean spread", "normal"),
        node("Relu", "normal", "active"),
        node("MaxPool", "active", "pooled", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "pooled", "flat"),
        node("MatMul", "flat dense", "output"),
    ]
    return saved(path, nodes, {"input": (FLOAT, ["batch_size", 3, 16, 16])}, CLASSES, held)


def _any_size(path: Path) -> Path:
    held = {"kernel": _KERNEL, "dense": _RNG.normal(0, 1, (2, 5)).astype(np.float32)}
    nodes = [
        node("Conv", "input kernel", "conv"),  # takes nothing under 3 by 3
        node("GlobalAveragePool", "conv", "mean"),
        node("Flatten", "mean", "flat"),
        node("MatMul", "flat dense", "output"),
    ]
    return saved(path, nodes, PICTURE, CLASSES, held)


def _multiples(path: Path) -> Path:
    """Down and up again, and added to what was there: sizes are even."""
    held = {"kernel": _RNG.normal(0, 0.3, (3, 3, 1, 1)).astype(np.float32),
            "twice": np.array([1, 1, 2, 2], np.float32)}  # fmt: skip
    nodes = [
        node("MaxPool", "input", "small", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "small kernel", "conv"),
        helper.make_node("Resize", ["conv", "", "twice"], ["large"], mode="nearest"),
        node("Add", "large input", "output"),
    ]
    return saved(path, nodes, PICTURE, {"output": PICTURE["input"]}, held)


def _fixed_by_weights(path: Path) -> Path:
    """The file calls height and width free; the dense layer fits pictures of 28 by 28."""
    held = {"dense": _RNG.normal(0, 0.1, (3 * 28 * 28, 5)).astype(np.float32)}
    nodes = [node("Flatten", "input", "flat"), node("MatMul", "flat dense", "output")]
    return saved(path, nodes, PICTURE, CLASSES, held)


def _in_halves(path: Path) -> Path:
    """`model.half()`, its inputs and outputs as they were."""
    held = {"kernel": _KERNEL.astype(np.float16)}
    nodes = [
        node("Cast", "input", "half", to=TensorProto.FLOAT16),
        node("Conv", "half kernel", "conv", pads=[1, 1, 1, 1]),
        node("Cast", "conv", "output", to=FLOAT),
    ]
    given: Tensors = {"input": (FLOAT, ["batch_size", 3, 8, 8])}
    return saved(path, nodes, given, {"output": (FLOAT, ["batch_size", 2, 8, 8])}, held)


def _tokenizer(file: Path) -> list[str]:
    return ["--tokenizer", str(graphs.tokenizer(file.with_suffix(".tokenizer.json")))]


def _folder(path: Path) -> Path:
    """As Optimum exports a folder of Hugging Face."""
    folder = path.with_suffix("")
    folder.mkdir()
    graphs.embedder(folder / "model.onnx", seed=2)
    graphs.tokenizer(folder / "tokenizer.json")
    return folder


CASES = {
    "classifier": ExportCase(_classifier),
    "any_size": ExportCase(_any_size, sizes={"height": 9, "width": 6}),
    "even_sizes": ExportCase(_multiples, sizes={"height": 8, "width": 16}),
    "fixed_by_weights": ExportCase(_fixed_by_weights, sizes={"height": 28, "width": 28}),
    "in_halves": ExportCase(_in_halves),
    "texts": ExportCase(graphs.embedder, options=_tokenizer),
    "padded_texts": ExportCase(
        lambda path: graphs.embedder(path, masked=False), options=_tokenizer, batched=False
    ),
    "folder_of_texts": ExportCase(_folder),
}
