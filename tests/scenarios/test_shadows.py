"""A gateway with shadow policies, its Triton and a cloud, as processes (O4)."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.running import explain
from gateway.demo.cloud.process import SimulatedCloud
from tests.live import LiveGateway, LoopThread, serving, settings, wait_until

MARKS = ("the water cycle in two sentences", "waterwheels of Hama")
CARD = "4111 1111 1111 1111"
CALLS = 8


@pytest.fixture(scope="module")
def house(
    outside: SimulatedCloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveGateway]:
    scratch = tmp_path_factory.mktemp("shadows")
    shadows = {"away": {"policy": "static_split"}, "here": {"spill": False}, "same": {}}
    with serving(
        settings(outside, scratch, only=["minilm"], routing={"shadows": shadows}), scratch
    ) as gateway:
        yield gateway


def embed(gateway: LiveGateway, text: str) -> Any:
    """Its record."""
    body = {"model": "minilm", "input": text}
    answer = gateway.client.post(
        "/v1/embeddings", json=body, headers={"x-latency-budget-ms": "20000"}
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-spillway-zone"] == "onprem"
    return gateway.record(answer.headers["x-request-id"])


def counted(gateway: LiveGateway, shadow: str) -> dict[tuple[str, str], int]:
    """Calls by live zone and the shadow's."""
    found = re.findall(
        r'^spillway_shadow_decisions_total{live_zone="(\w+)",shadow="(\w+)",shadow_zone="(\w+)"}'
        r" (\d+)",
        gateway.metrics(),
        re.MULTILINE,
    )
    return {(live, zone): int(n) for live, name, zone, n in found if name == shadow}


def asked(gateway: LiveGateway, shadow: str) -> int:
    """Of those that have left its queue."""
    return sum(counted(gateway, shadow).values())


def test_what_a_shadow_chooses_is_counted_and_nothing_of_it_is_sent(
    house: LiveGateway, outside: SimulatedCloud, loop_thread: LoopThread
) -> None:
    clear = [embed(house, f"Summarise {MARKS[n % 2]}.") for n in range(CALLS)]
    restricted = [embed(house, f"Charge {CARD} for {MARKS[0]}.") for _ in range(2)]
    for record in clear:
        assert record["shadows"]["away"]["zone"] == "cloud"
        assert record["shadows"]["here"] == {"zone": "onprem", "reason": "onprem_only"}
        assert record["shadows"]["same"] == {"zone": "onprem", "reason": "onprem_room"}
    for record in restricted:
        kept = {"zone": "onprem", "reason": "restricted"}
        assert record["shadows"] == {"away": kept, "here": kept, "same": kept}
    wait_until(lambda: all(asked(house, name) == CALLS + 2 for name in record["shadows"]), 20)
    assert counted(house, "away") == {("onprem", "cloud"): CALLS, ("onprem", "onprem"): 2}
    assert counted(house, "here") == counted(house, "same") == {("onprem", "onprem"): CALLS + 2}
    assert loop_thread.run(outside.search([*MARKS, CARD])) == []

    reports = {r["shadow"]: r for r in house.client.get("/status").json()["shadows"]}
    assert (reports["away"]["compared"], reports["away"]["differ"]) == (CALLS + 2, CALLS)
    assert reports["away"]["cloud_usd"]["shadow"] == pytest.approx(0.001 * CALLS)
    assert reports["away"]["cloud_usd"]["live"] == 0.0
    assert {(r["errors"], r["skipped"]) for r in reports.values()} == {(0, 0)}


def test_explain_tells_of_shadows(
    house: LiveGateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {
        "path": "/v1/embeddings",
        "headers": {"x-latency-budget-ms": "20000"},
        "body": {"model": "minilm", "input": "Where is the library?"},
    }
    told = house.client.post("/spillway/explain", json=asked).json()
    assert told["decision"]["zone"] == "onprem"
    assert told["shadows"]["away"]["zone"] == "cloud"
    assert told["shadows"]["here"] == {"zone": "onprem", "reason": "onprem_only"}

    call = tmp_path / "call.json"
    call.write_text(json.dumps(asked))
    given = Namespace(
        file=str(call),
        url=house.http_url,
        key=None,
        json=False,
        config=None,
        ca_file=None,
        cert_file=None,
        key_file=None,
    )
    assert explain.run(given) == 0
    assert "shadow here: onprem: onprem_only" in capsys.readouterr().err
