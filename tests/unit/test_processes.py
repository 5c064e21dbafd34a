"""Several processes share the suite: files stay whole, and what takes long comes first."""

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

@pytest.mark.parametrize("at", range(3))
def test_it(at):
    told = {"file": FILE, "process": os.getpid(), "at": time.monotonic()}
    time.sleep(0.05)
    pathlib.Path(DIRECTORY, f"{os.getpid()}.jsonl").open("a").write(json.dumps(told) + chr(10))
"""


def test_every_file_that_is_listed_is_there() -> None:
    assert all(any(file.startswith(one) for file in FILES) for one in processes.LONG)
    assert all(any(file.startswith(one) for file in FILES) for one in processes.NOT_QUICK)
    for beginnings in processes.TOGETHER.values():
        assert sum(file.startswith(beginnings) for file in FILES) > 1, beginnings
        assert all(any(file.startswith(one) for file in FILES) for one in beginnings), beginnings


def test_a_file_is_run_by_one_process_and_what_takes_long_first(tmp_path: Path) -> None:
    pytest.importorskip("xdist", reason="one process runs them all")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "tests").mkdir()
    for file in (*(f"tests/test_{name}.py" for name in "abcde"), processes.LONG[-1]):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(f"FILE, DIRECTORY = {file!r}, {str(tmp_path)!r}\n{TESTS}")
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
    assert len(told) == 3 * 6
    assert len({row["process"] for row in told}) == 2
    assert len({(row["file"], row["process"]) for row in told}) == 6
    long = next(row["process"] for row in told if row["file"] == processes.LONG[-1])
    first = min((row for row in told if row["process"] == long), key=lambda row: row["at"])
    assert first["file"] == processes.LONG[-1]


def test_only_tests_of_real_processes_are_tried_again() -> None:
    """And those that are held to milliseconds."""
    again = {file for file in FILES if processes.tried_again(file)}
    assert "tests/unit/fronts/test_http.py" in again
    assert 5 < len([file for file in again if file.startswith("tests/unit/")]) < 20
    assert not any(file.startswith("tests/properties/") for file in again)
    assert not any(file.startswith("tests/unit/classify/") for file in again)
