"""A lane's health on a clock that is set by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.config import HealthSettings
from gateway.endpoints.health.breaker import Breaker
from gateway.endpoints.health.model_health import ModelHealth
from tests.unit.spill.clock import HandClock


class Known(NamedTuple):
    """Figures that a test makes up."""

    usual_s: float
    high_s: float
    sample: int


WARM = Known(usual_s=0.02, high_s=0.05, sample=50)
COLD = Known(usual_s=0.1, high_s=0.1, sample=0)


@dataclass
class Bed:
    """A model that has passed a canary once."""

    clock: HandClock = field(default_factory=HandClock)
    settings: HealthSettings = field(default_factory=HealthSettings)
    proven: bool = True

    def __post_init__(self) -> None:
        breaker = Breaker(self.clock, dwell_s=self.settings.dwell_s)
        self.health = ModelHealth(self.clock, self.settings, breaker)
        if self.proven:
            self.health.prove()

    def asks(self) -> object:
        """A call, which begins to wait."""
        waiting = object()
        self.health.answers.claim(waiting, self.clock())
        return waiting
