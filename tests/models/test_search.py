"""A search is run at real servers, interrupted, and goes on where it was."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.models.profiling.search.record import FILE
from tests.live import wait_until

from .serving import MODELS

QUICK = ("--callers", "2", "--cores", "2", "--dry-run")
SIGINT_CODE = 130


def test_an_interrupted_search_goes_on_where_it_was(
    built: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="of the extra `simulate`")
    shutil.copytree(MODELS / "fraud_score", tmp_path / "fraud_score")
    kept = tmp_path / "fraud_score" / FILE
    kept.unlink(missing_ok=True)
    declared = (tmp_path / "fraud_score/model.yaml").read_bytes()
    words = ["models", "search", "fraud_score", "--repository", str(tmp_path), *QUICK]
    running = subprocess.Popen(
        [sys.executable, "-m", "gateway", *words, "--seconds", "600"], stderr=subprocess.PIPE
    )
    with running:
        wait_until(kept.exists, 60.0)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == SIGINT_CODE
    assert b"run it again to go on" in said
    held = json.loads(kept.read_text())["trials"]
    assert main([*words, "--seconds", "0.01", "--json", "--plot", str(tmp_path / "all.svg")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["reused"] == len(held) >= 1
    assert document["complete"] is False
    assert [load["callers"] for load in document["declared"]["loads"]] == [1, 2]
    assert "<svg" in (tmp_path / "all.svg").read_text()
    assert (tmp_path / "fraud_score/model.yaml").read_bytes() == declared


def test_a_batch_that_the_declaration_does_not_allow_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["models", "search", "fraud_score", "--repository", str(MODELS), *QUICK]
    assert main([*words, "--batch", "512"]) == 2
    assert "raise batch.max first" in capsys.readouterr().err
