"""One live call beside what each shadow makes of it, and the sums of that.

Of the live side counts what happened, of a shadow what is predicted: for both, P(late) is what a
budget missed counts on average. A call that its caller gave up, or that turned out to be another
than the shadows were asked about, is not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.accounting.metrics import Metrics
from gateway.core.types import (
    CLOUD_ONLY,
    Classification,
    Decision,
    EndpointSnapshot,
    InferenceRequest,
    Outcome,
    Zone,
)

REFUSED: Final = "refused"
PENDING: Final = "shadow_pending"
SKIPPED: Final = "shadow_skipped"
FAILED: Final = "shadow_failed"
_COMPARABLE: Final = (Outcome.SERVED, Outcome.EXPIRED, Outcome.SHED)
"""Ends that say something of the decision. An endpoint's failure is nobody's choice."""


@dataclass(slots=True)
class ShadowPlacement:
    """Where a shadow has a call. `zone` is the name of one, 'refused' or, while nothing is known,
    empty."""

    zone: str = ""
    reason: str = PENDING
    final: bool = False  # it has left its queue
    missed: float = 0.0  # the predicted chance that its budget is
    usd: float = 0.0  # expected price in the cloud
    onprem: bool = False  # of its zone


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """What the live decision is made on."""

    request: InferenceRequest
    classification: Classification
    states: tuple[EndpointSnapshot, ...]
    at_s: float


@dataclass(frozen=True, slots=True)
class _Live:
    zone: str
    comparable: bool
    missed: float
    usd: float


@dataclass(slots=True)
class ShadowTally:
    """Of one shadow, since the gateway started."""

    name: str
    metrics: Metrics
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)  # live zone, its zone
    missed: dict[str, float] = field(default_factory=lambda: {"live": 0.0, "shadow": 0.0})
    usd: dict[str, float] = field(default_factory=lambda: {"live": 0.0, "shadow": 0.0})
    errors: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def compared(self, live: _Live, shadow: ShadowPlacement) -> None:
        metrics, name = self.metrics, self.name
        self.decisions[live.zone, shadow.zone] += 1
        metrics.shadow_decisions.labels(name, live.zone, shadow.zone).inc()
        if not live.comparable:
            return
        for side, one in (("live", live), ("shadow", shadow)):
            self.missed[side] += one.missed
            self.usd[side] += one.usd
            metrics.shadow_misses.labels(name, side).inc(one.missed)
            metrics.shadow_usd.labels(name, side).inc(one.usd)

    def failed(self) -> None:
        self.errors += 1
        self.metrics.shadow_errors.labels(self.name).inc()

    def skips(self) -> None:
        self.skipped += 1
        self.metrics.shadow_skipped.labels(self.name).inc()

    def took(self, seconds: float) -> None:
        self.seconds += seconds
        self.metrics.shadow_seconds.labels(self.name).inc(seconds)

    def report(self) -> dict[str, object]:
        calls = self.decisions.total()
        same = sum(n for (live, shadow), n in self.decisions.items() if live == shadow)
        return {
            "shadow": self.name,
            "compared": calls,
            "differ": calls - same,
            "decisions": [
                {"live_zone": live, "shadow_zone": shadow, "calls": n}
                for (live, shadow), n in sorted(self.decisions.items())
            ],
            "missed": {side: round(n, 2) for side, n in self.missed.items()},
            "cloud_usd": {side: round(usd, 6) for side, usd in self.usd.items()},
            "errors": self.errors,
            "skipped": self.skipped,
            "seconds": round(self.seconds, 3),
        }


class ShadowedCall:
    """One live call. Its account holds it, and tells it how the call ended."""

    def __init__(
        self, tallies: Mapping[str, ShadowTally], ask: Callable[[ShadowedCall], None],
        left: Callable[[ShadowedCall], None],
    ) -> None:  # fmt: skip
        """`ask` lets the shadows decide that have not yet; `left` takes the call from them."""
        self._tallies = tallies
        self._policies = ask
        self._left = left
        self.placings = {name: ShadowPlacement() for name in tallies}
        self.inputs: DecisionInputs | None = None  # until the shadows have been asked
        self._admitted = CLOUD_ONLY
        self._prices: dict[str, float] = {}
        self._live: _Live | None = None

    def sees(self, inputs: DecisionInputs) -> None:
        """Again when it is decided on anew: what came of the first time holds no longer, unless it
        is being served on the premises, where anything may be."""
        self.inputs = inputs
        self._admitted = inputs.classification.admitted
        self._prices = {s.endpoint.name: s.price_usd for s in inputs.states}
        for name, placing in self.placings.items():
            if not served_onprem(placing):
                self.placings[name] = ShadowPlacement()

    def decisions(self, admitted: frozenset[Zone]) -> dict[str, dict[str, str | None]]:
        """For the record: where each shadow has the call by now, and why."""
        if self.inputs is not None:
            self._policies(self)
        if self._other(admitted):
            return {}
        return {
            name: {"zone": placing.zone or None, "reason": placing.reason}
            for name, placing in self.placings.items()
        }

    def ended(
        self,
        outcome: Outcome,
        decision: Decision | None,
        tried: bool,
        late: bool,
        admitted: frozenset[Zone],
    ) -> None:
        """`tried`: an endpoint was sent the call. `late`: after its budget."""
        if self.inputs is not None:
            self._policies(self)
        # guard: O4.departed-call minus 1
        if outcome is Outcome.CANCELLED or self._other(admitted):
            self._left(self)
            return
        first = decision.attempts[0] if tried and decision is not None else None
        cloud = first is not None and not first.zone.onprem
        self._live = _Live(
            zone=REFUSED if first is None else first.zone.name,
            comparable=outcome in _COMPARABLE,
            missed=1.0 if late or outcome is not Outcome.SERVED else 0.0,
            usd=self._prices.get(first.name, 0.0) if cloud and first is not None else 0.0,
        )
        for name in self.placings:
            self.knows(name)

    def knows(self, name: str) -> None:
        """Count it once both sides are known."""
        placing = self.placings[name]
        if self._live is not None and placing.final:
            self._tallies[name].compared(self._live, placing)

    def _other(self, admitted: frozenset[Zone]) -> bool:
        """It has turned out that fewer zones admit it, since the shadows were asked about it."""
        return not self._admitted <= admitted  # guard: O4.restricted-silence -> return False


def served_onprem(placing: ShadowPlacement) -> bool:
    return placing.final and placing.onprem
