"""A record that is told as the one before it says what it would say by itself, and calls that are
taken in by the batch are counted as each by itself."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.accounting.live.decisions import Decisions
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import SENT
from gateway.core import ambient
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.operations.embeddings import EMBEDDINGS
from gateway.core.types import (
    CLOUD,
    EVERYWHERE,
    ONPREM_ONLY,
    PUBLIC_MODEL,
    Classification,
    Decision,
    DocumentCall,
    Endpoint,
    InferenceRequest,
    Sensitivity,
    Tensor,
    TensorCall,
    WireProtocol,
)
from gateway.pipeline.call_account import Accounts
from tests.unit.harness import MemoryLog

METRICS = Metrics()
AWAY = Endpoint("away", CLOUD, "openai")
DECISIONS = (
    Decision((AWAY,), "spill_cost", EVERYWHERE, predicted_s={"away": 0.25}),
    Decision((AWAY,), "spill_cost", EVERYWHERE, predicted_s={"away": 0.5}),
    Decision((AWAY,), "spill_deadline", EVERYWHERE, (("gpu", "down"),), True),
    Decision((AWAY,), "spill_deadline", EVERYWHERE, (("gpu", "full"),), True),
    Decision((AWAY,), "spill_deadline", EVERYWHERE, (("gpu", "down"),), False),
    Decision((AWAY,), "spill_deadline", ONPREM_ONLY, (("gpu", "down"),), True),
)
PAYLOADS = (
    DocumentCall(CHAT, {}),
    DocumentCall(EMBEDDINGS, {}),
    TensorCall(()),
    TensorCall((Tensor("a", "INT8", (2,), b"xx"),)),
    TensorCall((Tensor("a", "INT8", (2,), b"xx"), Tensor("b", "INT8", (1,), b"x"))),
)
FOUND = (
    {"reason": "clear", "complete": True},
    {"reason": "clear", "complete": False},
    {"reason": PUBLIC_MODEL, "complete": True},
    {"reason": "clear", "complete": True, "entities": {"PERSON": 1}},
    {"reason": "pseudonymised", "complete": True, "pseudonymised": {"PERSON": 2}},
    {"reason": "entities", "sensitivity": Sensitivity.RESTRICTED, "entities": {"PERSON": 1}},
    {"reason": "entities", "sensitivity": Sensitivity.RESTRICTED, "entities": {"PERSON": 2}},
    {"reason": "entities", "sensitivity": Sensitivity.RESTRICTED, "entities": {"US_SSN": 1}},
    {"reason": "tainted", "sensitivity": Sensitivity.RESTRICTED},
)
SHARES = st.floats(0.0, 10.0, allow_nan=False)
CALLS = st.tuples(
    st.sampled_from(["t", "u"]), st.sampled_from(["m", "n"]), st.sampled_from(PAYLOADS),
    st.sampled_from([WireProtocol.OPENAI, WireProtocol.KSERVE_GRPC]), st.integers(0, 1),
    st.sampled_from([EVERYWHERE, ONPREM_ONLY]), st.sampled_from(DECISIONS),
    st.sampled_from([*FOUND[:1] * 4, *FOUND]), SHARES, SHARES, st.sampled_from(["p", "q"]),
)  # fmt: skip


ONE = (
    *("t", "m", PAYLOADS[0], WireProtocol.OPENAI, 0, EVERYWHERE, DECISIONS[0], FOUND[5]),
    *(1.0, 0.5, "p"),
)


@settings(deadline=None, max_examples=200)
@example(ONE, [(7, (*ONE[:7], found, *ONE[8:])) for found in FOUND[5:]])
@example(ONE, [(6, (*ONE[:6], decision, *ONE[7:])) for decision in DECISIONS])
@given(CALLS, st.lists(st.tuples(st.integers(0, 10), CALLS), min_size=1, max_size=8))
def test_a_record_like_the_one_before_says_what_it_would_by_itself(
    first: tuple[Any, ...], changes: list[tuple[int, tuple[Any, ...]]]
) -> None:
    """Each call differs from the one before in one thing, if in any."""
    calls = [first]
    for at, other in changes:
        calls.append((*calls[-1][:at], other[at], *calls[-1][at + 1 :]))
    now_s, policy = 100.0, "p"
    sources = ambient.Sources(lambda: now_s, lambda: 1.7e9 + now_s)
    with ambient.drawn_from(sources):
        accounts = Accounts(MemoryLog(), METRICS, lambda: now_s, lambda: policy)
        for number, call in enumerate(calls):
            tenant, model, payload, protocol, priority, zones, decision, told, *rest = call
            budget_s, read_s, policy = rest
            clear = {"sensitivity": Sensitivity.CLEAR, "classify_s": read_s, **told}
            now_s += budget_s
            account = accounts.open(InferenceRequest(
                str(number), protocol, tenant, model, payload, Deadline(now_s + budget_s),
                priority, zones, traceparent=f"00-{number:032x}-{number:016x}-00",
                received_s=now_s - read_s, recorded_id=f"alias-{number}",
                recorded_trace=f"{number + 7:032x}",
            ))  # fmt: skip
            account.classified(Classification(str(number), **clear))
            account.decided(decision)
            attempts = [{"endpoint": "away", "sent_as": str(number)}]
            found = account._sent(attempts)
            expected = account._record(attempts) | {"outcome": SENT}
            assert json.dumps(found) == json.dumps(expected)
            found["shadows"] = found["end_reason"] = "x"  # what becomes of it is its own


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
