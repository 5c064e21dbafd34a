"""KServe's InferenceClient, unmodified, over REST and gRPC."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SUM = [i + 3 for i in range(16)]
DIFFERENCE = [i - 3 for i in range(16)]


@pytest.fixture(params=["rest", "grpc"])
def given(request: pytest.FixtureRequest, gateway_url: str, grpc_target: str) -> dict[str, Any]:
    target = gateway_url if request.param == "rest" else grpc_target
    script = Path(__file__).with_name("kserve_calls.py")
    done = subprocess.run(
        [sys.executable, str(script), request.param, target],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_client_is_served(given: dict[str, Any]) -> None:
    assert given["live"] is given["ready"] is given["model_ready"] is True
    for kind in ("json", "binary"):
        assert given[kind] == {"OUTPUT0": SUM, "OUTPUT1": DIFFERENCE}
    assert "unknown model" in given["unknown"]
    if "predictions" in given:
        assert given["predictions"] == [{"OUTPUT0": SUM, "OUTPUT1": DIFFERENCE}] * 2
        assert given["first_ready"] is True
        assert "not offered" in given["explained"]
