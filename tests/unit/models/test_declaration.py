"""model.yaml: what it says, and how a mistake in it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import ConfigError
from gateway.models import declaration
from gateway.models.declaration.tensors import Precision
from tests.unit.models.declared_text import GRAPH, MINIMAL, TEXT


def test_a_small_declaration_is_read() -> None:
    model = declaration.parse(MINIMAL)
    assert (model.name, model.max_batch, model.graph) == ("scores", 0, None)
    assert model.graph_inputs is model.inputs
    assert model.verify.tolerance[Precision.FP32] == 1e-4


def test_the_graph_behind_a_text_model_has_inputs_of_its_own() -> None:
    model = declaration.parse(TEXT)
    assert list(model.graph_inputs) == ["input_ids"]
    assert model.graph_outputs is model.outputs


WRONG = (
    (MINIMAL + "licences: MIT\n", "model.yaml:11: licences: unknown key; did you mean licence?"),
    (MINIMAL.replace("about: rows to scores\n", ""), "model.yaml:1: about: is missing"),
    (MINIMAL.replace("[4]", "[rows]"), "inputs.rows.dims: no axis 'rows'; there are: none"),
    (MINIMAL.replace("[4]", "[0]"), "model.yaml:6: inputs.rows.dims"),
    (MINIMAL.replace("dims: [4]", "dims: [4], text: true"), "only BYTES can hold text"),
    (MINIMAL.replace("embedded:", "python:"), "targets: embedded is missing"),
    (MINIMAL.replace("{backend: python}", "{backend: onnxruntime}"), "the python backend alone"),
    (MINIMAL + "  tensorrt: {backend: tensorrt_plan}\n", "tensorrt_plan needs a graph"),
    (MINIMAL + "precisions: [fp16]\n", "precisions: are of a graph, and there is none"),
    (GRAPH + "precisions: [int8]\n", "int8 needs an accuracy gate"),
    (GRAPH.replace("opt: 4", "opt: 32"), "model.yaml:11: batch.opt: must be from min to max"),
    (GRAPH.replace("graph: {}", "graph: {file: ../model.onnx}"), "a path inside the model's dir"),
    (GRAPH.replace("graph: {}", "graph: {file: /model.onnx}"), "a path inside the model's dir"),
    (GRAPH + "batching: {dynamic: false, delay_us: 5}\n", "need dynamic: true"),
    (MINIMAL.replace("{script: train.py}", "{}"), "says nothing; give url, package, script"),
    (TEXT.replace("axis: pieces}", "axis: words}"), "graph.text.axis: no axis 'words'"),
    (TEXT.replace("input: text,", "input: words,"), "must be an input with text: true"),
    (
        TEXT + "  onnxruntime: {backend: onnxruntime}\n",
        "model.yaml:19: targets.onnxruntime.backend: the graph's tensors are not the model's own",
    ),
    (
        MINIMAL.replace("{backend: python}", "{backend: python, precision: fp16}"),
        "targets.embedded.precision: is not in precisions",
    ),
    (MINIMAL + "canary: {inputs: {}}\n", "canary.inputs: rows is missing"),
    (MINIMAL + "canary: {inputs: {row: {values: 1}}}\n", "no such input; there are: rows"),
    (MINIMAL + "canary: {inputs: {rows: {values: [1, 2]}}}\n", "has 2 values; [4] takes 4"),
    (MINIMAL + "canary: {inputs: {rows: {dims: [5], values: 1}}}\n", "must fit the declared [4]"),
    (
        MINIMAL.replace("[4]", "[-1]") + "canary: {inputs: {rows: {values: 1}}}\n",
        "must be given: the declared ones are free",
    ),
    (
        MINIMAL + "canary: {inputs: {rows: {values: 1}}, outputs: {scores: {first: [1]}}}\n",
        "no such output; there are: score",
    ),
    ("", "the file is empty; it needs"),
)


@pytest.mark.parametrize(("text", "told"), WRONG, ids=lambda value: value[-40:])
def test_a_mistake_is_told_with_its_line(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "scores" / "model.yaml"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        declaration.load(path)
    assert told in str(refusal.value)
    assert str(refusal.value).startswith(f"{path}:")


def test_a_name_is_the_name_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(MINIMAL)
    with pytest.raises(ConfigError, match="is not the name of its directory"):
        declaration.load(tmp_path / "model.yaml")


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden"])
def test_no_name_leads_out_of_the_repository(name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        declaration.parse(MINIMAL.replace("name: scores", f"name: {name!r}"))
