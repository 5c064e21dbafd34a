"""What is told of ONNX files that are none, or not the declared ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.models import declaration, graph
from gateway.models.failures import WrongModel
from tests.unit.models import graphs
from tests.unit.models.declared_text import GRAPH

BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda held: b"",
    "cut in half": lambda held: held[: len(held) // 2],
    "a byte too few": lambda held: held[:-1],
    "a page of HTML": lambda held: b"<!doctype html><title>404</title>" * 20,
    "zeros": lambda held: bytes(len(held)),
    "another operator": lambda held: held.replace(b"MatMul", b"MatMuk"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_file_that_is_no_whole_model_is_refused_with_what_to_do(how: str, tmp_path: Path) -> None:
    path = graphs.scores(tmp_path / "model.onnx")
    path.write_bytes(BROKEN[how](path.read_bytes()))
    with pytest.raises(WrongModel, match=r"is no whole ONNX model .*; export or fetch it again"):
        graph.read(path)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(WrongModel, match="is not there"):
        graph.read(tmp_path / "model.onnx")


def told(path: Path, text: str) -> list[str]:
    return graph.disagreements(graph.signature(graph.read(path)), declaration.parse(text))


def test_a_graph_that_is_declared_agrees(tmp_path: Path) -> None:
    assert told(graphs.scores(tmp_path / "model.onnx"), GRAPH) == []


OTHERWISE = (
    ("dims: [4]", "dims: [5]", "input rows is [4] in the graph and [5] in model.yaml"),
    ("dims: [2]", "dims: [3]", "output score is [2] in the graph and [3] in model.yaml"),
    ("dims: [4]", "dims: [4, 1]", "input rows is [4] in the graph and [4, 1] in model.yaml"),
    ("rows: {datatype: FP32", "rows: {datatype: FP16", "input rows is FP32 in the graph and FP16"),
    ("  rows:", "  columns:", "input columns is declared and not in the graph; there are: rows"),
    ("  rows:", "  columns:", "input rows is in the graph and not declared"),
    ("  score:", "  mark:", "output mark is declared and not in the graph; there are: score"),
    ("dims: [4]", "dims: [-1]", "input rows has a fixed size where model.yaml says -1"),
)


@pytest.mark.parametrize(("said", "instead", "expected"), OTHERWISE)
def test_what_the_graph_has_otherwise_is_told(
    said: str, instead: str, expected: str, tmp_path: Path
) -> None:
    lines = told(graphs.scores(tmp_path / "model.onnx"), GRAPH.replace(said, instead))
    assert [line for line in lines if expected in line]


def test_a_graph_for_one_batch_size_alone_is_told(tmp_path: Path) -> None:
    lines = told(graphs.scores(tmp_path / "model.onnx", batch=1), GRAPH)
    assert "input rows has a batch of 1 alone; export it with a free first axis" in lines


def test_outputs_that_nobody_declared_are_nobodys_harm(tmp_path: Path) -> None:
    path = graphs.embedder(tmp_path / "model.onnx")
    found = graph.signature(graph.read(path))
    assert set(found.inputs) == {"input_ids", "attention_mask"}  # constants are no inputs
