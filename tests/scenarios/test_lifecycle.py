"""Starting, explaining, deadlines, leaving callers, stopping (D1, D3, A2, A3, O3, O7, C12)."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.demo.cloud.process import SimulatedCloud
from tests.live import (
    LiveGateway,
    LoopThread,
    cloud_only,
    serving,
    settings,
    simulated_cloud,
    wait_until,
)

LONG = {
    "model": "scribe",
    "max_tokens": 1500,
    "stream": True,
    "messages": [{"role": "user", "content": "Tell me of rivers."}],
}
MARKER = "zanzibar.quill7431@posteo.example"


def in_flight(gateway: LiveGateway) -> int:
    return int(gateway.client.get("/status").json()["calls_in_flight"])


def explained(gateway: LiveGateway, path: str, body: Any, **headers: str) -> Any:
    asked = {"path": path, "headers": headers, "body": body}
    return gateway.client.post("/spillway/explain", json=asked).json()


@pytest.mark.parametrize("text", ["What is a glacier?", f"write to {MARKER}"])
@pytest.mark.parametrize("placement", ["any", "onprem"])
def test_explain_tells_what_then_happens_and_sends_nothing(
    gateway: LiveGateway, cloud: SimulatedCloud, loop_thread: LoopThread, text: str, placement: str
) -> None:
    body = {"model": "scribe", "max_tokens": 2, "messages": [{"role": "user", "content": text}]}
    headers = {"x-spillway-placement": placement}
    before = _posts(loop_thread, cloud)
    for _ in range(5):
        canaries, triton = _canaries(gateway), _inferences(gateway)
        told = explained(gateway, "/v1/chat/completions", body, **headers)
        after = _inferences(gateway)
        if _canaries(gateway) == canaries:  # else some of these were the gateway's own
            break
    assert _posts(loop_thread, cloud) == before
    assert after == triton
    live = gateway.client.post("/v1/chat/completions", json=body, headers=headers)
    assert live.headers["x-spillway-zone"] == told["decision"]["zone"]
    assert live.headers["x-spillway-endpoint"] == told["decision"]["attempts"][0]
    assert live.headers["x-spillway-reason"] == told["decision"]["reason"]
    assert live.headers["x-spillway-sensitivity"] == told["sensitivity"]


def _posts(loop: LoopThread, cloud: SimulatedCloud) -> int:
    """Calls that the cloud has had; health probes are none."""
    return sum(
        n for route, n in loop.run(cloud.traffic()).routes.items() if route.startswith("POST")
    )


def _canaries(gateway: LiveGateway) -> float:
    lines = gateway.metrics().splitlines()
    return sum(float(x.rsplit(" ", 1)[1]) for x in lines if x.startswith("spillway_canaries_total"))


def _inferences(gateway: LiveGateway) -> int:
    """Triton counts a call a moment after it has answered it: read until it stands still."""
    last, count = -1, _counted(gateway)
    while count != last:
        time.sleep(0.3)
        last, count = count, _counted(gateway)
    return count


def _counted(gateway: LiveGateway) -> int:
    stats = gateway.client.get("/v2/models/scribe/stats").json()["model_stats"]
    return sum(int(s["inference_stats"]["success"]["count"]) for s in stats)


def test_a_budget_that_runs_out_mid_stream_ends_it_in_band(
    loop_thread: LoopThread, tmp_path: Path
) -> None:
    """The cloud would stream for ten seconds; the caller gave two."""
    with (
        simulated_cloud(loop_thread, between_tokens_ms=100.0) as cloud,
        serving(cloud_only(settings(cloud, tmp_path)), tmp_path) as gateway,
    ):
        started = time.monotonic()
        body = {**LONG, "max_tokens": 100}
        budget = {"x-latency-budget-ms": "2000"}
        with gateway.client.stream(
            "POST", "/v1/chat/completions", json=body, headers=budget
        ) as answer:
            lines = [line for line in answer.iter_lines() if line]
        assert time.monotonic() - started < 5
        assert len(lines) > 2
        assert json.loads(lines[-1].removeprefix("data: "))["error"]["code"] == "deadline_exceeded"
        assert "data: [DONE]" not in lines


def test_a_budget_that_passes_before_the_answer_is_a_504(gateway: LiveGateway) -> None:
    body = {**LONG, "stream": False}
    headers = {"x-latency-budget-ms": "300", "x-spillway-placement": "onprem"}
    answer = gateway.client.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code in (503, 504)
    reasons = ("deadline_exceeded", "deadline_unmeetable", "deadline_exceeded_in_queue")
    assert answer.headers["x-spillway-reason"] in reasons


def test_callers_who_leave_free_everything(gateway: LiveGateway) -> None:
    host, port = gateway.http_url.removeprefix("http://").split(":")
    body = json.dumps(LONG).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"x-spillway-placement: onprem\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode()
    for after_bytes in (0, 0, 1, 200, 600) * 4:
        with socket.create_connection((host, int(port)), timeout=20) as caller:
            caller.sendall(head + body)
            got = 0
            while got < after_bytes:
                got += len(caller.recv(4096)) or 10_000
    wait_until(lambda: in_flight(gateway) == 0, 10)
    status = gateway.client.get("/status").json()
    local = next(e for e in status["endpoints"] if e["endpoint"] == "local")
    assert local["in_flight"] == 0
    assert all(m["in_flight"] == 0 for m in local["models"].values())
    for queue in status["queues"]:
        assert queue["waiting"] == 0
        assert all(server["in_flight"] == 0 for server in queue["servers"].values())
    ends = [r for r in gateway.records() if r["outcome"] == "cancelled"]
    assert len(ends) >= 10


def test_a_caller_who_leaves_closes_the_call_in_the_cloud(
    loop_thread: LoopThread, tmp_path: Path
) -> None:
    """The upstream sees the caller go (A3): its place, one of one, is free for the next call."""
    with (
        simulated_cloud(loop_thread, concurrency_limit=1, between_tokens_ms=50.0) as cloud,
        serving(cloud_only(settings(cloud, tmp_path)), tmp_path) as gateway,
    ):
        with gateway.client.stream("POST", "/v1/chat/completions", json=LONG) as answer:
            assert answer.headers["x-spillway-reason"] == "cloud_only"
            next(answer.iter_bytes())
        short = {**LONG, "stream": False, "max_tokens": 2}
        wait_until(
            lambda: gateway.client.post("/v1/chat/completions", json=short).status_code == 200, 5
        )
        wait_until(lambda: in_flight(gateway) == 0, 5)


def test_sigterm_lets_streams_finish_and_then_cuts_them_with_a_reason(
    loop_thread: LoopThread, tmp_path: Path
) -> None:
    with (
        simulated_cloud(loop_thread, between_tokens_ms=60.0) as cloud,
        serving(cloud_only(settings(cloud, tmp_path, limits={"drain_s": 1.5})), tmp_path) as house,
    ):
        ends = asyncio.run(_streams_over_a_stop(house, {**LONG, "max_tokens": 10}, LONG))
        assert ends[0] == "data: [DONE]"
        assert json.loads(ends[1].removeprefix("data: "))["error"]["code"] == "draining"
        assert house.process.wait(30) == 0
        with pytest.raises(httpx.TransportError):
            house.client.get("/healthz")


async def _streams_over_a_stop(gateway: LiveGateway, *bodies: Any) -> list[str]:
    begun = asyncio.Semaphore(0)

    async def last_line(client: httpx.AsyncClient, body: Any) -> str:
        last = ""
        async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            begun.release()
            async for line in answer.aiter_lines():
                last = line or last
        return last

    url = gateway.http_url
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False, timeout=30) as client:
        tasks = [asyncio.create_task(last_line(client, body)) for body in bodies]
        for _ in bodies:
            await begun.acquire()
        gateway.process.send_signal(signal.SIGTERM)
        return list(await asyncio.gather(*tasks))


def test_what_the_process_writes_never_holds_content(
    gateway: LiveGateway, cloud: SimulatedCloud
) -> None:
    """C12: a marker in every kind of call, good and bad, then a search of all that was written."""
    client = gateway.client
    chat = {"model": "scribe", "max_tokens": 2, "messages": [{"role": "user", "content": MARKER}]}
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1, 1], "data": [MARKER]}
    answers = [
        client.post("/v1/chat/completions", json=chat),
        client.post("/v1/chat/completions", json={**chat, "model": MARKER}),
        client.post("/v1/chat/completions", json={**chat, "stream": MARKER}),
        client.post("/v1/chat/completions", content=f'{{"{MARKER}": 1, "{MARKER}": 2}}'),
        client.post("/v1/embeddings", json={"model": "minilm", "input": MARKER}),
        client.post("/v2/models/minilm/infer", json={"inputs": [tensor], "id": MARKER}),
        client.post("/v2/models/minilm/infer", json={"inputs": [{**tensor, "shape": [9, 9]}]}),
        client.get(f"/v2/models/{MARKER}/config"),
        client.get("/v2/nowhere", headers={"x-request-id": MARKER, "traceparent": MARKER}),
    ]
    assert answers[0].status_code == 200
    for refused in answers:
        if refused.status_code != 200:
            assert MARKER not in refused.text
        assert MARKER not in str(refused.headers)
    assert MARKER not in gateway.metrics()
    assert MARKER not in client.get("/status").text
    for written in (gateway.audited(), gateway.log_path.read_bytes()):
        assert MARKER.encode() not in written


def test_a_burst_of_clear_calls_spills_and_restricted_ones_wait(
    gateway: LiveGateway, cloud: SimulatedCloud, loop_thread: LoopThread
) -> None:
    """More than is done within the clear calls' budget: those go out, the others have time.
    Where even the search takes that long, they get twice the budget."""
    body = {"model": "scribe", "max_tokens": 60, "messages": [{"role": "user", "content": "Hi."}]}
    private = {**body, "messages": [{"role": "user", "content": f"Hi {MARKER}"}]}
    ends: dict[bool, set[tuple[int, str, str]]] = {False: set(), True: set()}

    def call(what: Any, budget_ms: int) -> None:
        answer = httpx.post(
            f"{gateway.http_url}/v1/chat/completions", json=what,
            timeout=60, trust_env=False, verify=False,
            headers={"x-latency-budget-ms": f"{budget_ms}"},
        )  # fmt: skip
        told = answer.headers
        how = (told.get("x-spillway-sensitivity", ""), told.get("x-spillway-zone", ""))
        ends[what is private].add((answer.status_code, *how))

    for budget_ms in (1500, 3000, 6000, 12_000, 24_000):
        calls = [(body, budget_ms), (body, budget_ms), (private, 50_000)] * 30
        threads = [threading.Thread(target=call, args=one) for one in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
        if (200, "clear", "cloud") in ends[False]:
            break
    assert ends[True] == {(200, "restricted", "onprem")}
    assert (200, "clear", "cloud") in ends[False]
    assert not loop_thread.run(cloud.search([MARKER]))
