"""`loadtests.models.batching` against a real Triton with a real gateway before it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.live import ROOT


def test_what_is_left_behind_the_gateway_is_measured_with_triton_on_a_core_of_its_own(
    built: None,
) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("Triton cannot have a core of its own here")
    told = subprocess.run(
        [
            *(sys.executable, "-m", "loadtests.models.batching", "--only", "paced", "--gateway"),
            *("--apart", "--rounds", "1", "--seconds", "0.5", "--callers", "8", "--json"),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    (found,) = json.loads(told.stdout)
    assert found["case"] == "paced"
    assert found["batch"] > 1
    kept = found["gateway_per_s"] / found["crowd_per_s"]
    assert 0 < found["kept"] == pytest.approx(kept, abs=2e-3)
