"""The trust in one model on one endpoint: what calls tell of it, and what follows.

Four states. *Trusted*: calls go there. *Doubted*: they still do, and a canary is sent. *Slow*: it
answers, many times later than usual: only calls with no other place go there. *Ejected*: none does.
Errors that are the endpoint's own eject by themselves (`breaker`); silence, slowness and the
model's own errors, which may be the callers' fault, only raise doubt, and the canary decides.

What was ejected comes back by canaries alone, so many in a row, after a dwell; where there is no
canary, by one real call (half-open). Then its window opens by degrees.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.config import HealthSettings
from gateway.core.deadline import Clock
from gateway.endpoints.health.answers import AwaitedAnswers
from gateway.endpoints.health.breaker import Breaker, unwatched
from gateway.endpoints.health.doubts import CanaryCause, Doubts
from gateway.endpoints.health.patience import LatencyFigures
from gateway.endpoints.health.slow_start import SlowStart

_NEW_NORMAL_S = 60.0  # slow for so long, and steadily, is how fast it now is
_LOOKED_AT_S = 0.1  # at the latest, what is due gets its canary
_UNKNOWN_S = 1.0  # after it was ejected: whether its server has died may not be known for so long


class CanaryResult(enum.Enum):
    """What came of a canary."""

    GOOD = "passed"
    LATE = "late"  # nothing in time
    BAD = "failed"


class HealthChange(enum.Enum):
    """What changed by a canary's answer."""

    NOTHING = ""
    EJECTED = "ejected"
    SLOWED = "slow"
    BACK = "back"


