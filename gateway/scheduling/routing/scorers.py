"""What an endpoint would cost a call: its price, and the penalty of a budget that it may miss."""

from __future__ import annotations

from typing import Protocol

from gateway.core.types import Endpoint, InferenceRequest


class Forecast(Protocol):
    """What ranks an endpoint that may serve a call: see `EndpointSnapshot`."""

    @property
    def endpoint(self) -> Endpoint: ...
    @property
    def price_usd(self) -> float: ...
    @property
    def predicted_s(self) -> float: ...
    @property
    def p50_s(self) -> float: ...
    @property
    def waiting(self) -> int: ...


def late_probability(request: InferenceRequest, state: Forecast, margin: float) -> float:
    """How likely the answer comes after the deadline, in [0, 1].

    Reads the predicted completion (seconds, a high quantile) and the median service time; 0 when
    the prediction times `margin` fits into what is left of the budget, 1 when not even the median
    does, linear in between.
    """
    left_s, p50_s = request.deadline.remaining_s(), state.p50_s
    high_s = state.predicted_s * margin
    if high_s < p50_s:
        high_s = p50_s
    if left_s >= high_s:
        return 0.0
    low_s = p50_s + (state.predicted_s - p50_s if state.waiting else 0.0)
    if left_s <= low_s or high_s <= low_s:
        return 1.0
    return (high_s - left_s) / (high_s - low_s)


def expected_cost_usd(
    request: InferenceRequest, state: Forecast, margin: float, miss_penalty_usd: float
) -> float:
    """price + P(late) * penalty, in US dollars of one call."""
    return state.price_usd + late_probability(request, state, margin) * miss_penalty_usd
