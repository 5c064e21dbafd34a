"""The ledger of a real gateway: budgets and spend outlive it, and its page is told (B1, B3, S5)."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.__main__ import main
from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, serving, wait_until

PRICE_USD, CALLS = 0.001, 3
ASKED = {
    "inputs": [
        {"name": name, "datatype": "INT32", "shape": [1, 16], "data": list(range(16))}
        for name in ("INPUT0", "INPUT1")
    ]
}


def document(cloud: SimulatedCloud, scratch: Path) -> dict[str, Any]:
    """A gateway with nothing but the cloud, and money for a few calls, ever."""
    served = {"endpoint": "cloud", "price_usd": PRICE_USD}
    return {
        "listen": {"http_port": 0, "grpc_port": 0},
        "audit": {"directory": str(scratch / "audit")},
        "ledger": {"lease_wait_ms": 10_000},
        "endpoints": {"cloud": {"kind": "kserve", "zone": "cloud", "url": cloud.http_url}},
        "models": {"simple": {"tensors": "clear", "served_by": [served]}},
        "routing": {"spill_budget_usd_total": PRICE_USD * CALLS},
    }


def served(gateway: LiveGateway, calls: int) -> int:
    statuses = [
        gateway.client.post("/v2/models/simple/infer", json=ASKED).status_code for _ in range(calls)
    ]
    assert set(statuses) <= {200, 503}
    return statuses.count(200)


def spent(gateway: LiveGateway, **asked: str) -> dict[str, Any]:
    found = gateway.client.get("/spillway/costs", params=asked)
    assert found.status_code == 200, found.text
    told: dict[str, Any] = found.json()
    return told


def metric(gateway: LiveGateway, name: str) -> float:
    lines = gateway.metrics().splitlines()
    return float(next(line for line in lines if line.startswith(name + " ")).split()[1])


def test_a_budget_and_what_was_spent_of_it_outlive_a_killed_gateway(
    cloud: SimulatedCloud, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = document(cloud, tmp_path)
    with serving(settings, tmp_path) as gateway:
        assert served(gateway, 10) == CALLS
        wait_until(lambda: metric(gateway, "spillway_ledger_entries_total") == CALLS, 10)
        assert spent(gateway, by="zone")["all"]["cloud_usd"] == PRICE_USD * CALLS
        assert gateway.client.get("/spillway/costs?by=team").status_code == 400
        assert gateway.client.get("/spillway/costs?tenant=nobody").status_code == 400
        gateway.process.send_signal(signal.SIGKILL)
        gateway.process.wait(10)
    with serving(settings, tmp_path) as gateway:
        assert served(gateway, 5) == 0
        assert metric(gateway, "spillway_spill_budget_left_usd") == 0.0
        assert metric(gateway, "spillway_ledger_up") == 1.0
        (group,) = spent(gateway, by="model")["groups"]
        assert (group["name"], group["usd"]) == ("simple", PRICE_USD * CALLS)
    capsys.readouterr()
    assert main(["costs", "--config", str(tmp_path / "spillway.yaml"), "--by", "reason"]) == 0
    assert "cloud_only" in capsys.readouterr().out


def test_a_gateway_does_not_start_on_a_damaged_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ledger.db").write_bytes(b"not a database" * 1000)
    config = tmp_path / "spillway.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "listen": {"http_port": 0, "grpc_port": 0},
                "audit": {"directory": str(tmp_path / "audit")},
                "endpoints": {"gpu": {"kind": "triton", "zone": "onprem", "grpc": "127.0.0.1:1"}},
                "models": {"simple": {"served_by": [{"endpoint": "gpu"}]}},
            }
        )
    )
    assert main(["serve", "--config", str(config)]) == 2
    assert "is damaged" in capsys.readouterr().err
