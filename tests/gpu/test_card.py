"""The models on a real card. Without one every test says so and is skipped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openai import OpenAI

from gateway.models import adopt, declaration, versions
from gateway.models.served.ort_session import CUDA, OrtSession, has_gpu
from gateway.models.sessions import Level, Session
from loadtests.gpu import WITH_GRAPHS, apart, usual
from tests import live

MODELS = Path(__file__).parents[2] / "models"
OFF = 1e-2  # fp16, and fp32 where a card takes TF32 for it

pytestmark = pytest.mark.skipif(not has_gpu(), reason="no NVIDIA card here (/dev/nvidiactl)")


@pytest.fixture(scope="module")
def measured() -> Any:
    """Every way that runs here, for a short time."""
    command = [sys.executable, "-m", "loadtests.gpu", "--json", "--rounds", "1"]
    told = subprocess.run(
        [*command, "--seconds", "0.05"], capture_output=True, text=True, check=True
    )
    return json.loads(told.stdout)


def test_every_way_says_what_the_reference_says(measured: Any) -> None:
    assert {"cpu", "cuda"} <= {one["way"] for one in measured["found"]}, measured["absent"]
    for one in measured["found"]:
        assert one["off"] <= OFF, one


@pytest.mark.parametrize("model", WITH_GRAPHS)
def test_what_is_served_runs_on_the_card(model: str) -> None:
    directory = MODELS / model
    declared = declaration.load(directory / declaration.FILE)
    session = OrtSession(directory / "1")
    assert session.provider == CUDA
    feed = usual(declared, 8)
    reference = Session(versions.graph_file(directory, declared), level=Level.NONE)
    assert apart(session.run(dict(feed)), reference.run(feed)) <= OFF


def test_the_gateway_answers_from_the_card_and_says_so(tmp_path: Path) -> None:
    pytest.importorskip("pytriton", reason="the embedded Triton needs Python 3.11 or 3.12")
    declared = declaration.load(MODELS / "minilm" / declaration.FILE)
    document = live.settings(None, tmp_path)
    document["models"] = adopt.declared_settings(declared)
    with live.serving(document, tmp_path) as gateway:
        client = OpenAI(base_url=f"{gateway.http_url}/v1", api_key="none", max_retries=0)
        assert declared.canary is not None
        text = str(declared.canary.inputs["text"].values)
        found = client.embeddings.create(model="minilm", input=text).data[0].embedding
        told = gateway.client.get("/metrics").text
    wanted = declared.canary.outputs["embedding"].first
    np.testing.assert_allclose(found[: len(wanted)], wanted, atol=OFF)
    said = [x for x in told.splitlines() if x.startswith("spillway_model_provider{")]
    assert any('"minilm"' in line and CUDA in line for line in said), said
