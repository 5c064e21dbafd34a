"""Counting what a call costs in a running gateway."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.interpreted  # what is compiled has no bytecodes
@pytest.mark.parametrize("kind", ["chat", "v2-binary"])
def test_bytecodes_are_counted_by_function(kind: str) -> None:
    command = [sys.executable, "-m", "loadtests.bench.live", "--json", "--calls", "8"]
    told = subprocess.run([*command, "--kind", kind], capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    handled = [f for f in found["functions"] if f["function"].endswith(" Pipeline.handle")]
    assert sum(f["calls"] for f in handled) >= 1  # every await enters it again
    assert found["bytecodes"] > sum(f["bytecodes"] for f in handled) > 0
    assert "protocols/http/connection.py" in found["files"]
