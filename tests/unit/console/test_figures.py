"""Flows, latencies and budgets are what the calls of the window were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.accounting.live.decisions import CallFigures, Path, SecondCounts
from gateway.server.console import figures


def call(
    zone: str = "onprem", *, kind: str = "clear", budget_s: float = 1.0,
    took_s: float | None = 0.1, at_s: float = 100.0,
) -> CallFigures:  # fmt: skip
    return CallFigures(at_s, "m", kind, zone, budget_s, took_s)


def second(at_s: int, *paths: Path) -> SecondCounts:
    found = SecondCounts(at_s)
    for path in paths:
        found.paths[path] = found.paths.get(path, 0) + 1
        found.zones[path[3]] += 1
    return found


def path(
    zone: str = "onprem", *, tenant: str = "t", protocol: str = "openai", kind: str = "clear"
) -> Path:
    endpoint = {"onprem": "gpu", "cloud": "cloud", "none": ""}[zone]
    return (tenant, protocol, kind, zone, endpoint)


def flow(
    *seconds: SecondCounts, now_s: float = 100.0, started_s: float = 0.0
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = figures.flow(seconds, now_s, started_s)["paths"]
    return found


def test_paths_are_counted_as_rates_from_whom_to_where() -> None:
    told = flow(
        second(80, path()),  # too long ago
        second(95, path(), path(), path("cloud")),
        second(99, path("none", kind="restricted")),
    )
    assert [(p["sensitivity"], p["zone"], p["endpoint"], p["per_s"]) for p in told] == [
        ("clear", "cloud", "cloud", 0.1),
        ("clear", "onprem", "gpu", 0.2),
        ("restricted", "none", "", 0.1),
    ]


def test_a_gateway_that_has_just_started_has_no_ten_seconds_to_divide_by() -> None:
    (only,) = flow(second(99, path(), path()), started_s=98.0)
    assert only["per_s"] == 1.0


def test_one_tenant_is_drawn_by_protocol_and_several_by_name_up_to_a_number() -> None:
    alone = flow(second(99, path(protocol="openai"), path(protocol="kserve-rest")))
    assert {p["source"] for p in alone} == {"openai", "kserve-rest"}
    many = flow(second(99, *(path(tenant=f"t{n}") for n in range(9) for _ in range(9 - n))))
    assert {p["source"] for p in many} == {f"t{n}" for n in range(6)} | {"others"}
    assert sum(p["calls"] for p in many) == 45


def test_percentiles_are_of_answers_beside_the_budgets_of_the_same_calls() -> None:
    calls = [call(took_s=n / 100, budget_s=0.5) for n in range(1, 101)]
    told = figures.latency([*calls, call(zone="none", took_s=None)], 130.0)
    assert told["zones"]["onprem"] == {"n": 100, "p50": 510, "p95": 960, "p99": 1000}
    assert (told["in_time"], told["answered"]) == (50, 100)
    assert (told["budgets"]["p50"], told["window_s"]) == (500, 30)
    assert (
        dict(zip(told["budgets"]["steps_ms"], told["budgets"]["calls"], strict=False))[500] == 100
    )


@given(st.lists(st.floats(0.0001, 1e4), max_size=50))
def test_every_budget_is_in_one_step(budgets_s: list[float]) -> None:
    assert sum(figures._histogram(budgets_s)) == len(budgets_s)


@pytest.mark.parametrize(
    ("budgets_s", "found_s"), [([], None), ([0.3], 0.3), ([n / 10 for n in range(1, 21)], 0.3)]
)
def test_spilling_begins_with_the_tightest_tenth_of_clear_calls(
    budgets_s: Sequence[float], found_s: float | None
) -> None:
    calls = [call(budget_s=s) for s in budgets_s] + [call(kind="restricted", budget_s=0.001)]
    assert figures.tight_budget_s(calls, "m") == found_s


def test_the_timeline_has_the_newest_step_last_and_forgets_what_is_older() -> None:
    told = figures.timeline(
        [second(1, path()), second(119, path()), second(121, path("cloud"))], 121.9
    )
    assert told["onprem"][-2:] == [1, 0]
    assert told["cloud"][-1] == 1
    assert sum(told["onprem"]) == 1
