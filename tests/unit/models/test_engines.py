"""Real engines by TensorRT for RTX, which builds without a GPU.

It is run where this interpreter has it, or by the one that TENSORRT_PYTHON names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.models.variants.engines.kinds import builders
from tests.unit.models import graphs
from tests.unit.models.repositories import added, every_byte

ROOT = Path(__file__).parents[3]
HERE = importlib.util.find_spec("tensorrt_rtx") is not None
PYTHON = sys.executable if HERE else os.environ.get("TENSORRT_PYTHON")
WHY = "tensorrt_rtx is not installed, and TENSORRT_PYTHON names no interpreter that has it"
compiled = pytest.mark.skipif(PYTHON is None, reason=WHY)
on_a_card = pytest.mark.skipif(
    not Path("/dev/nvidiactl").exists(), reason="no GPU here to open an engine on"
)


def spillway(*words: str) -> tuple[int, Any, str]:
    assert PYTHON is not None
    ran = subprocess.run(
        [PYTHON, "-m", "gateway", "models", *words, "--json"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, json.loads(ran.stdout) if ran.stdout else None, ran.stderr


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    directory = added(tmp_path / "models")
    path = directory / "model.yaml"
    path.write_text(path.read_text().replace("[fp32, fp16]", "[fp32, fp16, bf16]"))
    return tmp_path / "models"


def test_a_builder_that_is_not_there_says_how_to_get_it() -> None:
    for name, builder in builders().items():
        if importlib.util.find_spec(name) is None:
            assert f"pip install 'spillway-gateway[{name.replace('_', '-')}]'" in str(
                builder.missing()
            )


@compiled
def test_engines_are_built_in_every_precision_for_the_declared_ranges(repository: Path) -> None:
    """And each is told from what is none."""
    code, made, told = spillway(
        "build", "scores", "--engine", "tensorrt_rtx", "--repository", str(repository)
    )
    assert code == 0, told
    engines = {file["precision"]: file for file in made["files"] if "engine" in file}
    assert set(engines) == {"fp32", "fp16", "bf16"}
    for precision, file in engines.items():
        assert file["engine"]["profiles"] == {"rows": [[1, 4], [8, 4], [32, 4]]}
        at = repository / "scores/1" / f"model.{precision}.rtx"
        assert at.stat().st_size == file["bytes"] > 1000
    code, checked, told = spillway("verify", "scores", "--repository", str(repository))
    assert code == 0, told
    said = {v["file"]: v["skipped"] for v in checked["models"][0]["variants"]}
    assert "header is right" in said["model.fp16.rtx"] or "card" in said["model.fp16.rtx"]
    engine = repository / "scores/1/model.fp16.rtx"
    engine.write_bytes(b"no engine" + engine.read_bytes()[9:])
    code, checked, _ = spillway("verify", "scores", "--repository", str(repository))
    assert code == 1
    assert "says: malformed engine; build it again" in checked["models"][0]["wrong"][0]


@compiled
def test_a_graph_that_no_engine_can_be_is_refused_and_nothing_changes(repository: Path) -> None:
    graphs.determinants(repository / "scores/1/model.onnx")
    before = every_byte(repository)
    code, _, told = spillway(
        "build", "scores", "--engine", "tensorrt_rtx", "--repository", str(repository)
    )
    assert code == 2
    assert "tensorrt_rtx cannot compile it" in told
    assert every_byte(repository) == before


@compiled
@on_a_card
def test_an_opened_engine_reports_the_declared_profiles(repository: Path) -> None:
    assert spillway("build", "scores", "--engine", "tensorrt_rtx", "--repository", str(repository))
    _, checked, _ = spillway("verify", "scores", "--repository", str(repository))
    said = {v["file"]: v["skipped"] for v in checked["models"][0]["variants"]}
    assert "with rows [1, 4] [8, 4] [32, 4]" in said["model.fp32.rtx"]
