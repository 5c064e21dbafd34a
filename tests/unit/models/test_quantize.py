"""8 bits: made, measured, and kept only within the gate."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from gateway.models import declaration
from gateway.models.failures import GateClosed, WrongModel
from gateway.models.sessions import Session
from gateway.models.variants import evidence, quantize
from tests.unit.models.repositories import GATE, added, every_byte, linked, of, quiet, with_gate

MINILM = Path(__file__).parents[3] / "models" / "minilm"
SIZE_CUT, SPEARMAN = 0.70, 0.99


def timing(before_ms: float, after_ms: float) -> quantize.Timer:
    """A clock that an idle machine would show."""
    return lambda sessions, sample: [[before_ms] * 3, [after_ms] * 3]


FASTER = timing(2.0, 1.0)


@pytest.mark.parametrize("method", ["dynamic", "static"])
def test_a_variant_within_the_gate_is_kept_with_its_figures(
    method: quantize.Method, tmp_path: Path
) -> None:
    directory = added(tmp_path / "models")
    found = quantize.quantize(directory, with_gate(directory), method, quiet, FASTER)
    assert found.file.exists()
    assert found.loss <= 0.05
    known = evidence.read_evidence(directory / "1")["model.int8.onnx"]
    assert known["quantized"]["method"] == method
    assert known["quantized"]["accuracy"]["rows"] == 64
    operators = {node.op_type for node in onnx.load(str(found.file)).graph.node}
    wanted = {"dynamic": "DynamicQuantizeLinear", "static": "QuantizeLinear"}[method]
    assert wanted in operators


def test_a_variant_past_the_gate_is_refused_and_what_is_there_stays(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    quantize.quantize(directory, with_gate(directory), "dynamic", quiet, FASTER)
    path = directory / declaration.FILE
    path.write_text(
        path.read_text().replace("agreement", "pairwise_spearman").replace("0.05", "1.0e-12")
    )
    before = every_byte(tmp_path / "models")
    with pytest.raises(GateClosed, match=r"loses .* nothing was kept. Name weights") as refusal:
        quantize.quantize(directory, of(directory), "dynamic", quiet, FASTER)
    assert "on 64 rows" in str(refusal.value)
    assert every_byte(tmp_path / "models") == before


def test_a_variant_that_is_slower_is_refused_and_what_is_there_stays(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    declared = with_gate(directory)
    quantize.quantize(directory, declared, "dynamic", quiet, FASTER)
    before = every_byte(tmp_path / "models")
    with pytest.raises(GateClosed, match=r"takes 1\.25 times as long as fp32 .*nothing was kept"):
        quantize.quantize(directory, declared, "static", quiet, timing(2.0, 2.5))
    assert every_byte(tmp_path / "models") == before


def test_its_time_is_measured_on_both_graphs(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    declared = of(directory)
    sample = quantize.usual_sample(declared)
    sessions = (Session(directory / "1/model.onnx"), Session(directory / "1/model.onnx"))
    laps = quantize.interleaved_ms(sessions, sample)
    assert [len(taken) for taken in laps] == [quantize.ROUNDS] * 2
    assert all(lap > 0 for taken in laps for lap in taken)


def test_weights_that_are_to_stay_do(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    declared = with_gate(directory, GATE + "quantization: {keep: [first]}\n")
    found = quantize.quantize(directory, declared, "dynamic", quiet, FASTER)
    held = {tensor.name for tensor in onnx.load(str(found.file)).graph.initializer}
    assert "first" in held
    assert "second" not in held


WRONG = (
    (GATE + "quantization: {keep: [third]}\n", "the graph has no weights third"),
    (GATE.replace("rows.npz", "others.npz"), "the data set of the accuracy gate is not there"),
    (GATE.replace("agreement", "auc"), "has no `label`"),
)


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_what_cannot_be_measured_is_not_made(text: str, told: str, tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    declared = with_gate(directory, text)
    before = every_byte(tmp_path / "models")
    with pytest.raises(WrongModel, match=told):
        quantize.quantize(directory, declared, "dynamic", quiet, FASTER)
    assert every_byte(tmp_path / "models") == before


def test_int8_that_is_not_allowed_is_refused(tmp_path: Path) -> None:
    directory = added(tmp_path / "models")
    with pytest.raises(WrongModel, match="does not allow int8"):
        quantize.quantize(directory, of(directory), "dynamic", quiet, FASTER)


@pytest.mark.skipif(not (MINILM / "1/model.onnx").exists(), reason="python models/build.py first")
def test_minilm_in_8_bits_is_small_and_nearly_as_good(tmp_path: Path) -> None:
    directory = linked(MINILM, tmp_path / "minilm")
    declared = of(directory)
    found = quantize.quantize(directory, declared, declared.quantization.method, quiet, FASTER)
    assert found.size_cut >= SIZE_CUT
    assert found.after >= SPEARMAN
    assert found.rows >= 250
