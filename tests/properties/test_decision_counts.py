"""Calls that are taken in by the batch are counted as each by itself."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.accounting.live.decisions import Decisions
from gateway.accounting.records import SENT


def record(number: int, sensitivity: str | None, at: tuple[str, str]) -> dict[str, Any]:
    zone, result = at
    return {
        "kind": "call", "id": str(number // 2), "number": number, "tenant": f"t{number % 3}",
        "protocol": "openai", "model": "m", "budget_s": 1.0, "sensitivity": sensitivity,
        "attempts": [{"zone": zone, "endpoint": zone, "result": result}], "outcome": SENT,
    }  # fmt: skip


ENDS = st.tuples(
    st.sampled_from(["clear", "clear", "clear", "restricted", None]),
    st.sampled_from([("cloud", "served"), ("onprem", "served"), ("cloud", "egress_forbidden")]),
    st.sampled_from(["served", "served", "failed"]),
    st.sampled_from(["told", "told", "told", "whole", "anew", "only end", "none tried"]),
    st.sampled_from([0.0, 0.4, 1.0]),
    st.booleans(),
)


def shown(found: Decisions) -> list[object]:
    return [
        [(s.seq, s.revision, s.alarmed, s.record) for s in found.since(0, 99)],
        list(found.figures), [(s.at_s, s.paths, s.zones) for s in found.seconds],
        found.counts, found.restricted_in_cloud, found.stopped_at_door, found.latest_alarm,
        found.seq, found.revision,
    ]  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(st.lists(ENDS, max_size=12))
@example([("restricted", ("cloud", "served"), "served", "told", 0.0, True)])
@example([(None, ("cloud", "egress_forbidden"), "failed", "told", 0.0, True)])
def test_calls_that_are_taken_in_together_count_as_each_by_itself(
    ends: list[tuple[Any, ...]],
) -> None:
    now_s = 100.0
    together, alone = (Decisions(lambda: now_s, tail=5) for _ in range(2))
    for number, (sensitivity, at, outcome, how, later_s, looks) in enumerate(ends):
        now_s += later_s
        told = record(number, sensitivity, at)
        end = {
            "kind": "end", "id": told["id"], "number": number, "took_s": 0.5,
            "attempts": [] if how == "none tried" else told["attempts"], "outcome": outcome,
        }  # fmt: skip
        if how in ("whole", "anew"):
            end = {**told, **end, "kind": "call" if how == "whole" else "end"}
        for one in (together, alone):
            if how in ("told", "anew", "none tried"):
                one.begins(told)
            if looks and number % 2:
                one.snapshot()
            one.ends(end)
        begun, alone._ended = alone._begun, []
        key = (str(number // 2), number)
        alone._count_other(now_s, key, begun.pop(key, None), end)
        if looks:
            assert shown(together) == shown(alone)
    assert shown(together) == shown(alone)
