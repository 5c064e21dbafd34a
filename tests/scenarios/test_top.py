"""`spillway top` at a real gateway."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.live import LiveGateway

TOP = [sys.executable, "-m", "gateway", "top", "--once", "--interval", "0.5", "--url"]


def test_top_shows_the_calls_endpoints_and_queues_of_a_running_gateway(
    gateway: LiveGateway,
) -> None:
    top = subprocess.Popen([*TOP, gateway.http_url, "--json"], stdout=subprocess.PIPE)
    body = {"model": "scribe", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello."}]}
    while top.poll() is None:
        gateway.client.post("/v1/chat/completions", json=body)
    assert top.stdout is not None
    told = json.loads(top.stdout.read())
    assert top.returncode == 0
    assert told["per_s"]["clear onprem"] + told["per_s"]["clear cloud"] > 0
    assert told["restricted_in_cloud"] == 0
    assert [e["state"] for e in told["endpoints"] if e["zone"] == "onprem"] == ["up"]
    assert [q["model"] for q in told["queues"]].count("scribe") == 1
    status = gateway.client.get("/status").json()
    assert told["policy"] == status["policy"]
    page = subprocess.run([*TOP, gateway.http_url], capture_output=True, text=True, check=True)
    assert "restricted calls in the cloud: 0" in page.stdout
