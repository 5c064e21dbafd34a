"""A profile is measured at a real server, and is what the gateway begins with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.endpoints.triton.server.ports import TritonPorts
from gateway.models.profiling import FILE, read
from gateway.models.profiling.priors import measured

from .serving import MODELS

QUICK = ("--seconds", "0.05", "--rounds", "1", "--callers", "16")


def test_a_profile_of_a_served_model_is_kept_and_drawn(
    built: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="of the extra `simulate`")
    shutil.copytree(MODELS / "fraud_score", tmp_path / "fraud_score")
    (tmp_path / "fraud_score" / FILE).unlink(missing_ok=True)
    plot = tmp_path / "curve.svg"
    asked = ["models", "profile", "fraud_score", "--repository", str(tmp_path), *QUICK]
    assert main([*asked, "--json", "--plot", str(plot)]) == 0
    told = json.loads(capsys.readouterr().out)
    found = read(tmp_path / "fraud_score" / FILE)
    assert told["fixed_s"] == found.fixed_s
    assert [p.rows for p in found.batches] == [1, 2, 4, 8, 16, 32, 64]
    assert [p.callers for p in found.loads] == [1, 2, 4, 8, 16]
    assert found.provider.endswith("ExecutionProvider")
    assert found.graph.endswith(".onnx")
    assert found.loads[0].executed == 1.0
    assert found.loads[-1].executed > 1.0
    prior = measured(tmp_path)["fraud_score"]
    assert (prior.fixed_s, prior.per_row_s) == (found.fixed_s, found.per_row_s)
    assert "<svg" in plot.read_text()


def test_a_running_server_is_measured_too_and_streams_are_read_to_their_end(
    ports: TritonPorts, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["models", "profile", "scribe", "--repository", str(MODELS), *QUICK]
    assert main([*asked, "--url", f"127.0.0.1:{ports.grpc}", "--dry-run", "--json"]) == 0
    (alone,) = json.loads(capsys.readouterr().out)["batches"]
    assert alone["p50_s"] > 0.008  # two words, 8 ms apart


def test_a_server_that_does_not_serve_it_is_named_with_what_it_said(
    ports: TritonPorts, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["models", "profile", "minilm", "--repository", str(MODELS), *QUICK]
    assert main([*asked, "--url", "127.0.0.1:9", "--dry-run"]) == 1
    assert "UNAVAILABLE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "told"), [("p.pdf", "must end in .svg or .png"), ("p", "must end in")]
)
def test_a_picture_has_an_ending_that_says_its_kind(
    given: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["models", "profile", "minilm", "--repository", str(MODELS), "--plot", given]
    assert main(asked) == 2
    assert told in capsys.readouterr().err
