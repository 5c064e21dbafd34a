"""Settings with categories: tables, and a small embedding model made for the test, in whose words
vectors point anywhere and a text is the mean of its words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace

from gateway.classify.categories import examples
from gateway.classify.categories.values import new_key, read_key, written
from gateway.classify.categories.words import words
from gateway.config import ClassifySettings

SIZE = 64
NOWHERE = "nowhere"
"""A word whose vector is no number."""
EXAMPLES = [
    "the zebra project starts in May",
    "zebra project budget for May",
    "minutes of the zebra project",
    "slides on zebra for the project board",
    "who works on the zebra project",
    "zebra project risks and dates",
]


def model(directory: Path) -> Path:
    """A directory as of a version of an embedding model."""
    texts = [*examples.benign(), *EXAMPLES]
    known = ["[UNK]", NOWHERE, *sorted({word for text in texts for word in words(text)})]
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(known)}, "[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    vectors = np.random.default_rng(5).normal(size=(len(known), SIZE)).astype(np.float32)
    vectors[1] = np.nan
    directory.mkdir()
    tokenizer.save(str(directory / "tokenizer.json"))
    onnx.save(_graph(vectors), str(directory / "model.onnx"))
    return directory


def _graph(vectors: Any) -> Any:
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "pieces"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", SIZE])
    nodes = [
        helper.make_node("Gather", ["vectors", "input_ids"], ["pieces"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
        helper.make_node("Mul", ["pieces", "wide"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "middle"], ["sum"], keepdims=0),
        helper.make_node("LpNormalization", ["sum"], ["embedding"], axis=1, p=2),
    ]
    constants = [
        numpy_helper.from_array(np.asarray([2], np.int64), "last"),
        numpy_helper.from_array(np.asarray([1], np.int64), "middle"),
        numpy_helper.from_array(vectors, "vectors"),
    ]
    graph = helper.make_graph(nodes, "mean", inputs, [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def table(directory: Path, values: Iterable[str], name: str = "people") -> dict[str, Any]:
    """The settings of a category with these values."""
    path, key_path = directory / f"{name}.values", directory / f"{name}.key"
    key_path.write_text(new_key())
    path.write_bytes(written(values, read_key(key_path))[0])
    return {"values": path, "key_file": key_path}


def by_examples(directory: Path, **more: Any) -> dict[str, Any]:
    path = directory / "zebra.txt"
    path.write_text("\n".join(EXAMPLES))
    return {"examples": path, **more}


def classify(**fields: Any) -> ClassifySettings:
    return ClassifySettings(names="off", **fields)
