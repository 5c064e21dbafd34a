"""What the modelled cloud suffers: a limit on calls at once, outages, slow spells.

Times are seconds of the simulation, from the first arrival.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from gateway.simulate.workload import Workload, alternatives


@dataclass(frozen=True, slots=True)
class OutagePeriod:
    """Every inference fails, or hangs. The health probe goes on passing: the harder case, which the
    calls alone can tell."""

    from_s: float
    to_s: float
    hangs: bool = False

    def holds(self, now_s: float) -> bool:
        return self.from_s <= now_s < self.to_s


@dataclass(frozen=True, slots=True)
class SlowSpell:
    """Calls that are sent in this time take so many times longer."""

    from_s: float
    to_s: float
    factor: float

    def holds(self, now_s: float) -> bool:
        return self.from_s <= now_s < self.to_s


@dataclass(frozen=True, slots=True)
class Weather:
    limit: int | None = None  # calls at once; one more gets 429
    retry_after_s: float = 1.0  # what the 429 says
    outages: tuple[OutagePeriod, ...] = ()
    slow: tuple[SlowSpell, ...] = ()

    @property
    def fair(self) -> bool:
        return self.limit is None and not self.outages and not self.slow

    @property
    def spans(self) -> list[tuple[float, float]]:
        """When something was wrong with it."""
        outages = [(outage.from_s, outage.to_s) for outage in self.outages]
        return outages + [(spell.from_s, spell.to_s) for spell in self.slow]

    def outage(self, now_s: float) -> OutagePeriod | None:
        return next((outage for outage in self.outages if outage.holds(now_s)), None)

    def factor(self, now_s: float) -> float:
        return next((spell.factor for spell in self.slow if spell.holds(now_s)), 1.0)


def known_ahead(calls: Workload, weather: Weather) -> Workload:
    """The same calls, each with what it costs not to serve it here for somebody who knows the
    weather: in an outage that outlasts its budget the cloud is no alternative."""
    due_s = calls.arrive_s + calls.budget_s
    least = calls.alternative
    for spell in weather.slow:
        inside = _within(calls.arrive_s, due_s, [spell])
        slower = alternatives(replace(calls, budget_s=calls.budget_s / spell.factor))
        least = np.where(inside, np.maximum(least, slower), least)
    out = _within(calls.arrive_s, due_s, weather.outages)
    return replace(calls, alternative=np.where(out, calls.penalty, least))


def _within(
    from_s: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    to_s: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    spells: Iterable[OutagePeriod | SlowSpell],
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    mask = np.zeros(len(from_s), dtype=np.bool_)
    for spell in spells:
        mask |= (from_s >= spell.from_s) & (to_s <= spell.to_s)
    return mask
