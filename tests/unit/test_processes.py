"""Several processes share the suite: files stay whole, and some have the machine to themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes

ROOT = Path(__file__).resolve().parents[2]
FILES = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
CONFTEST = """
import pathlib
import pytest
from tests import processes

processes.ROOT = pathlib.Path(__file__).parent

def pytest_xdist_make_scheduler(config, log):
    return processes.shared_out(config, log)

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: processes.rank(item.nodeid))
"""
TESTS = """
import json, os, pathlib, time
import pytest

def note(began_s, alone):
    told = {"file": FILE, "process": os.getpid(), "alone": alone}
    told |= {"began_s": began_s, "ended_s": time.monotonic()}
    pathlib.Path(DIRECTORY, f"{os.getpid()}.jsonl").open("a").write(json.dumps(told) + chr(10))

@pytest.mark.parametrize("at", range(3))
def test_it(at):
    began_s = time.monotonic()
    time.sleep(0.05)
    note(began_s, False)
"""
ALONE = """
from tests.laps import within

def test_in_time():
    for lap in within(0.1):
        began_s = time.monotonic()
        lap.ends()
    note(began_s, True)
"""


def test_every_file_that_is_listed_is_there() -> None:
    assert processes.LONG <= FILES
    for beginnings in processes.TOGETHER.values():
        assert sum(file.startswith(beginnings) for file in FILES) > 1, beginnings
        assert all(any(file.startswith(one) for file in FILES) for one in beginnings), beginnings


def test_what_is_held_to_milliseconds_runs_alone() -> None:
    """And nothing else of its file."""
    file = "tests/unit/fronts/test_http.py"
    assert processes.timed(file) > {"test_a_caller_that_leaves_cancels_its_call"}
    assert len(processes.timed(file)) < (ROOT / file).read_text().count("def test_")
    assert processes.timed("tests/scenarios/test_triton_clients.py") == set()  # half a second
    assert len([file for file in FILES if processes.timed(file)]) > 5


def test_a_file_is_run_by_one_process_and_what_is_alone_when_the_others_have_ended(
    tmp_path: Path,
) -> None:
    pytest.importorskip("xdist", reason="one process runs them all")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "tests").mkdir()
    for name in "abcdef":
        file = f"tests/test_{name}.py"
        source = f"FILE, DIRECTORY = {file!r}, {str(tmp_path)!r}\n{TESTS}"
        (tmp_path / file).write_text(source + ALONE if name in "ab" else source)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n", "2"]
    ended = subprocess.run(
        [*command, "--rootdir", str(tmp_path), "tests"],
        cwd=tmp_path,
        env=clean | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = [
        json.loads(line)
        for path in tmp_path.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    alone = [row for row in told if row["alone"]]
    others = [row for row in told if not row["alone"]]
    assert (len(alone), len(others)) == (2, 3 * 6)
    assert len({row["process"] for row in others}) == 2
    assert len({(row["file"], row["process"]) for row in others}) == 6
    assert len({row["process"] for row in alone}) == 1
    assert min(row["began_s"] for row in alone) >= max(row["ended_s"] for row in others)


def test_only_tests_of_real_processes_are_tried_again() -> None:
    again = {file for file in FILES if processes.tried_again(f"{file}::test_it")}
    assert processes.tried_again(
        "tests/unit/fronts/test_http.py::test_a_caller_that_leaves_cancels_its_call"
    )
    assert not any(file.startswith("tests/properties/") for file in again)
    assert not any(file.startswith("tests/unit/classify/") for file in again)
