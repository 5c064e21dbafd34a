"""A scan that is slow, killed, or crowded out leaves its call on the premises (C1, C8, C9)."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import ROOT, LiveGateway, LoopThread, serving, settings, simulated_cloud, wait_until

BUDGET_S = 1.0
SLOW = "1/1/" * 16_000  # phonenumbers looks at every one of them: ten seconds and more
CALM = "Summarise the water cycle in two sentences."
MARKER = "teal lighthouse"


@pytest.fixture(scope="module")
def outside(loop_thread: LoopThread) -> Iterator[SimulatedCloud]:
    with simulated_cloud(loop_thread) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def built(
    outside: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    """Two workers, and three calls may wait; whatever may leave does."""
    scratch = tmp_path_factory.mktemp("house")
    classify = {"budget_ms": BUDGET_S * 1e3, "workers": 2, "max_waiting": 3}
    document = settings(outside, scratch, classify=classify, routing={"policy": "static_split"})
    with serving(document, scratch) as gateway:
        yield gateway


@pytest.fixture
def house(built: LiveGateway) -> LiveGateway:
    """Whole again after what the last test did to it."""
    wait_until(lambda: len(workers(built)) == 2 and is_clear(built), 60)
    return built


def embed(gateway: LiveGateway, text: str) -> httpx.Response:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [text]}
    return gateway.client.post("/v2/models/minilm/infer", json={"inputs": [tensor]})


def reason(gateway: LiveGateway, answer: httpx.Response) -> str:
    """The reason of the verdict on a call; that it stayed, if it is not clear."""
    record = gateway.record(answer.headers["x-request-id"])
    if record["sensitivity"] == "restricted":
        assert record["zones"] == ["onprem"]
        assert {a["zone"] for a in record["attempts"]} == {"onprem"}
    return str(record["classify_reason"])


def is_clear(gateway: LiveGateway) -> bool:
    return bool(embed(gateway, CALM).headers.get("x-spillway-zone") == "cloud")


def workers(gateway: LiveGateway) -> set[int]:
    """The scan workers of the gateway."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
            command = (stat.parent / "cmdline").read_bytes()
            if parent == gateway.process.pid and b"classify.worker" in command:
                found.add(int(stat.parent.name))
    return found


def replacements(gateway: LiveGateway) -> float:
    found = re.search(r"(?m)^spillway_scan_workers_replaced_total (\S+)", gateway.metrics())
    return float(found[1]) if found else 0.0


def test_a_scan_over_its_budget_restricts_and_hinders_nobody(
    house: LiveGateway, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    with ThreadPoolExecutor(1) as pool:
        started_s = time.monotonic()
        slow = pool.submit(embed, house, f"{MARKER} {SLOW}"[:65_000])
        meanwhile = []
        while not slow.done():
            meanwhile.append(reason(house, embed(house, CALM)))
        assert time.monotonic() - started_s < BUDGET_S + 3.0
    assert reason(house, slow.result()) == "late"
    assert slow.result().headers["x-spillway-zone"] == "onprem"
    assert set(meanwhile) == {"clear"}
    assert len(meanwhile) > 3  # one after the other, while one scan ran
    assert not loop_thread.run(outside.search([MARKER]))


def test_workers_killed_in_the_middle_of_a_scan_restrict_its_call(house: LiveGateway) -> None:
    before, victims = replacements(house), workers(house)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(embed, house, SLOW[:65_000])
        while not slow.done():
            for worker in victims:  # and none that comes after: each kill makes the next one wait
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
    assert reason(house, slow.result()) in ("failed", "late")

    texts = (f"{SLOW[:64_990]} {number}" for number in itertools.count())

    def replaced() -> bool:
        embed(house, next(texts))  # a dead worker is missed when a scan needs it
        return len(workers(house) - victims) == 2

    wait_until(replaced, 180)
    assert is_clear(house)
    assert replacements(house) >= before + 2


def test_calls_beyond_the_room_for_waiting_are_restricted_at_once(house: LiveGateway) -> None:
    together = threading.Barrier(9)

    def slow(_: int) -> httpx.Response:
        with httpx.Client(base_url=house.http_url, trust_env=False, timeout=30) as client:
            tensor = {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [SLOW[:65_000]]}
            together.wait()
            return client.post("/v2/models/minilm/infer", json={"inputs": [tensor]})

    with ThreadPoolExecutor(9) as pool:
        reasons = [reason(house, answer) for answer in pool.map(slow, range(9))]
    assert set(reasons) == {"late", "busy"}
    wait_until(lambda: is_clear(house), 40)


# Start-up (C8)


def serve(tmp_path: Path, **classify: Any) -> subprocess.CompletedProcess[str]:
    """`spillway serve` over an endpoint that is never called; it ends before it listens."""
    document = {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(tmp_path / "audit")},
        "classify": classify,
        "endpoints": {"local": {"kind": "triton", "zone": "onprem", "grpc": "127.0.0.1:9"}},
        "models": {"m": {"served_by": [{"endpoint": "local"}]}},
    }
    config = tmp_path / "spillway.yaml"
    config.write_text(yaml.safe_dump(document))
    command = [sys.executable, "-m", "gateway", "serve", "--config", str(config)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("classify", "named"),
    [
        ({"restrict": ["CREDIT_CARD", "MARTIAN_ID"]}, "MARTIAN_ID (no recognizer)"),
        ({"restrict": ["US_DRIVER_LICENSE"], "threshold": 0.9}, "samples: US_DRIVER_LICENSE"),
    ],
)
def test_a_gateway_whose_scanner_misses_a_sample_does_not_start(
    tmp_path: Path, classify: dict[str, Any], named: str
) -> None:
    ended = serve(tmp_path, **classify)
    assert ended.returncode == 1
    assert named in ended.stderr
    assert "Traceback" not in ended.stderr


def test_no_setting_lets_an_unread_call_out(tmp_path: Path) -> None:
    ended = serve(tmp_path, on_unknown="allow")
    assert ended.returncode == 2
    assert "on_unknown" in ended.stderr
