"""Looking for growth: the slope, and a short run against a real gateway."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from loadtests.growth import Step, growth_bytes


def _steps(*private_mb: float) -> list[Step]:
    return [Step((n + 1) * 1000, mb, 40, 9, 0.3) for n, mb in enumerate(private_mb)]


def test_the_slope_is_of_the_second_half_alone() -> None:
    assert growth_bytes(_steps(10, 80, 100, 100, 100, 100)) == pytest.approx(0.0, abs=1e-6)
    assert growth_bytes(_steps(100, 100, 100, 101, 102, 103)) == pytest.approx(2**20 / 1000)
    assert growth_bytes(_steps(100)) == 0.0


def test_a_run_tells_what_the_gateway_holds() -> None:
    command = [
        sys.executable,
        "-m",
        "loadtests.growth",
        "--json",
        "--calls",
        "200",
        "--step",
        "100",
    ]
    told = subprocess.run([*command, "--most", "1e9"], capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    steps = json.loads(told.stdout.splitlines()[-1])["steps"]
    assert steps[-1]["calls"] >= 200
    for step in steps:
        assert step["private_mb"] > 10
        assert step["files"] > 5
        assert step["threads"] >= 3
