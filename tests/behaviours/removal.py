"""Takes a guard out, in a copy of the tree, and tells which of its tests notice."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.behaviours import Guard
from tests.marks import ROOT, take_out

_PATIENCE_S = 90.0  # a test that hangs without its guard has noticed, too
_TOLD = re.compile(r"^(?:FAILED|ERROR) tests/(\S+?::\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Noticed:
    tests: frozenset[str]  # that fail without the guard
    hung: bool = False


@contextmanager
def copied() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="behaviours-") as scratch:
        root = Path(scratch)
        for folder in ("gateway", "tests"):  # with bytecode: most of it is not compiled again
            shutil.copytree(ROOT / folder, root / folder)
        for name in ("models", "docs", "loadtests", "pyproject.toml", "README.md"):
            (root / name).symlink_to(ROOT / name)
        yield root


def without(guard: Guard, root: Path) -> Noticed:
    """Of the tests of this guard, run on a gateway that lacks it."""
    before = take_out([guard.name], root)
    try:
        return run(guard.tests, root, _PATIENCE_S)
    finally:
        for path, source in before.items():
            path.write_text(source)


def run(tests: tuple[str, ...], root: Path, patience_s: float | None = None) -> Noticed:
    """Those of the tests that fail on the gateway that is there."""
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no"]
    command += ["-p", "no:cacheprovider", "-p", "no:rerunfailures"]
    try:
        told = subprocess.run(
            [*command, *(f"tests/{test}" for test in tests)],
            cwd=root, capture_output=True, text=True, timeout=patience_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Noticed(frozenset(tests), hung=True)
    return Noticed(frozenset(_TOLD.findall(told.stdout)))
