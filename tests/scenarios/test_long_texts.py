"""A long chat of clear text, which only the cloud can serve, is read and answered."""

from __future__ import annotations

from pathlib import Path

from gateway.classify.scan_workers.pool import LONG
from tests.live import LiveGateway, serving, wait_until
from tests.scenarios.repeating_cloud import repeating_cloud

SENTENCE = "The pump moves water through the pipe when the pressure drops below the limit. "
CARD = "4111 1111 1111 1111"


def is_up(gateway: LiveGateway) -> bool:
    return all(endpoint["up"] for endpoint in gateway.client.get("/status").json()["endpoints"])


def test_a_long_clear_text_is_answered_by_the_cloud(tmp_path: Path) -> None:
    with repeating_cloud() as cloud:
        document = {
            "listen": {"http_port": 0, "grpc_port": 0},
            "audit": {"directory": str(tmp_path / "audit")},
            "classify": {"budget_ms": 600_000},  # however busy the machine is
            "endpoints": {"cloud": {"kind": "openai", "zone": "cloud", "url": cloud.url}},
            "models": {
                "m": {
                    "task": "generate",
                    "served_by": [{"endpoint": "cloud", "price_usd": 0.001}],
                }
            },
        }
        text = SENTENCE * (4 * LONG // len(SENTENCE))  # names have 30 s, however busy it is
        with serving(document, tmp_path) as gateway:
            wait_until(lambda: is_up(gateway), 60)
            for said, status in ((text, 200), (f"{text}{CARD}. {SENTENCE}", 503)):
                answer = gateway.client.post(
                    "/v1/chat/completions",
                    json={"model": "m", "messages": [{"role": "user", "content": said}]},
                    headers={"x-latency-budget-ms": "600000"},
                    timeout=600,
                )
                record = gateway.record(answer.headers["x-request-id"])
                assert answer.status_code == status, record["classify_reason"]
        assert len(cloud.bodies) == 1
        assert CARD.encode() not in cloud.bodies[0]
