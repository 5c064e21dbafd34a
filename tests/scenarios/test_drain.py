"""SIGTERM (O7), over every protocol: nobody new gets in, what runs finishes within `drain_s`, and
what does not is told why. A gateway that has several versions of the settings in use stops all.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
import yaml

from tests.live import (
    LiveGateway,
    LoopThread,
    cloud_only,
    serving,
    settings,
    simulated_cloud,
    wait_until,
)

TAKES_S = 1.5
TENSORS = [
    {"name": name, "datatype": "INT32", "shape": [1, 16], "data": [*range(16)]}
    for name in ("INPUT0", "INPUT1")
]
Told = tuple[str, str]
"""How a call ended, and what it was told."""


def _inputs() -> list[Any]:
    found = []
    for name in ("INPUT0", "INPUT1"):
        found.append(triton.InferInput(name, [1, 16], "INT32"))
        found[-1].set_data_from_numpy(np.arange(16, dtype=np.int32).reshape(1, 16))
    return found


def _rest(gateway: LiveGateway) -> Told:
    with gateway.connect() as client:
        answer = client.post("/v2/models/simple/infer", json={"inputs": TENSORS})
    return str(answer.status_code), answer.headers.get("x-spillway-reason", "")


def _grpc(gateway: LiveGateway) -> Told:
    client = triton.InferenceServerClient(gateway.grpc_target)
    try:
        client.infer("simple", _inputs())
    except triton.InferenceServerException as exc:
        return str(exc.status()), str(exc.message())
    finally:
        client.close()
    return "200", ""


def _grpc_stream(gateway: LiveGateway) -> Told:
    answers: list[Any] = []
    client = triton.InferenceServerClient(gateway.grpc_target)
    client.start_stream(lambda result, error: answers.append(error))
    try:
        client.async_stream_infer("simple", _inputs())
        wait_until(lambda: answers, 30)
    finally:
        client.stop_stream(cancel_requests=True)
        client.close()
    return ("200", "") if answers[0] is None else ("StatusCode", str(answers[0]))


WAYS: dict[str, Callable[[LiveGateway], Told]] = {
    "rest": _rest, "grpc": _grpc, "grpc stream": _grpc_stream,
}  # fmt: skip


def _stopped_under(gateway: LiveGateway, before: Callable[[], None]) -> dict[str, Told]:
    """Each way's call is under way when the gateway is told to stop."""
    ended: dict[str, Told] = {}

    def call(name: str) -> None:
        ended[name] = WAYS[name](gateway)

    threads = [threading.Thread(target=call, args=(name,)) for name in WAYS]
    for thread in threads:
        thread.start()
    status = gateway.client.get
    wait_until(lambda: status("/status").json()["calls_in_flight"] == len(WAYS), 15)
    before()
    gateway.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join(30)
    assert gateway.process.wait(30) == 0
    return ended


def test_what_runs_finishes_and_nobody_new_gets_in(loop_thread: LoopThread, tmp_path: Path) -> None:
    with simulated_cloud(loop_thread, service_ms=1000 * TAKES_S) as cloud:
        document = cloud_only(settings(cloud, tmp_path, limits={"drain_s": 15.0}))
        with serving(document, tmp_path) as gateway:
            host, port = gateway.http_url.removeprefix("http://").split(":")
            kept = socket.create_connection((host, int(port)), timeout=20)
            kept.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert kept.recv(4096).startswith(b"HTTP/1.1 200")

            def reload() -> None:
                document["endpoints"]["cloud-v2"]["expected_ms"] = 77
                (tmp_path / "spillway.yaml").write_text(yaml.safe_dump(document))
                gateway.process.send_signal(signal.SIGHUP)
                wait_until(lambda: _settings(gateway)["still_in_use"] != [], 10)

            with kept:
                ended = _stopped_under(gateway, reload)
            assert {name: how for name, (how, _) in ended.items()} == dict.fromkeys(WAYS, "200")
            with pytest.raises(OSError, match="refused"):
                socket.create_connection((host, int(port)), timeout=5)
            ends = [r["end_reason"] for r in gateway.records() if "end_reason" in r]
            assert len(ends) == len(WAYS)
            assert "draining" not in ends


def test_what_does_not_finish_is_cut_and_told_why(loop_thread: LoopThread, tmp_path: Path) -> None:
    with simulated_cloud(loop_thread, service_ms=20_000.0) as cloud:
        document = cloud_only(settings(cloud, tmp_path, limits={"drain_s": 0.5}))
        with serving(document, tmp_path) as gateway:
            since_s = time.monotonic()
            ended = _stopped_under(gateway, lambda: None)
            assert time.monotonic() - since_s < 15
            assert ended["rest"] == ("503", "draining")
            assert ended["grpc"][0] == "StatusCode.UNAVAILABLE"
            for way in ("grpc", "grpc stream"):
                assert "stopping" in ended[way][1] or "shutting down" in ended[way][1]
            records = [r for r in gateway.records() if r["kind"] == "call"]
            assert {(r["outcome"], r["end_reason"]) for r in records} == {("shed", "draining")}


def _settings(gateway: LiveGateway) -> dict[str, Any]:
    return dict(gateway.client.get("/status").json()["settings"])
