"""`spillway demo` as its user meets it: the summary, the exit code, and nothing left behind."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.demo.plan import PlannedCall, plan
from gateway.demo.run import CALLS_PER_S, SEED
from tests.live import MODELS, ROOT, SERVED, wait_until

SECONDS, SHORTER = 4, 2
PATIENCE_S = 120.0  # for a slow machine that does other things too

pytestmark = pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="the embedded Triton needs Python 3.11 or 3.12"
)


@contextmanager
def demo(
    directory: Path, *arguments: str, seconds: float = SHORTER
) -> Iterator[subprocess.Popen[str]]:
    """Over the models that it calls, which it finds where it is started."""
    if not (MODELS / "minilm" / "1" / "model.onnx").exists():
        pytest.fail("the models are not built: run `make models`")
    (directory.parent / "models").mkdir()
    for name in (*SERVED, "image_inspection"):
        (directory.parent / "models" / name).symlink_to(MODELS / name)
    command = [sys.executable, "-m", "gateway", "demo", "--dir", str(directory)]
    ports = ["--http-port", "0", "--grpc-port", "0"]
    with (
        (directory.parent / "progress").open("w+") as progress,
        subprocess.Popen(
            [*command, *ports, "--seconds", str(seconds), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=progress,
            text=True,
            cwd=directory.parent,
            env={"PYTHONPATH": str(ROOT), **os.environ, "TMPDIR": str(directory.parent)},
        ) as process,
    ):
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()  # its children go with it


def progress(directory: Path) -> str:
    return (directory.parent / "progress").read_text()


def left_behind(directory: Path) -> list[str]:
    """Processes of this demo, Triton's too: all of them inherit where temporary files go."""
    return [
        path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if _of(directory, path)
    ]


def _of(directory: Path, environment: Path) -> bool:
    try:
        return f"TMPDIR={directory.parent}\0".encode() in environment.read_bytes()
    except OSError:  # another user's, or it has just ended
        return False


def planned(seconds: float = SHORTER) -> list[PlannedCall]:
    phases = plan(SEED, round(seconds * CALLS_PER_S), seconds)
    return [call for calls in phases.values() for call in calls]


def test_the_numbers_of_a_run_add_up_and_it_serves_until_ctrl_c(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    with demo(directory, "--json", seconds=SECONDS) as process:
        wait_until(lambda: "cloud's byte log" in progress(directory), PATIENCE_S)
        found = re.search(r"state, metrics +(\S+)/status", progress(directory))
        assert found is not None
        state = httpx.get(f"{found[1]}/status", trust_env=False).json()
        assert {e["zone"] for e in state["endpoints"] if e["up"]} == {"onprem", "cloud"}
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, progress(directory)
    assert "\x1b[" not in out + progress(directory)  # colour is for terminals
    told: dict[str, Any] = json.loads(out)
    calls = planned(SECONDS)
    assert told["calls"] == len(calls)
    assert told["restricted"] == sum(call.restricted for call in calls) > 0
    assert told["restricted_in_cloud"] == 0
    assert told["onprem"] + told["cloud"] + told["unanswered"] == told["calls"]
    assert sum(row["calls"] for row in told["by_class_and_zone"]) == told["calls"]
    assert sum(row["calls"] for row in told["why"]) == told["calls"]
    assert set(told["by_protocol"]) == {"openai", "kserve-rest", "kserve-grpc"}
    for name in ("calls", "onprem", "cloud", "spilled", "deadline_met"):
        assert sum(part[name] for part in told["by_protocol"].values()) == told[name]
        assert sum(part[name] for part in told["by_phase"].values()) == told[name]
    assert told["onprem"] > told["calls"] / 3
    outage = told["by_phase"]["outage"]
    assert outage["cloud"] + outage["unanswered"] > 0  # while Triton was down
    assert told["spilled"] > 0
    assert told["proof"]["holds"]
    assert told["proof"]["controls_found"] == told["cloud"]
    _agrees_with_the_records(told, directory)
    assert "Triton killed" in progress(directory)
    assert left_behind(directory) == []


def _agrees_with_the_records(told: dict[str, Any], directory: Path) -> None:
    """Counted again, from the gateway's own records."""
    calls: dict[str, dict[str, Any]] = {}
    for line in (directory / "audit" / "000000000000.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] in ("call", "end"):
            calls.setdefault(record["id"], {}).update(record)
    zones = [r["attempts"][-1]["zone"] for r in calls.values() if r["outcome"] == "served"]
    # A caller may give up on an answer while it is on its way.
    late = told["unanswered"]
    assert told["cloud"] <= zones.count("cloud") <= told["cloud"] + late
    assert told["onprem"] <= zones.count("onprem") <= told["onprem"] + late
    restricted = [r for r in calls.values() if r["sensitivity"] == "restricted"]
    assert len(restricted) == told["restricted"]
    assert not [r for r in restricted for a in r["attempts"] if a["zone"] != "onprem"]


def test_a_restricted_marker_in_the_cloud_fails_the_run(tmp_path: Path) -> None:
    """The marker of one call is put where a leak would put it: among the bytes of the cloud."""
    directory = tmp_path / "demo"
    victim = next(call for call in planned() if call.restricted and call.text)
    with demo(directory, "--once", "--json") as process:
        wait_until(lambda: "calm:" in progress(directory) or process.poll() is not None, PATIENCE_S)
        _plant(directory / "cloud-bytes.jsonl", victim.text)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    told = json.loads(out)
    assert told["restricted_in_cloud"] == 1
    assert told["proof"]["leaked"] == [victim.request_id]


def _plant(log: Path, text: str) -> None:
    data = base64.b64encode(json.dumps({"prompt": text}).encode()).decode()
    line = {"door": "grpc", "connection": 1_000_000, "kind": "message", "data": data}
    with log.open("a") as lines:
        lines.write(json.dumps(line) + "\n")


@pytest.mark.parametrize("moment", ["starting the simulated cloud", "starting Triton"])
def test_ctrl_c_on_the_way_stops_everything(tmp_path: Path, moment: str) -> None:
    directory = tmp_path / "demo"
    with demo(directory, "--once") as process:
        wait_until(lambda: moment in progress(directory), PATIENCE_S)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in progress(directory)
    assert left_behind(directory) == []


def test_a_killed_demo_takes_all_its_processes_with_it(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    with demo(directory, "--once") as process:
        wait_until(lambda: "calm:" in progress(directory), PATIENCE_S)
        process.kill()
        process.wait(10)
    wait_until(lambda: not left_behind(directory), 30)


def test_a_gateway_that_dies_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    with demo(directory, "--once") as process:
        wait_until(lambda: "calm:" in progress(directory), PATIENCE_S)
        (gateway,) = [
            pid
            for pid in left_behind(directory)
            if b"gateway\0serve" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(int(gateway), signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    told = progress(directory)
    assert "the gateway ended by itself (exit code -9)" in told
    assert str(directory / "gateway.log") in told
    assert "spillway serves" in told  # the log's end
    assert "Traceback" not in told
    wait_until(lambda: not left_behind(directory), 10)
