"""Looking at starts: what is made of them, and a start of a real gateway."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from loadtests.ready import Part, Start, summary


def test_times_are_medians_and_memory_is_that_of_all_processes() -> None:
    starts = [
        Start(
            seconds,
            seconds * 2,
            (Part("gateway", 0.5, mb, mb - 1), Part("scanner", 0.3, 40.0, 39.0)),
        )
        for seconds, mb in ((0.5, 60.0), (9.0, 61.0), (0.6, 99.0))
    ]
    assert summary(starts) == {"ready_s": 0.6, "cpu_s": 1.2, "pss_mb": 101.0, "private_mb": 99.0}


def test_a_gateway_without_models_takes_at_most_seventy_megabytes_for_each_process() -> None:
    command = [sys.executable, "-m", "loadtests.ready", "--starts", "1", "--json"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stderr
    (start,) = json.loads(told.stdout.splitlines()[-1])["starts"]
    assert 0 < start["cpu_s"] < start["ready_s"] * 4
    assert [part["process"] for part in start["parts"]] == ["gateway", "scanner"]
    assert sum(part["cpu_s"] for part in start["parts"]) == pytest.approx(start["cpu_s"])
    for part in start["parts"]:
        assert 10 < part["private_mb"] <= part["pss_mb"] == pytest.approx(50, abs=20)
