"""How long an endpoint may stay silent, from what its own answers took.

Limits that are independent of any caller's deadline. After `doubt_s` without any answer the model
there is doubted and asked by a canary: cheap, so it may be wrong. After `give_up_s` a try is given
up and counts as a failure: generous, for it may not be wrong. Once an answer has begun, nobody else
can go on with it: a stream is given up after `idle_s` between two frames, and after `parting_s` if
its endpoint has gone out, which may only mean that it ends what it has.
"""

from __future__ import annotations

from typing import Protocol

from gateway.config import HealthSettings
from gateway.core.operations.tokens import stated
from gateway.core.types import DocumentCall, InferenceRequest

_DOUBT_FACTOR = 4.0
_PARTING_FACTOR = 4.0
_PARTING_S = 1.0  # at the least: frames come in bursts
_COLD_FACTOR = 6.0  # a first inference may load libraries, or build an engine
_UNSTATED_TOKENS = 4096
_MOST_TOKENS = 1 << 20


class Spread(Protocol):
    """What is known of service times: a high quantile of `sample` answers, or the settings'
    expectation while there are none."""

    @property
    def high_s(self) -> float: ...
    @property
    def sample(self) -> int: ...


class LatencyFigures(Spread, Protocol):
    """And the median."""

    @property
    def usual_s(self) -> float: ...


def doubt_s(latencies: LatencyFigures, settings: HealthSettings) -> float:
    """Seconds without any answer after which a model is asked by a canary."""
    return max(_floor_s(settings.doubt_ms, latencies, settings), _DOUBT_FACTOR * latencies.high_s)


def give_up_s(spread: Spread, settings: HealthSettings, request: InferenceRequest) -> float:
    """Seconds that one try may wait for its answer to begin: `response_floor_ms` at the least."""
    floor_s = _floor_s(settings.response_floor_ms, spread, settings)
    base_s = max(floor_s, settings.response_factor * spread.high_s)
    return base_s + _tokens(request) * settings.response_per_token_ms / 1000


def idle_s(gap_s: float, settings: HealthSettings) -> float:
    """Seconds between two frames of a stream after which it is given up; `gap_s` is a high quantile
    of those that were seen."""
    # guard: A5.frame-patience -> return settings.stream_idle_s
    return max(settings.stream_idle_s, settings.response_factor * gap_s)


def parting_s(gap_s: float) -> float:
    """The same, where its endpoint has gone out."""
    return max(_PARTING_S, _PARTING_FACTOR * gap_s)


def _floor_s(floor_ms: float, spread: Spread, settings: HealthSettings) -> float:
    cold = spread.sample < settings.least_sample
    # guard: D6.unknown-patience -> return floor_ms / 1000 * 1.0
    return floor_ms / 1000 * (_COLD_FACTOR if cold else 1.0)


def _tokens(request: InferenceRequest) -> int:
    """That may be written before the answer begins: none where it streams."""
    call = request.payload
    if not isinstance(call, DocumentCall) or call.streamed or not call.operation.writes:
        return 0
    return min(stated(call.document), _MOST_TOKENS) or _UNSTATED_TOKENS
