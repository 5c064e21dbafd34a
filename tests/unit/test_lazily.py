"""Modules that are imported when something of them is used."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.core.process.lazy_imports import put_off


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    package = tmp_path / "seldom_used"
    package.mkdir()
    (package / "__init__.py").write_text(
        "class Failed(Exception):\n    pass\n\n\ndef fail():\n    raise Failed\n"
    )
    (package / "part.py").write_text("from seldom_used import Failed as Failed\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("seldom_used", "seldom_used.part"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return package.name


def test_it_is_imported_at_its_first_use(module: str) -> None:
    put_off(module)
    later = importlib.import_module(module)
    assert "fail" not in vars(later)
    with pytest.raises(later.Failed):  # what it raises can be caught by its name
        later.fail()
    assert sys.modules[module] is not later
    assert sys.modules[module].Failed is later.Failed


def test_a_part_of_it_is_the_parts_own(module: str) -> None:
    put_off(module)
    part = importlib.import_module(f"{module}.part")
    assert part.Failed is sys.modules[module].Failed


def test_what_is_there_or_is_missing_is_left_alone() -> None:
    put_off("json", "no_such_module_anywhere")
    assert "no_such_module_anywhere" not in sys.modules
    assert sys.modules["json"] is importlib.import_module("json")


def test_serving_imports_no_http_client_and_no_arrays_before_they_are_used() -> None:
    """`gateway.app.gateway` and all that it imports say `import httpx` and `import numpy` alone."""
    found = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys; from gateway.cli.serve import _SELDOM, _CLIENTS;"
            "from gateway.classify.scan_workers.deferred import deferred;"
            "from gateway.core.process.lazy_imports import put_off;"
            "put_off(*_SELDOM); d = deferred(_CLIENTS); d.__enter__(); import tritonclient.grpc;"
            "d.__exit__(None, None, None); import gateway.app.gateway;"
            "print(*(m for m in ('httpx._client', 'numpy.core', 'numpy._core', 'rich',"
            " 'onnxruntime', 'presidio_analyzer') if m in sys.modules))",
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.split() == []
