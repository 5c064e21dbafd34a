"""Looking at starts: what is made of them, and a start of a real gateway."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from loadtests.ready import Held, Start, summary


def test_times_are_medians_and_memory_is_that_of_all_processes() -> None:
    starts = [
        Start(seconds, seconds * 2, (Held("gateway", mb, mb - 1), Held("scanner", 40.0, 39.0)))
        for seconds, mb in ((0.5, 60.0), (9.0, 61.0), (0.6, 99.0))
    ]
    assert summary(starts) == {"ready_s": 0.6, "cpu_s": 1.2, "pss_mb": 101.0, "private_mb": 99.0}


def test_a_gateway_without_models_takes_at_most_seventy_megabytes_for_each_process() -> None:
    command = [sys.executable, "-m", "loadtests.ready", "--starts", "1", "--json"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stderr
    (start,) = json.loads(told.stdout.splitlines()[-1])["starts"]
    assert 0 < start["cpu_s"] < start["ready_s"] * 4
    assert [held["process"] for held in start["held"]] == ["gateway", "scanner"]
    for held in start["held"]:
        assert 10 < held["private_mb"] <= held["pss_mb"] == pytest.approx(50, abs=20)
