"""Versions on a shelf, each broken in a way, and what a pull of it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.models.registry import FILES
from tests.live import MODELS
from tests.unit.models.registry import rig


def _manifest(version: Path, change: Callable[[dict[str, object]], None]) -> None:
    path = version / "manifest.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_bytes(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())


def swap(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new)


def _other_interface(version: Path) -> None:
    text = (version / "model.yaml").read_text()
    _declared(version, text.replace("dims: [12]", "dims: [13]").replace("220.0, ", "220.0, 1.0, "))


def _graph_of(version: Path, model: str) -> None:
    rig.rewritten(version, model_dot_onnx=(MODELS / model / "1" / "model.onnx").read_bytes())


def _linked_out(version: Path) -> None:
    (version / FILES / "model.py").unlink()
    (version / FILES / "model.py").symlink_to("/etc/passwd")


def _a_directory(version: Path) -> None:
    (version / FILES / "model.py").unlink()
    (version / FILES / "model.py").mkdir()


def _declared(version: Path, text: str) -> None:
    (version / "model.yaml").write_text(text)
    rig.rewritten(version)


def _without_graph(version: Path) -> None:
    (version / FILES / "model.onnx").unlink()
    rig.rewritten(version)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte of a file differs": (
        lambda v: (v / FILES / "runtime.py").write_bytes(
            swap((v / FILES / "runtime.py").read_bytes(), b"score", b"scorf")
        ),
        "SHA-256 is another",
    ),
    "a file is cut": (
        lambda v: (v / FILES / "model.onnx").write_bytes(
            (v / FILES / "model.onnx").read_bytes()[:-100]
        ),
        "ends after",
    ),
    "a file is longer": (
        lambda v: (v / FILES / "model.onnx").write_bytes(
            (v / FILES / "model.onnx").read_bytes() + b"x"
        ),
        "is larger than",
    ),
    "a file is empty": (lambda v: (v / FILES / "model.py").write_bytes(b""), "ends after 0 of"),
    "a file is missing": (lambda v: (v / FILES / "model.py").unlink(), "lacks files/model.py"),
    "a file is there besides": (
        lambda v: (v / FILES / "more.so").write_bytes(b"x"), "beside what the manifest names",
    ),
    "a file is a link out of the registry": (
        _linked_out, "leads out",
    ),
    "a file is a directory": (
        _a_directory, "lacks files/model.py",
    ),
    "there is no manifest": (lambda v: (v / "manifest.json").unlink(), "no manifest.json"),
    "the manifest is empty": (lambda v: (v / "manifest.json").write_bytes(b""), "cannot be read"),
    "the manifest is a web page": (
        lambda v: (v / "manifest.json").write_bytes(b"<html>Sign in</html>"), "cannot be read",
    ),
    "the manifest is of another model": (
        lambda v: _manifest(v, lambda m: m.update(model="minilm")), "wrong place",
    ),
    "the manifest is of another version": (
        lambda v: _manifest(v, lambda m: m.update(version=7)), "wrong place",
    ),
    "the manifest is far too large": (
        lambda v: (v / "manifest.json").write_bytes(b" " * (5 << 20)), "is larger than",
    ),
    "the manifest leads out of the directory": (
        lambda v: _manifest(v, lambda m: m["files"][0].update(path="../../../x")),  # type: ignore[index]
        "no path that a version may have",
    ),
    "the declaration is another": (
        lambda v: (v / "model.yaml").write_text("name: fraud_score\n"),
        "not the one of the manifest",
    ),
    "the declaration has other inputs": (_other_interface, "other inputs"),
    "the declaration is of another name": (
        lambda v: _declared(
            v, (v / "model.yaml").read_text().replace("name: fraud_score", "name: other")),
        "is of other, not of fraud_score",
    ),
    "the declaration is no declaration": (
        lambda v: _declared(v, "name: [1"), "not valid YAML",
    ),
    "the graph is no ONNX": (
        lambda v: rig.rewritten(v, model_dot_onnx=b"no graph"), "no ONNX graph",
    ),
    "the graph is cut, and the manifest fits it": (
        lambda v: rig.rewritten(
            v, model_dot_onnx=(v / FILES / "model.onnx").read_bytes()[:2000]),
        "no ONNX graph",
    ),
    "the graph has other names": (
        lambda v: _graph_of(v, "image_inspection"), "declared are features",
    ),
    "the graph takes another shape": (
        lambda v: rig.rewritten(v, model_dot_onnx=graph_with(13)), "declared is FP32",
    ),
    "the graph is missing": (
        _without_graph, "has no model.onnx",
    ),
}  # fmt: skip
"""How it is broken, and what is said of it before any server sees it."""

FAILING: dict[str, tuple[Callable[[Path], object], str]] = {
    "Triton cannot load it": (
        lambda v: rig.rewritten(v, model_dot_py=b"import nothing_of_that_name\n"),
        "taken out again",
    ),
    "it answers another score": (
        lambda v: rig.rewritten(v, runtime_dot_py=swap(
            (v / FILES / "runtime.py").read_bytes(), rig.ANSWERS, rig.HALVED)),
        "the canary's score begins with",
    ),
    "it answers another shape": (
        lambda v: rig.rewritten(v, runtime_dot_py=swap(
            (v / FILES / "runtime.py").read_bytes(), rig.ANSWERS, rig.TWO_COLUMNS)),
        "declared is",
    ),
    "it fails on the canary": (
        lambda v: rig.rewritten(v, runtime_dot_py=swap(
            (v / FILES / "runtime.py").read_bytes(), b"if not np", b"if np")),
        "the canary failed",
    ),
}  # fmt: skip
"""Whole and as declared, and found out by the server alone."""


def graph_with(features: int) -> bytes:
    """A graph like fraud_score's that takes another number of features."""
    onnx = pytest.importorskip("onnx", reason="makes graphs for the tests")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node("ReduceMean", ["features"], ["score"], axes=[1])
    takes = helper.make_tensor_value_info("features", kind, ["batch", features])
    gives = helper.make_tensor_value_info("score", kind, ["batch", 1])
    graph = helper.make_graph([node], "g", [takes], [gives])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())
