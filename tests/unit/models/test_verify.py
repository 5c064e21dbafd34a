"""Variants against their reference: who is off, on what, how far."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gateway.models import declaration
from gateway.models.declaration.tensors import Precision
from gateway.models.variants import evidence, precision, verify
from tests.unit.models import graphs
from tests.unit.models.repositories import added, linked, of, quiet

MODELS = Path(__file__).parents[3] / "models"
HERE = [
    p.parent
    for p in declaration.declared(MODELS)
    if (declared := declaration.load(p)).graph and (p.parent / "1" / declared.graph.file).exists()
]


@pytest.mark.parametrize("directory", HERE, ids=lambda path: path.name)
def test_every_model_here_says_what_its_golden_file_says(directory: Path, tmp_path: Path) -> None:
    directory = linked(directory, tmp_path / directory.name)
    found = verify.verify(directory, of(directory), quiet)
    assert found.wrong == []
    assert found.ok, [str(v) for v in found.variants]


def test_a_variant_that_is_right_is_within_its_tolerance(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    at = directory / "1/model.onnx"
    precision.written(at, at.with_name("model.fp16.onnx"), Precision.FP16)
    found = verify.verify(directory, of(directory), quiet)
    assert [v.variant for v in found.variants] == ["fp32, as ONNX Runtime optimises it", "fp16"]
    assert found.ok
    assert 0 < found.variants[1].off.distance < 1e-2
    assert evidence.read_evidence(directory / "1")["model.fp16.onnx"]["verified"] is True


def test_a_variant_of_other_weights_is_named_with_the_input_and_the_distance(
    tmp_path: Path,
) -> None:
    directory = added(tmp_path / "models")
    graphs.scores(directory / "1/model.fp16.onnx", seed=2)
    found = verify.verify(directory, of(directory), quiet)
    (wrong,) = (v for v in found.variants if not v.ok)
    assert wrong.variant == "fp16"
    assert wrong.off.output == "score"
    assert wrong.off.sample.startswith("random batch ")
    assert wrong.off.distance > 0.1
    assert not found.ok
    assert evidence.read_evidence(directory / "1")["model.fp16.onnx"]["verified"] is False


@pytest.mark.parametrize(
    ("values", "distance"),
    [
        ([1.0, np.nan, np.inf], 0.0),
        ([2.0, np.nan, np.inf], 1.0),
        ([1.0, 1.0, np.inf], np.inf),
        ([1.0, np.nan, -np.inf], np.inf),
        (["yes", "no"], 0.0),
        (["yes", "yes"], np.inf),
    ],
)
def test_words_and_what_is_no_number_are_alike_or_infinitely_far(
    values: list[float | str], distance: float
) -> None:
    words = isinstance(values[0], str)
    expected = np.array(["yes", "no"], object) if words else np.array([1.0, np.nan, np.inf])
    apart = verify.apart(np.array(values, expected.dtype), expected)
    assert apart.max() == distance


def test_a_variant_with_outputs_of_another_size_is_infinitely_far(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    graphs.scores(directory / "1/model.fp16.onnx", outputs=3)
    found = verify.verify(directory, of(directory), quiet)
    assert found.variants[-1].off.distance == float("inf")


def test_weights_that_changed_are_told_by_the_golden_file(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    graphs.scores(directory / "1/model.onnx", seed=2)
    found = verify.verify(directory, of(directory), quiet)
    assert [line for line in found.wrong if "output score of random batch" in line]
    assert [line for line in found.wrong if "canary: output score begins with" in line]
    updated = verify.verify(directory, of(directory), quiet, update=True)
    assert [line for line in updated.wrong if "canary" in line] == list(updated.wrong)


@pytest.mark.parametrize("held", [None, "", "[]", '{"samples": 4}'])
def test_a_golden_file_that_is_none_is_told(held: str | None, tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    path = directory / "expected.json"
    path.unlink()
    if held is not None:
        path.write_text(held)
    (line,) = verify.verify(directory, of(directory), quiet).wrong
    assert "--update" in line


def test_a_graph_that_is_not_the_declared_one_is_told_before_it_runs(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    graphs.scores(directory / "1/model.onnx", columns=5)
    found = verify.verify(directory, of(directory), quiet)
    assert found.wrong == ["input rows is [5] in the graph and [4] in model.yaml"]


def test_what_was_measured_of_other_bytes_is_not_known_of_these(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    verify.verify(directory, of(directory), quiet)
    assert evidence.read_evidence(directory / "1")["model.onnx"]["verified"] is True
    graphs.scores(directory / "1/model.onnx", seed=2)
    assert evidence.read_evidence(directory / "1") == {}


def test_a_verified_model_can_be_told_as_json(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    told = json.loads(json.dumps(verify.verify(directory, of(directory), quiet).as_json()))
    assert told["ok"] is True
    assert told["variants"][0]["distance"] < 1e-4
