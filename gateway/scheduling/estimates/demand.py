"""How much of the capacity arrivals ask for, by what they are worth per second of GPU.

A waiting call will be overtaken by dearer ones that have not arrived yet. If these lately took the
share r of the capacity, then 1 - r is left for it and its wait is stretched by 1 / (1 - r), as that
of a lower class in a queue with priorities. Restricted calls cannot be served elsewhere, so they
are worth more than clear ones of their urgency, and it is mostly for them that this reserves.
While everybody together asks for less than there is, nothing needs to be reserved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log2
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CLASSES: Final = 64
_MIDDLE: Final = _CLASSES // 2
_PER_OCTAVE: Final = 3
_NEVER_S: Final = -math.inf
_MOST: Final = 0.95  # of the capacity: something is left for everybody
_SCARCE: Final = 0.3  # above the capacity: so much is asked for when all of the reserve counts
_PLENTY: Final = 0.999  # of the capacity is asked for at most: all calls wait alike
_FADED_AT: Final = 32.0  # memories: e ** 32 is no large number yet
_REDRAWN: Final = 1 / 24  # of the memory: how long a drawing is good enough


@dataclass(frozen=True, slots=True)
class WaitStretch:
    """By class: how many times longer a call will wait than the calls ahead of it explain."""

    many: NDArray[np.float64]
    few: list[float]  # the same


@lru_cache(maxsize=16)
def _unreserved(margin: float) -> WaitStretch:
    return WaitStretch(np.full(_CLASSES, margin), [margin] * _CLASSES)


class Demand:
    __slots__ = ("_aged", "_anchor", "_drawn_s", "_last_s", "_offered", "_stretch")

    def __init__(self) -> None:
        self._offered = [0.0] * _CLASSES  # GPU seconds per second, times e ** _aged
        self._aged = 0.0  # memories that have passed since all of them were faded
        self._last_s = -math.inf  # time of the last arrival
        self._anchor: float | None = None  # log2 of the first density: the middle of the classes
        self._stretch = WaitStretch(np.ones(_CLASSES), [1.0] * _CLASSES)
        self._drawn_s = -math.inf

    def density_class(self, density: float) -> int:
        """Which of the classes a call belongs to that is worth so much per second of GPU."""
        if density <= 0.0:
            return 0
        octaves = log2(density)
        if self._anchor is None:
            self._anchor = octaves
        place = _MIDDLE + math.floor((octaves - self._anchor) * _PER_OCTAVE)
        return place if 0 < place < _CLASSES else 0 if place <= 0 else _CLASSES - 1

    def arrived(self, density_class: int, gpu_s: float, now_s: float, memory_s: float) -> None:
        aged = self._aged
        if self._last_s > _NEVER_S:
            aged += (now_s - self._last_s) / memory_s
            if aged > _FADED_AT:
                fade = exp(-aged)
                self._offered = [offered * fade for offered in self._offered]
                aged = 0.0
        self._offered[density_class] += gpu_s / memory_s * exp(aged)
        self._aged, self._last_s = aged, now_s

    def share_above(self, density_class: int, servers: int) -> float:
        """The share of so many servers' capacity that dearer classes took lately."""
        return sum(self._offered[density_class + 1 :]) * exp(-self._aged) / servers

    def stretch(
        self, servers: int, reserve: float, margin: float, now_s: float, memory_s: float
    ) -> WaitStretch:
        if now_s - self._drawn_s > memory_s * _REDRAWN:
            self._drawn_s = now_s
            fade = exp((self._last_s - now_s) / memory_s - self._aged) / servers
            if sum(self._offered) * fade < _PLENTY:
                self._stretch = _unreserved(margin)
                return self._stretch
            up_to = np.cumsum(self._offered) * fade
            requested = float(up_to[-1])
            scarce = min(max((requested - 1.0) / _SCARCE, 0.0), 1.0)
            above = requested - up_to
            above *= reserve * scarce
            many = margin / (1.0 - np.minimum(above, _MOST))
            self._stretch = WaitStretch(many, many.tolist())
        return self._stretch
