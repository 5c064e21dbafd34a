"""The decision: one pure function over one snapshot (S7, D4, M2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.core.deadline import Deadline
from gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    NoEligibleEndpoint,
    OnpremUnavailable,
    Saturated,
)
from gateway.core.operations.chat import CHAT
from gateway.core.types import (
    EVERYWHERE,
    ONPREM_ONLY,
    Classification,
    DocumentCall,
    Endpoint,
    EndpointSnapshot,
    InferenceRequest,
    Sensitivity,
    ServedModel,
    WireProtocol,
    Zone,
)
from gateway.scheduling.routing.policy import Policy, leaving


def call(budget_s: float = 1.0, **changes: Any) -> InferenceRequest:
    made = InferenceRequest(
        "id", WireProtocol.OPENAI, "t", "m", DocumentCall(CHAT, {}),
        Deadline(budget_s, lambda: 0.0),
    )  # fmt: skip
    return replace(made, **changes)


def found(kind: str) -> Classification:
    return Classification("id", Sensitivity(kind), "clear" if kind == "clear" else "entities")


def gpu(name: str = "gpu", predicted_s: float = 0.1, **changes: Any) -> EndpointSnapshot:
    endpoint = Endpoint(name, Zone.ONPREM, "triton")
    made = EndpointSnapshot(
        endpoint, ServedModel("m"), True, predicted_s=predicted_s, p50_s=min(0.1, predicted_s)
    )
    return replace(made, **changes)


def away(name: str = "cloud", predicted_s: float = 0.3, **changes: Any) -> EndpointSnapshot:
    endpoint = Endpoint(name, Zone.CLOUD, "openai")
    made = EndpointSnapshot(
        endpoint, ServedModel("m"), True, predicted_s=predicted_s, p50_s=predicted_s / 2,
        price_usd=0.01,
    )  # fmt: skip
    return replace(made, **changes)


DOWN: dict[str, Any] = {"available": False, "unavailable_why": "down"}
FULL: dict[str, Any] = {"room": False, "waiting": 99}
LATE: dict[str, Any] = {"predicted_s": 9.0, "p50_s": 8.0, "waiting": 1}


@pytest.mark.parametrize(
    ("states", "chosen", "reason"),
    [
        pytest.param([gpu(), away()], "gpu", "onprem_room", id="room"),
        pytest.param([away(), gpu()], "gpu", "onprem_room", id="room-in-any-order"),
        pytest.param([gpu()], "gpu", "onprem_only", id="no-cloud"),
        pytest.param([away()], "cloud", "cloud_only", id="no-gpu"),
        pytest.param([gpu(**DOWN), away()], "cloud", "spill_unavailable", id="down"),
        pytest.param([gpu(waiting=9), away()], "gpu", "onprem_room", id="its-queue-decides"),
        pytest.param([gpu(), away(predicted_s=5)], "gpu", "latency_critical", id="critical"),
        pytest.param([gpu(), away(**DOWN)], "gpu", "onprem_only", id="cloud-down"),
    ],
)
def test_where_a_clear_call_goes_and_why(
    states: list[EndpointSnapshot], chosen: str, reason: str
) -> None:
    decision = Policy().decide(call(), found("clear"), states)
    assert decision.attempts[0].name == chosen
    assert decision.reason == reason
    assert decision.zones == EVERYWHERE


@pytest.mark.parametrize(
    "states",
    [
        [gpu(), away()],
        [gpu(waiting=50), away()],
        [gpu(price_usd=99.0), away(price_usd=0.0)],
        [gpu(cold=True, **LATE), away()],
        [away(), gpu(), away("cloud2"), gpu("gpu2")],
    ],
)
def test_a_restricted_call_has_nothing_but_gpus_to_go_to(states: list[EndpointSnapshot]) -> None:
    decision = Policy(max_attempts=9).decide(call(), found("restricted"), states)
    assert {e.zone for e in decision.attempts} == {Zone.ONPREM}
    assert decision.zones == ONPREM_ONLY
    assert decision.reason == "restricted"
    clouds = {s.endpoint.name for s in states if s.endpoint.zone is Zone.CLOUD}
    assert {name for name, why in decision.vetoes if why == "restricted"} == clouds


@pytest.mark.parametrize("state", [gpu(**DOWN), gpu(**FULL)])
def test_a_restricted_call_without_a_gpu_is_refused_with_its_reason(
    state: EndpointSnapshot,
) -> None:
    with pytest.raises(OnpremUnavailable) as caught:
        Policy().decide(call(), found("restricted"), [state, away()])
    assert caught.value.retry_after_s


def test_the_built_in_guard_holds_without_any_configured_filter() -> None:
    decision = Policy(filters=()).decide(call(), found("restricted"), [gpu(), away()])
    assert [e.name for e in decision.attempts] == ["gpu"]


def test_the_kill_switch_keeps_every_call_in() -> None:
    off = Policy(spill=False)
    decision = off.decide(call(), found("clear"), [gpu(waiting=50), away()])
    assert [e.name for e in decision.attempts] == ["gpu"]
    assert ("cloud", "spill_off") in decision.vetoes
    with pytest.raises(NoEligibleEndpoint):
        off.decide(call(), found("clear"), [gpu(**DOWN), away()])


def test_a_call_that_may_not_leave_has_no_zone_to_leave_to() -> None:
    decision = Policy().decide(call(zones=ONPREM_ONLY), found("clear"), [gpu(), away()])
    assert decision.zones == ONPREM_ONLY
    assert decision.vetoes == (("cloud", "placement"),)


@pytest.mark.parametrize(
    ("states", "error", "retry_s"),
    [
        ([gpu(**FULL, predicted_s=0.7), away(room=False)], Saturated, 0.7),
        ([gpu(**DOWN), away(**DOWN)], NoEligibleEndpoint, 2.0),
        ([], NoEligibleEndpoint, 2.0),
    ],
)
def test_a_clear_call_without_a_place_is_told_when_to_come_back(
    states: list[EndpointSnapshot], error: type[GatewayError], retry_s: float
) -> None:
    with pytest.raises(error) as caught:
        Policy().decide(call(), found("clear"), states)
    assert caught.value.retry_after_s == retry_s


@pytest.mark.parametrize("budget_s", [0.0, -1.0])
def test_a_call_whose_budget_is_gone_goes_nowhere(budget_s: float) -> None:
    with pytest.raises(DeadlineExceeded):
        Policy().decide(call(budget_s), found("clear"), [gpu(), away()])


@pytest.mark.parametrize("most", [1, 2, 3])
def test_at_most_so_many_endpoints_are_tried(most: int) -> None:
    states = [gpu(f"gpu{i}") for i in range(4)]
    decision = Policy(max_attempts=most).decide(call(), found("clear"), states)
    assert decision.tries == most
    assert len(decision.attempts) == 4


def test_of_two_equal_endpoints_the_sooner_is_first() -> None:
    states = [gpu("later", 0.3), gpu("sooner", 0.1)]
    decision = Policy().decide(call(), found("clear"), states)
    assert [e.name for e in decision.attempts] == ["sooner", "later"]


def test_of_two_clouds_in_time_the_cheaper_is_first() -> None:
    states = [away("dear", price_usd=0.02), away("cheap", price_usd=0.01)]
    decision = Policy().decide(call(), found("clear"), states)
    assert [e.name for e in decision.attempts] == ["cheap", "dear"]


def test_a_cheap_cloud_that_would_miss_the_budget_comes_after_a_dear_one_that_meets_it() -> None:
    states = [away("cheap", predicted_s=9.0, price_usd=0.001), away("dear", price_usd=0.02)]
    decision = Policy(miss_penalty_usd=0.05).decide(call(), found("clear"), states)
    assert decision.attempts[0].name == "dear"


def test_a_call_that_its_queue_sends_away_goes_to_the_cloud_first_and_back_last() -> None:
    states = [gpu(), away("dear", price_usd=0.02), away("cheap", price_usd=0.01)]
    decision = leaving(Policy().decide(call(), found("clear"), states), "spill_deadline")
    assert [e.name for e in decision.attempts] == ["cheap", "dear", "gpu"]
    assert decision.reason == "spill_deadline"


def test_the_decision_says_what_it_saw() -> None:
    decision = Policy().decide(call(), found("clear"), [gpu(), away(**DOWN)])
    assert decision.vetoes == (("cloud", "down"),)
    assert decision.predicted_s == {"gpu": 0.1, "cloud": 0.3}


def test_the_same_state_gives_the_same_decision() -> None:
    states = [gpu(waiting=2), gpu("gpu2"), away()]
    first, second = (Policy().decide(call(), found("clear"), states) for _ in range(2))
    assert first == second
