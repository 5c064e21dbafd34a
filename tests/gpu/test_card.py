"""The models on a real card. What this machine lacks, a card or a package, is a reason to skip."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_NEEDED = ("numpy", "onnx", "onnxruntime", "pydantic", "rich", "tokenizers")
for _package in _NEEDED:
    pytest.importorskip(_package)

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from gateway.endpoints.triton import TritonNotInstalled, cuda_libraries  # noqa: E402
from gateway.endpoints.triton.installation import Installation  # noqa: E402
from gateway.models import declaration, versions  # noqa: E402
from gateway.models.served.ort_session import CUDA, OrtSession, has_gpu  # noqa: E402
from gateway.models.sessions import Level, Session  # noqa: E402
from gateway.models.variants.engines.kinds import builders  # noqa: E402
from loadtests.gpu import WITH_GRAPHS, apart, usual  # noqa: E402

MODELS = Path(__file__).parents[2] / "models"
OFF = 1e-2  # fp16, and fp32 where a card takes TF32 for it
TEXT = "The parcel arrives on Monday."


def absent() -> str | None:
    """Why nothing of this runs here."""
    if not has_gpu():
        return f"no NVIDIA card here ({cuda_libraries.DEVICE})"
    if CUDA not in onnxruntime.get_available_providers():
        return f"ONNX Runtime {onnxruntime.__version__} has no CUDA: install onnxruntime-gpu"
    return None


pytestmark = pytest.mark.skipif(absent() is not None, reason=str(absent()))


@pytest.fixture(scope="module")
def measured() -> Any:
    """Every way that runs here, for a short time."""
    command = [sys.executable, "-m", "loadtests.gpu", "--sections", "curves", "--json"]
    short = ["--rounds", "1", "--seconds", "0.05"]
    ended = subprocess.run([*command, *short], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])["rows"]


def test_every_way_says_what_the_reference_says(measured: Any) -> None:
    timed = [row for row in measured if row["ms"] is not None]
    assert {"cpu", "cuda"} <= {row["way"] for row in timed}, measured
    for row in timed:
        assert row["off"] <= OFF, row


@pytest.mark.parametrize("name", builders())
def test_an_engine_says_what_the_reference_says(measured: Any, name: str) -> None:
    if (missing := builders()[name].missing()) is not None:
        pytest.skip(missing)
    rows = [row for row in measured if row["way"].partition(" ")[0] == name]
    assert rows
    foreign = [row["note"] for row in rows if "cannot run on this GPU" in row["note"]]
    if len(foreign) == len(rows):
        pytest.skip(foreign[0])
    for row in rows:
        assert row["off"] is not None, row["note"]


@pytest.mark.parametrize("model", WITH_GRAPHS)
def test_what_is_served_runs_on_the_card(model: str) -> None:
    directory = MODELS / model
    declared = declaration.load(directory / declaration.FILE)
    cuda_libraries.preload()  # the stubs have the folders by LD_LIBRARY_PATH
    session = OrtSession(directory / "1")
    assert session.provider == CUDA
    feed = usual(declared, 8)
    reference = Session(versions.graph_file(directory, declared), level=Level.NONE)
    assert apart(session.run(dict(feed)), reference.run(feed)) <= OFF


def test_the_gateway_answers_from_the_card_and_says_so(tmp_path: Path) -> None:
    try:
        Installation.find()
    except TritonNotInstalled as exc:
        pytest.skip(str(exc))
    for package in ("tritonclient", "starlette", "presidio_analyzer", "hyperscan"):
        if find_spec(package) is None:
            pytest.skip(f"the gateway needs {package}")
    from gateway.models.adoption import adopt
    from tests import live

    declared = declaration.load(MODELS / "minilm" / declaration.FILE)
    document = live.settings(None, tmp_path)
    document["models"] = adopt.declared_settings(declared)
    with live.serving(document, tmp_path) as gateway:
        call = {"model": "minilm", "input": TEXT, "encoding_format": "float"}
        answer = gateway.client.post("/v1/embeddings", json=call)
        assert answer.status_code == 200, answer.text
        embedding = answer.json()["data"][0]["embedding"]
        metrics = gateway.metrics()
    np.testing.assert_allclose(embedding, _on_the_processor(TEXT), atol=OFF)
    lines = [x for x in metrics.splitlines() if x.startswith("spillway_model_provider{")]
    assert any('"minilm"' in line and CUDA in line for line in lines), lines


def _on_the_processor(text: str) -> Any:
    """By the same weights, whichever lie there."""
    pieces = Tokenizer.from_file(str(MODELS / "minilm/1/tokenizer.json"))
    pieces.no_padding()
    ids = np.array([pieces.encode(text).ids], dtype=np.int64)
    session = Session(MODELS / "minilm/1/model.onnx", level=Level.NONE)
    return session.run({"input_ids": ids, "attention_mask": np.ones_like(ids)})["embedding"][0]
