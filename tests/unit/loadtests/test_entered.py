"""Counting the files and functions that a usual call enters."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from loadtests.bench.entered import entered
from loadtests.bench.live import Function

MOST_FILES, MOST_FUNCTIONS = 97, 292


def test_what_half_of_the_calls_enter_counts_and_nothing_of_libraries() -> None:
    functions: list[Function] = [
        {"function": "core/deadline.py:35 Deadline.passed", "calls": 0.5, "bytecodes": 9.0},
        {"function": "core/deadline.py:21 Deadline.after", "calls": 0.4, "bytecodes": 9.0},
        {"function": "core/ambient.py:60 monotonic_s", "calls": 4.1, "bytecodes": 9.0},
        {"function": "python3.11/asyncio/tasks.py:35 current_task", "calls": 2.0, "bytecodes": 9.0},
        {"function": "<string>:2 __init__", "calls": 1.0, "bytecodes": 9.0},
        {"function": "endpoints/health/prober.py:9 run", "calls": 0.9, "bytecodes": 9.0},
    ]
    assert entered(functions) == {
        "core/ambient.py": ["monotonic_s"],
        "core/deadline.py": ["Deadline.passed"],
    }


@pytest.mark.interpreted  # what is compiled has no bytecodes
def test_a_usual_on_prem_chat_enters_no_more_files_and_functions_than_it_did() -> None:
    command = [sys.executable, "-m", "loadtests.bench.entered", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    files = json.loads(run.stdout)
    assert "Pipeline.handle" in files["pipeline/pipeline.py"]
    assert len(files) <= MOST_FILES
    assert sum(map(len, files.values())) <= MOST_FUNCTIONS
