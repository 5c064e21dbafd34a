"""How likely an endpoint is late, and what that costs."""

from __future__ import annotations

import pytest

from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import (
    DocumentCall,
    Endpoint,
    EndpointSnapshot,
    InferenceRequest,
    ServedModel,
    WireProtocol,
    Zone,
)
from gateway.scheduling.routing.scorers import expected_cost_usd, late_probability


def call(left_s: float) -> InferenceRequest:
    return InferenceRequest(
        "id", WireProtocol.OPENAI, "t", "m", DocumentCall(CHAT, {}),
        Deadline(left_s, lambda: 0.0),
    )  # fmt: skip


def state(predicted_s: float = 2.0, p50_s: float = 1.0, waiting: int = 0) -> EndpointSnapshot:
    return EndpointSnapshot(
        Endpoint("e", Zone.CLOUD, "openai"), ServedModel("m"), True,
        predicted_s=predicted_s, p50_s=p50_s, waiting=waiting, price_usd=0.25,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("left_s", "margin", "likely"),
    [
        (3.0, 1.0, 0.0), (2.0, 1.0, 0.0), (1.5, 1.0, 0.5), (1.25, 1.0, 0.75), (1.0, 1.0, 1.0),
        (0.5, 1.0, 1.0), (-1.0, 1.0, 1.0), (2.0, 1.5, 0.5), (3.0, 1.5, 0.0),
    ],
)  # fmt: skip
def test_lateness_grows_from_the_prediction_down_to_the_median(
    left_s: float, margin: float, likely: float
) -> None:
    assert late_probability(call(left_s), state(), margin) == pytest.approx(likely)


@pytest.mark.parametrize(("left_s", "likely"), [(2.0, 0.0), (1.9, 1.0)])
def test_behind_a_queue_the_wait_is_certain_and_not_a_tail(left_s: float, likely: float) -> None:
    assert late_probability(call(left_s), state(waiting=5), 1.0) == likely


def test_lateness_is_a_probability_and_never_grows_with_the_budget() -> None:
    budgets = [i / 20 for i in range(100)]
    likely = [late_probability(call(s), state(), 1.2) for s in budgets]
    assert all(0.0 <= p <= 1.0 for p in likely)
    assert likely == sorted(likely, reverse=True)


@pytest.mark.parametrize(("left_s", "usd"), [(3.0, 0.25), (1.5, 0.75), (0.5, 1.25)])
def test_a_missed_budget_costs_its_penalty(left_s: float, usd: float) -> None:
    assert expected_cost_usd(call(left_s), state(), 1.0, 1.0) == pytest.approx(usd)