@dataclass(slots=True)
class ModelHealth:
    clock: Clock
    settings: HealthSettings
    breaker: Breaker
    slow_start: SlowStart = field(init=False)
    answers: AwaitedAnswers = field(init=False)
    doubts: Doubts = field(init=False)
    proven: bool = False  # a canary passed here once: from then on canaries decide
    slow_since_s: float | None = None
    usual_s: float = 0.0  # median service time before it became slow
    changed: Callable[[], None] = unwatched
    """Called when it has become slow, or is slow no more. Its breaker and its slow start have
    their own."""
    hopeful: bool = False  # out, and all that is known since it came up or passed is good
    _passed: int = 0  # canaries in a row
    _needed: int = 1
    _claimed_s: float = -math.inf
    _asking: bool = False  # a canary is under way
    _ejected_s: float = -math.inf

    def __post_init__(self) -> None:
        self.slow_start = SlowStart(self.clock, self.settings.slow_start_s)
        self.answers = AwaitedAnswers(self.clock)
        self.doubts = Doubts(self.clock, self.settings, self.answers)
        self._needed = self.settings.canary_passes

    # What canaries tell

    def doubt(self, latencies: LatencyFigures) -> CanaryCause:
        """Reads what calls told; nothing while it is out, or slow already."""
        if not self.proven or self.state != "trusted" or self._resting():
            return CanaryCause.NONE
        return self.doubts.cause(latencies)

    def due(self) -> bool:
        """Whether a canary should go to a model that is out or slow."""
        out = not self.breaker.closed or self.slow_since_s is not None
        return out and self.proven and self.breaker.dwelt and not self._resting()

    def _resting(self) -> bool:
        return self.clock() - self._claimed_s < self.settings.canary_s

    def asking(self) -> None:
        self._claimed_s, self._asking = self.clock(), True

    def observe(
        self, answer: CanaryResult, took_s: float, latencies: LatencyFigures
    ) -> HealthChange:
        """What a canary that was sent after `asking` met. State changes here alone."""
        self._asking = False
        self.hopeful = answer is CanaryResult.GOOD and not self.breaker.closed
        if answer is CanaryResult.GOOD:
            return self._passes(
                took_s > self.doubts.slow_s(self.usual_s or latencies.usual_s), latencies
            )
        self._passed = 0
        self.answers.silent = answer is CanaryResult.LATE
        if not self.breaker.closed:
            return HealthChange.NOTHING
        alone = self.answers.heard_s < self._claimed_s  # nobody else was answered meanwhile either
        # guard: S8.stall-ejection minus 3
        doubted = alone and (self.doubts.stalled or self.slow_since_s is not None)
        if answer is CanaryResult.BAD or doubted:
            return HealthChange.EJECTED if self.open() else HealthChange.NOTHING
        if self.slow_since_s is None and (
            alone or self.doubts.slow_calls or self.doubts.lags(latencies)
        ):
            return self._slows(latencies)
        return HealthChange.NOTHING

    def prove(self) -> None:
        """A canary passed here: from now on canaries decide."""
        self.proven = self.breaker.by_canary = True
        if not self.breaker.closed:
            self._come_back()

    def _passes(self, slowly: bool, latencies: LatencyFigures) -> HealthChange:
        self.answers.heard()
        if self.state == "trusted":
            if slowly:
                return self._slows(latencies)
            self.doubts.clear()
            return HealthChange.NOTHING
        since_s = self.slow_since_s
        steady = since_s is not None and self.clock() - since_s > _NEW_NORMAL_S
        if slowly and self.breaker.closed and not steady:  # guard: S1.recovered-speed
            self._passed = 0
            return HealthChange.NOTHING
        self._passed += 1
        if self._passed < self._needed:  # guard: S1.canary-streak
            return HealthChange.NOTHING
        self._come_back()
        return self._slows(latencies) if slowly and not steady else HealthChange.BACK

    def _come_back(self) -> None:
        self.doubts.clear()
        self._passed, self._needed, self.hopeful = 0, self.settings.canary_passes, False
        self.slow_since_s, self.usual_s = None, 0.0
        self.breaker.restore()
        self.slow_start.begin()

    def _slows(self, latencies: LatencyFigures) -> HealthChange:
        self.slow_since_s, self.usual_s = self.clock(), latencies.usual_s
        self._passed = 0
        self.changed()  # guard: S11.slow-change
        return HealthChange.SLOWED

    # What the gateway does

    def open(self) -> bool:
        """Eject it now. True where it was not out."""
        self.doubts.clear()
        self._passed, self.slow_since_s = 0, None
        return self.failed(self.breaker.epoch, at_once=True)

    def failed(self, epoch: int, *, at_once: bool) -> bool:
        """An error that is the endpoint's own. True where it is out by that."""
        self.hopeful = self.hopeful and epoch != self.breaker.epoch
        out = self.breaker.failed(epoch, at_once)
        if out:
            self._ejected_s = self.clock()
        return out

    def put_out(self) -> None:
        """Its endpoint went down. It comes back by one canary, as soon as the endpoint is up."""
        self.breaker.put_out()
        self._needed, self._passed, self.hopeful = 1, 0, False

    def server_up(self) -> None:
        """Its endpoint started anew: no dwell, and what was slow before is no news."""
        self.breaker.rest_no_longer()
        self._claimed_s = -math.inf
        self.doubts.clear()
        self.answers.forget_silence()
        self.hopeful = True  # guard: A6.canary-wait True -> False
        self.slow_since_s = None
        self.changed()  # guard: S11.slow-change

    def out_for_s(self) -> float | None:
        """Seconds until it could be back at the soonest; None while it is in."""
        if self.breaker.closed:
            return None
        dwell_s = max(0.0, self.breaker.open_until_s - self.clock())
        return dwell_s + (self._needed * self.settings.canary_s if self.proven else 0.0)

    def back_in_s(self, usual_s: float) -> float | None:
        """Seconds until it is likely to be back; None: it is in, or nothing speaks for it yet. Just
        after it was ejected nobody knows why: a server that died and starts again is told later
        than its connections broke, and who waits for it should not be refused meanwhile."""
        if self.breaker.closed:
            return None
        if self.clock() - self._ejected_s < _UNKNOWN_S:
            return usual_s + self.settings.canary_s
        if not self.hopeful or not self.breaker.dwelt:
            return None
        if not self.proven:
            return usual_s
        due_s = self._claimed_s + self.settings.canary_s - self.clock()
        next_s = 0.0 if self._asking else max(_LOOKED_AT_S, due_s)
        return next_s + usual_s + (self._needed - self._passed - 1) * self.settings.canary_s

    @property
    def state(self) -> str:
        if not self.breaker.closed:
            return "ejected"
        return "slow" if self.slow_since_s is not None else "trusted"
