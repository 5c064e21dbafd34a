"""Reading decision records while the gateway writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.demo.decided import DecisionFeed

TRACE = "1" * 32


def attempt(zone: str, price_usd: float = 0.1) -> dict[str, Any]:
    return {"zone": zone, "price_usd": price_usd}


def call(*attempts: dict[str, Any], outcome: str = "served", **changes: Any) -> dict[str, Any]:
    record = {
        "kind": "call",
        "id": "a",
        "trace": TRACE,
        "sensitivity": "clear",
        "reason": "spill_queue",
        "latency_critical": False,
        "attempts": list(attempts),
        "outcome": outcome,
        "end_reason": "spill_queue",
    }
    return {**record, **changes}


def fed(path: Path, *records: dict[str, Any]) -> DecisionFeed:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    feed = DecisionFeed(path.parent)
    feed.read()
    return feed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "000000000000.jsonl"


def test_a_file_that_is_not_there_yet_has_no_records(path: Path) -> None:
    feed = DecisionFeed(path.parent)
    feed.read()
    assert feed.by_trace == {}


def test_a_line_that_is_half_written_is_read_when_it_is_whole(path: Path) -> None:
    line = json.dumps(call(attempt("cloud"))) + "\n"
    path.write_text(line[:40])
    feed = DecisionFeed(path.parent)
    feed.read()
    assert feed.by_trace == {}
    path.write_text(line)
    feed.read()
    assert feed.by_trace[TRACE].served_in == "cloud"


def test_a_call_counts_as_served_until_its_end_says_otherwise(path: Path) -> None:
    begun = call(attempt("onprem"), outcome="sent")
    assert fed(path, begun).by_trace[TRACE].served_in == "onprem"
    assert not fed(path, begun).by_trace[TRACE].final
    end = {"kind": "end", "id": "a", "outcome": "failed", "end_reason": "upstream_failed"}
    decided = fed(path, begun, {**end, "attempts": [attempt("onprem")]}).by_trace[TRACE]
    assert (decided.served_in, decided.end_reason, decided.final) == (None, "upstream_failed", True)


def test_a_second_attempt_is_a_failover_and_both_are_paid(path: Path) -> None:
    decided = fed(path, call(attempt("onprem", 0.25), attempt("cloud", 0.5))).by_trace[TRACE]
    assert (decided.reason, decided.tried) == ("failover", ("onprem", "cloud"))
    assert decided.cost_usd == {"onprem": 0.25, "cloud": 0.5}


@pytest.mark.parametrize(
    ("sensitivity", "restricted"), [("clear", False), ("restricted", True), (None, True)]
)
def test_only_a_call_that_was_judged_clear_is_not_restricted(
    path: Path, sensitivity: str | None, restricted: bool
) -> None:
    assert fed(path, call(sensitivity=sensitivity)).by_trace[TRACE].restricted is restricted


def test_a_call_that_was_refused_was_served_nowhere(path: Path) -> None:
    refused = call(outcome="shed", end_reason="onprem_unavailable_restricted")
    assert fed(path, refused).by_trace[TRACE].served_in is None
