"""What calls tell against a model on an endpoint, short of what ejects it by itself."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from gateway.config import HealthSettings
from gateway.core.deadline import Clock
from gateway.endpoints.health.answers import AwaitedAnswers
from gateway.endpoints.health.patience import LatencyFigures, doubt_s

_IN_A_ROW = 3  # errors of the model, or slow answers, that raise doubt
_CLEARED_S = 2.0  # a canary that passed clears slow calls for so long


class CanaryCause(enum.Enum):
    """Why a model on an endpoint is asked by a canary."""

    NONE = ""
    SILENT = "silent"
    SLOW = "slow"
    FAILS = "model_fails"
    STALLED = "stalled"


@dataclass(slots=True)
class Doubts:
    clock: Clock
    settings: HealthSettings
    answers: AwaitedAnswers
    stalled: bool = False  # by its server's statistics, calls wait there and none is executed
    slow_calls: int = 0  # in a row
    _failed: int = 0  # of the model's own errors, in a row
    _cleared_s: float = -math.inf

    def served(self, took_s: float, latencies: LatencyFigures) -> None:
        self._failed = 0
        if took_s <= self.settings.slow_ms / 1000:  # as mostly
            self.slow_calls = 0
            return
        # guard: D6.slow-sample minus 1
        slow = latencies.sample >= self.settings.least_sample and took_s > self.slow_s(
            latencies.usual_s
        )
        self.slow_calls = self.slow_calls + 1 if slow else 0

    def model_failed(self) -> None:
        self._failed += 1

    def cause(self, latencies: LatencyFigures) -> CanaryCause:
        if self.stalled:
            return CanaryCause.STALLED
        if self._failed >= _IN_A_ROW:
            return CanaryCause.FAILS
        since_s = self.answers.unanswered_since_s
        if since_s is not None and self.clock() - since_s >= doubt_s(latencies, self.settings):
            return CanaryCause.SILENT
        if self.clock() - self._cleared_s < _CLEARED_S:  # some calls simply take long
            return CanaryCause.NONE
        return CanaryCause.SLOW if self.lags(latencies) else CanaryCause.NONE

    def lags(self, latencies: LatencyFigures) -> bool:
        """Whether answers come late, or one that is awaited is late already."""
        most_s = max(doubt_s(latencies, self.settings), self.slow_s(latencies.usual_s))
        return self.slow_calls >= _IN_A_ROW or self.answers.longest_wait_s() >= most_s

    def slow_s(self, usual_s: float) -> float:
        """Seconds over which a service time is slow."""
        return max(self.settings.slow_ms / 1000, self.settings.slow_factor * usual_s)

    def clear(self) -> None:
        self._cleared_s = self.clock()
        self.stalled, self._failed, self.slow_calls = False, 0, 0
