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
from dataclasses import dataclass, field

from gateway.config import HealthSettings
from gateway.core.deadline import Clock
from gateway.endpoints.health.breaker import Breaker
from gateway.endpoints.health.patience import LatencyFigures, doubt_s
from gateway.endpoints.health.slow_start import SlowStart

_IN_A_ROW = 3  # errors of the model, or slow answers, that raise doubt
_CLEARED_S = 2.0  # a canary that passed clears slow calls for so long
_NEW_NORMAL_S = 60.0  # slow for so long, and steadily, is how fast it now is
_LOOKED_AT_S = 0.1  # at the latest, what is due gets its canary
_UNKNOWN_S = 1.0  # after it was ejected: whether its server has died may not be known for so long


class CanaryCause(enum.Enum):
    """Why a model on an endpoint is asked by a canary."""

    NONE = ""
    SILENT = "silent"
    SLOW = "slow"
    FAILS = "model_fails"
    STALLED = "stalled"


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
    proven: bool = False  # a canary passed here once: from then on canaries decide
    slow_since_s: float | None = None
    usual_s: float = 0.0  # median service time before it became slow
    unanswered_since_s: float | None = None
    heard_count: int = 0
    waiting: dict[object, float] = field(default_factory=dict)  # for an answer, since when
    silent: bool = False  # the last canary was not answered, nor any call since
    stalled: bool = False  # by its server's statistics, calls wait there and none is executed
    hopeful: bool = False  # out, and all that is known since it came up or passed is good
    _cleared_s: float = -math.inf
    _failed: int = 0  # of the model's own errors, in a row
    _slow: int = 0
    _passed: int = 0  # canaries in a row
    _needed: int = 1
    _claimed_s: float = -math.inf
    _asking: bool = False  # a canary is under way
    _ejected_s: float = -math.inf
    _heard_s: float = -math.inf

    def __post_init__(self) -> None:
        self.slow_start = SlowStart(self.clock, self.settings.slow_start_s)
        self._needed = self.settings.canary_passes

    # What calls tell

    def claim(self, who: object, now_s: float) -> None:
        """A call begins to wait for its answer, or for more of it, until it was `heard` or
        `gave_up`."""
        self.waiting[who] = now_s
        if self.unanswered_since_s is None:
            self.unanswered_since_s = now_s

    def heard(self, who: object = None) -> None:
        """Any answer is a sign of life, also one that says no. `who` had waited for it."""
        self.waiting.pop(who, None)
        self._heard_s = now_s = self.clock()
        self.heard_count += 1
        self.silent = False
        self.unanswered_since_s = now_s if self.waiting else None

    def heard_from(self, who: object, now_s: float) -> None:
        """A call has an answer, and waits for more of it."""
        del self.waiting[who]
        self.waiting[who] = self._heard_s = self.unanswered_since_s = now_s
        self.heard_count += 1
        self.silent = False

    def gave_up(self, who: object) -> None:
        """Waits no more, and has heard nothing: the silence goes on."""
        del self.waiting[who]

    def silent_since(self, sent_s: float) -> bool:
        """Whether nobody was answered since a call that was sent then."""
        return self._heard_s <= sent_s

    def served(self, took_s: float, latencies: LatencyFigures) -> None:
        self._failed = 0
        if took_s <= self.settings.slow_ms / 1000:  # as mostly
            self._slow = 0
            return
        # guard: D6.slow-sample minus 1
        slow = latencies.sample >= self.settings.least_sample and took_s > self.slow_s(
            latencies.usual_s
        )
        self._slow = self._slow + 1 if slow else 0

    def model_failed(self) -> None:
        self._failed += 1

    def doubt(self, latencies: LatencyFigures) -> CanaryCause:
        """Reads what calls told; nothing while it is out, or slow already."""
        if not self.proven or self.state != "trusted" or self._resting():
            return CanaryCause.NONE
        if self.stalled:
            return CanaryCause.STALLED
        if self._failed >= _IN_A_ROW:
            return CanaryCause.FAILS
        since_s = self.unanswered_since_s
        if since_s is not None and self.clock() - since_s >= doubt_s(latencies, self.settings):
            return CanaryCause.SILENT
        if self.clock() - self._cleared_s < _CLEARED_S:  # some calls simply take long
            return CanaryCause.NONE
        return CanaryCause.SLOW if self._lags(latencies) else CanaryCause.NONE

    def _lags(self, latencies: LatencyFigures) -> bool:
        """Whether answers come late, or one that is awaited is late already."""
        waited_s = self.clock() - next(iter(self.waiting.values()), math.inf)
        most_s = max(doubt_s(latencies, self.settings), self.slow_s(latencies.usual_s))
        return self._slow >= _IN_A_ROW or waited_s >= most_s

    def slow_s(self, usual_s: float) -> float:
        return max(self.settings.slow_ms / 1000, self.settings.slow_factor * usual_s)

    # What canaries tell

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
            return self._passes(took_s > self.slow_s(self.usual_s or latencies.usual_s), latencies)
        self._passed = 0
        self.silent = answer is CanaryResult.LATE
        if not self.breaker.closed:
            return HealthChange.NOTHING
        alone = self._heard_s < self._claimed_s  # nobody else was answered meanwhile either
        # guard: S8.stall-ejection minus 3
        doubted = alone and (self.stalled or self.slow_since_s is not None)
        if answer is CanaryResult.BAD or doubted:
            return self._eject()
        if self.slow_since_s is None and (alone or self._slow or self._lags(latencies)):
            return self._slows(latencies)
        return HealthChange.NOTHING

    def prove(self) -> None:
        """A canary passed here: from now on canaries decide."""
        self.proven = self.breaker.by_canary = True
        if not self.breaker.closed:
            self._come_back()

    def _passes(self, slowly: bool, latencies: LatencyFigures) -> HealthChange:
        self.heard()
        if self.state == "trusted":
            if slowly:
                return self._slows(latencies)
            self._forget()
            return HealthChange.NOTHING
        steady = self.slow_since_s is not None and self._slow_for_s() > _NEW_NORMAL_S
        if slowly and self.breaker.closed and not steady:  # guard: S1.recovered-speed
            self._passed = 0
            return HealthChange.NOTHING
        self._passed += 1
        if self._passed < self._needed:  # guard: S1.canary-streak
            return HealthChange.NOTHING
        self._come_back()
        return self._slows(latencies) if slowly and not steady else HealthChange.BACK

    def _come_back(self) -> None:
        self._forget()
        self._passed, self._needed, self.hopeful = 0, self.settings.canary_passes, False
        self.slow_since_s, self.usual_s = None, 0.0
        self.breaker.restore()
        self.slow_start.begin()

    def _forget(self) -> None:
        self._cleared_s = self.clock()
        self.stalled, self._failed, self._slow = False, 0, 0

    def _eject(self) -> HealthChange:
        return HealthChange.EJECTED if self.open() else HealthChange.NOTHING

    def _slows(self, latencies: LatencyFigures) -> HealthChange:
        self.slow_since_s, self.usual_s = self.clock(), latencies.usual_s
        self._passed = 0
        return HealthChange.SLOWED

    def _slow_for_s(self) -> float:
        return self.clock() - (self.slow_since_s or 0.0)

    # What the gateway does

    def open(self) -> bool:
        """Eject it now. True where it was not out."""
        self._forget()
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
        self._forget()
        # guard: A6.canary-wait (False, True) -> (False, False)
        self.silent, self.hopeful = False, True
        self.slow_since_s = self.unanswered_since_s = None

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
