"""A scan that is slow, killed, or crowded out leaves its call on the premises (C1, C8, C9)."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import yaml

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import ROOT, LiveGateway, LoopThread, serving, settings, wait_until

BUDGET_S = 1.0
SLOW = "1/1/" * 16_000  # a worker looks at every one of them
CALM = "Summarise the water cycle in two sentences."
MARKER = "teal lighthouse"


def _serving(
    outside: SimulatedCloud, scratch: Path, budget_s: float = BUDGET_S
) -> contextlib.AbstractContextManager[LiveGateway]:
    """Two workers, and three calls may wait; whatever may leave does."""
    classify = {"budget_ms": budget_s * 1e3, "workers": 2, "max_waiting": 3}
    routing = {"policy": "static_split"}
    document = settings(outside, scratch, only=["minilm"], classify=classify, routing=routing)
    return serving(document, scratch)


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
            if parent == gateway.process.pid and b"scan_workers.worker" in command:
                found.add(int(stat.parent.name))
    return found


def replacements(gateway: LiveGateway) -> float:
    found = re.search(r"(?m)^spillway_scan_workers_replaced_total (\S+)", gateway.metrics())
    return float(found[1]) if found else 0.0


def test_a_scan_over_its_budget_restricts_and_hinders_nobody(
    outside: SimulatedCloud, loop_thread: LoopThread, tmp_path: Path
) -> None:
    """One of the two workers stands still: the call that it has is late on any machine. In a
    gateway of its own, since its replacement is still starting when the test ends."""
    texts = [f"{MARKER} {number} {SLOW[:200]}" for number in range(4)]  # each needs a worker
    with _serving(
        outside, tmp_path, 5 * BUDGET_S
    ) as house:  # room for the others on a busy machine
        wait_until(lambda: len(workers(house)) == 2 and is_clear(house), 60)
        os.kill(min(workers(house)), signal.SIGSTOP)
        with ThreadPoolExecutor(len(texts)) as pool:
            answers = [pool.submit(embed, house, text) for text in texts]
            meanwhile = [reason(house, embed(house, CALM))]
            while not all(answer.done() for answer in answers):
                meanwhile.append(reason(house, embed(house, CALM)))
        verdicts = {reason(house, a.result()): t for a, t in zip(answers, texts, strict=True)}
        counts = Counter(reason(house, answer.result()) for answer in answers)
        assert counts == {"late": 1, "clear": 3}
        assert set(meanwhile) == {"clear"}
        assert not loop_thread.run(outside.search([verdicts["late"]]))
        wait_until(lambda: replacements(house) == 1.0, 30)


def test_workers_killed_in_the_middle_of_a_scan_restrict_its_call(
    outside: SimulatedCloud, tmp_path: Path
) -> None:
    """The workers stand still, so that the scan is in its middle when they are killed."""
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [SLOW[:2_000]]}
    body = json.dumps({"inputs": [tensor], "parameters": {"truncate": "END"}})
    with _serving(outside, tmp_path, 20 * BUDGET_S) as house:
        wait_until(lambda: len(workers(house)) == 2 and is_clear(house), 60)
        victims = workers(house)
        for worker in victims:
            os.kill(worker, signal.SIGSTOP)
        with contextlib.closing(HTTPConnection(house.http_url.removeprefix("http://"))) as sent:
            sent.request("POST", "/v2/models/minilm/infer", body)
            assert is_clear(house)  # the gateway has read what was sent before
            for worker in victims:
                os.kill(worker, signal.SIGKILL)
            answer = sent.getresponse()
            answer.read()
        assert answer.headers["x-spillway-zone"] == "onprem"
        record = house.record(answer.headers["x-request-id"])
        assert (record["sensitivity"], record["classify_reason"]) == ("restricted", "failed")
        texts = (f"{SLOW[:16_000]} {number}" for number in itertools.count())

        def replaced() -> bool:  # a dead worker is missed when a scan needs it
            for _ in pool.map(partial(embed, house), itertools.islice(texts, 4)):
                pass
            return len(workers(house) - victims) == 2

        with ThreadPoolExecutor(4) as pool:
            wait_until(replaced, 180)
        assert is_clear(house)
        assert replacements(house) >= 2


def test_calls_beyond_the_room_for_waiting_are_restricted_at_once(
    outside: SimulatedCloud, tmp_path: Path
) -> None:
    """Both workers stand still: of nine calls two have them, three wait, four are refused."""
    together = threading.Barrier(9)
    with _serving(outside, tmp_path, 5 * BUDGET_S) as house:  # room to come together

        def scanned(number: int) -> httpx.Response:
            with httpx.Client(
                base_url=house.http_url, trust_env=False, verify=False, timeout=60
            ) as client:
                text = f"{number} {SLOW[:200]}"
                tensor = {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [text]}
                together.wait()
                return client.post("/v2/models/minilm/infer", json={"inputs": [tensor]})

        wait_until(lambda: len(workers(house)) == 2 and is_clear(house), 60)
        for worker in workers(house):
            os.kill(worker, signal.SIGSTOP)
        with ThreadPoolExecutor(9) as pool:
            counts = Counter(reason(house, answer) for answer in pool.map(scanned, range(9)))
        assert counts == {"late": 5, "busy": 4}
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


def test_a_gateway_whose_scanner_misses_a_sample_does_not_start(tmp_path: Path) -> None:
    ended = serve(tmp_path, restrict=["US_DRIVER_LICENSE"], threshold=0.9)
    assert ended.returncode == 1
    assert "samples: US_DRIVER_LICENSE" in ended.stderr
    assert "Traceback" not in ended.stderr
