"""What a card does, where there may be none: the processor is measured, the rest is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gateway.models.served.ort_session import has_gpu
from loadtests.gpu import apart


def test_the_processor_is_measured_and_what_is_absent_says_why(tmp_path: Path) -> None:
    curves = tmp_path / "curves.svg"
    command = [sys.executable, "-m", "loadtests.gpu", "--sections", "providers", "curves", "names"]
    command += ["--only", "fraud_score", "--json"]
    short = ["--rounds", "2", "--seconds", "0.02", "--batches", "1", "8", "--texts", "1", "8"]
    short += ["--plot", str(curves)]
    told = subprocess.run([*command, *short], capture_output=True, text=True, timeout=600)
    assert told.returncode == 0, told.stderr
    document = json.loads(told.stdout)
    curves_rows = [row for row in document["rows"] if row["section"] == "curves"]
    by_processor = [row for row in curves_rows if row["way"] == "cpu"]
    assert [one["batch"] for one in by_processor] == [1, 8]
    for one in by_processor:
        assert one["off"] < 1e-5
        assert one["rows_per_s"] == pytest.approx(one["batch"] / one["ms"] * 1e3, rel=0.05)
    if not has_gpu():
        (on_cuda,) = (row for row in curves_rows if row["way"] == "cuda")
        assert "no NVIDIA card here" in on_cuda["note"]
        assert document["card"] is None
    providers = {
        row["way"]: row["note"] for row in document["rows"] if row["section"] == "providers"
    }
    assert providers["CPUExecutionProvider"] == "loads"
    assert {"tensorrt", "tensorrt_rtx"} <= set(providers)
    names = [row for row in document["rows"] if row["section"] == "names" and row["way"] == "cpu"]
    assert [(row["what"], row["batch"]) for row in names] == [
        (what, count) for count in (1, 8) for what in ("graph", "reading")
    ]
    assert curves.read_text().startswith("<?xml")


def test_how_far_answers_are_apart() -> None:
    wanted = {"score": np.array([[1.0, -4.0]])}
    assert apart({"score": np.array([[1.0, -4.0]])}, wanted) == 0.0
    assert apart({"score": np.array([[1.0, -3.0]])}, wanted) == 0.25
    assert apart({"score": np.array([1.0, -4.0])}, wanted) == float("inf")
