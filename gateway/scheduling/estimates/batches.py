"""How long a server takes for a batch: `a + b * work`, learnt from its last batches.

Fitted by least squares with weights that fade, so that a model that is reloaded or a clock that
drops is followed within a few dozen batches. An estimate that is too low is far dearer than one
that is too high (simulated: 0.8 times the truth doubles the regret and worse, 1.1 times costs a
tenth of it), so a prediction is never below the measured median, and a cold model is cautious.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_FADE = 0.98  # per batch: the last 50 count
_WINDOW = 64  # batches over which the median is taken
_COLD = 8  # fewer batches than this prove nothing
_COLD_CAUTION = 1.3
_LONGER = 1.5  # times as long as it has lasted is what a batch is taken to last that nobody awaited
_MOST_SLOWER = 64.0
_SPREADS = 3.0  # sigmas over what is predicted: so long some batches of a server as usual last
_SIGMA_PER_MAD = 1.4826  # of a normal distribution
_FIXED, _PER_WORK = slice(0, 1), slice(1, 2)  # of an array: numpy is slower to take a number


@dataclass(frozen=True, slots=True)
class BatchError:
    """How far the predictions of the last batches were off, as shares of their time together: an
    answer that is seen late makes one batch seem long and the next one short."""

    mean: float  # above 0: predicted longer than measured
    absolute: float
    batches: int


class BatchModel:
    """Seconds of one batch on one server, by the sum of its calls' work."""

    def __init__(self, fixed_s: float, per_work_s: float, fits_every: int = 1) -> None:
        """What is expected until batches have been seen. `fits_every`: so many batches, once the
        window is full of them."""
        if not (fixed_s >= 0 and per_work_s >= 0 and fixed_s + per_work_s > 0):
            raise ValueError("a batch takes time")
        self._prior_a, self._prior_b = fixed_s, per_work_s
        self._fits_every = fits_every
        self._n = self._w = self._t = self._ww = self._wt = 0.0
        self._observed = 0
        self._recent = _Recent()
        self._predictions: deque[tuple[float, float]] = deque(maxlen=_WINDOW)  # predicted, measured
        self._sigma_s: float | None = 0.0  # None: nobody has asked since the last batch
        self._mean_s, self._middle = 0.0, 1.0  # of the last batches' times; of their ratios
        self.slower = 1.0
        """Times as long as batches usually take is what they are taken to last now: raised by those
        that nobody awaited any more, until one is answered again."""
        self.fixed_s = fixed_s * _COLD_CAUTION
        self.per_work_s = per_work_s * _COLD_CAUTION

    def __deepcopy__(self, memo: object) -> BatchModel:
        return self  # what is measured is nobody's own

    @property
    def cold(self) -> bool:
        return self._observed < _COLD

    @property
    def error(self) -> BatchError:
        if not self._predictions:
            return BatchError(0.0, 0.0, 0)
        took_s = sum(took for _, took in self._predictions)
        off = [predicted - took for predicted, took in self._predictions]
        return BatchError(sum(off) / took_s, sum(map(abs, off)) / took_s, self._observed)

    @property
    def batches(self) -> int:
        """That it has been told of."""
        return self._observed

    def off(self, back: int) -> float:
        """What the batch so many before the last took, over what would be predicted for it now; 1
        when there was none. It goes round among the last ones."""
        if not self._observed:
            return 1.0
        work, took_s = self._recent.last(back)
        return took_s / self.predict_s(work)

    @property
    def sigma_s(self) -> float:
        """Spread of a batch's time around its prediction."""
        if self._sigma_s is None:
            self._sigma_s = self._recent.spread(self._middle) * _SIGMA_PER_MAD * self._mean_s
        return self._sigma_s

    def predict_s(self, work: float) -> float:
        return (self.fixed_s + self.per_work_s * work) * self.slower

    def at_least(self, work: float, lasted_s: float) -> bool:
        """A batch had lasted so long when nobody awaited it any more: it takes longer. False where
        that is no news of a server that is as usual."""
        usual_s = self.fixed_s + self.per_work_s * work
        if lasted_s <= usual_s + _SPREADS * self.sigma_s:
            return False
        if lasted_s > usual_s * self.slower:
            self.slower = min(lasted_s / usual_s * _LONGER, _MOST_SLOWER)
        return True

    def as_usual(self) -> None:
        """What made it slower is over."""
        self.slower = 1.0

    def observe(self, work: float, took_s: float) -> None:
        if not (work > 0 and 0 < took_s < math.inf):
            return
        if self.slower > 1.0:
            now = took_s / (self.fixed_s + self.per_work_s * work)
            self.slower = max(1.0, min(self.slower, now))  # guard: D6.cut-batch
        self._predictions.append((self.fixed_s + self.per_work_s * work, took_s))
        self._observed = observed = self._observed + 1
        self._recent.add(work, took_s)
        self._n = self._n * _FADE + 1
        self._w = self._w * _FADE + work
        self._t = self._t * _FADE + took_s
        self._ww = self._ww * _FADE + work * work
        self._wt = self._wt * _FADE + work * took_s
        if observed <= _WINDOW or not observed % self._fits_every:
            self._fit()

    def adopt(self, other: BatchModel) -> None:
        """What was learnt elsewhere takes the place of what was learnt here; how far predictions
        were off is counted on."""
        self.fixed_s, self.per_work_s = other.fixed_s, other.per_work_s
        self._sigma_s = other.sigma_s
        self._n, self._w, self._t, self._ww, self._wt = (
            other._n, other._w, other._t, other._ww, other._wt,
        )  # fmt: skip
        self._recent = other._recent.copy()

    def _fit(self) -> None:
        """Where the batches were all alike the slope is not theirs to tell: the expected proportion
        of a and b is kept and both are scaled."""
        n, mean_w, mean_t = self._n, self._w / self._n, self._t / self._n
        spread = self._ww / n - mean_w * mean_w
        if self._observed >= _COLD and spread > (0.05 * mean_w) ** 2:
            b = max(0.0, (self._wt / n - mean_w * mean_t) / spread)
            b = min(b, mean_t / mean_w)
            a = max(0.0, mean_t - b * mean_w)
        else:
            ratio = mean_t / (self._prior_a + self._prior_b * mean_w)
            a, b = self._prior_a * ratio, self._prior_b * ratio
        middle = self._recent.middle(a, b)
        scale = max(1.0, middle) * (_COLD_CAUTION if self.cold else 1.0)
        self.fixed_s, self.per_work_s = a * scale, b * scale
        self._sigma_s, self._mean_s, self._middle = None, mean_t, middle


class _Recent:
    """The last batches: their work, and their times beside what a fit says of them."""

    __slots__ = (
        "_fit",
        "_fit_values",
        "_observed",
        "_ratios",
        "_took_s",
        "_took_s_values",
        "_work",
        "_work_values",
    )

    def __init__(self) -> None:
        self._work, self._took_s = array("d", bytes(8 * _WINDOW)), array("d", bytes(8 * _WINDOW))
        self._fit = array("d", (0.0, 0.0))
        self._observed = 0
        self._ratios: Floats = np.zeros(_WINDOW)
        self._work_values: Floats = np.frombuffer(
            self._work
        )  # the same numbers, as numpy sees them
        self._took_s_values: Floats = np.frombuffer(self._took_s)
        self._fit_values: Floats = np.frombuffer(self._fit)

    def copy(self) -> _Recent:
        other = _Recent()
        other._work[:], other._took_s[:], other._observed = self._work, self._took_s, self._observed
        other._ratios[:] = self._ratios
        return other

    def add(self, work: float, took_s: float) -> None:
        at = self._observed % _WINDOW
        self._work[at], self._took_s[at] = work, took_s
        self._observed += 1

    def last(self, back: int) -> tuple[float, float]:
        """Work and time of the one so many before the last, round among those that are kept."""
        at = (self._observed - 1 - back % min(self._observed, _WINDOW)) % _WINDOW
        return self._work[at], self._took_s[at]

    def middle(self, fixed_s: float, per_work_s: float) -> float:
        """The median of the times, each as a share of what the fit says of its batch."""
        fit, by_fit, ratios = self._fit, self._fit_values, self._ratios
        work, took_s = self._work_values, self._took_s_values
        if (n := self._observed) < _WINDOW:
            work, took_s, ratios = work[:n], took_s[:n], ratios[:n]
        fit[0], fit[1] = fixed_s, per_work_s
        np.multiply(work, by_fit[_PER_WORK], ratios)
        np.add(ratios, by_fit[_FIXED], ratios)
        np.divide(took_s, ratios, ratios)
        ratios.sort()
        return _median(ratios)

    def spread(self, middle: float) -> float:
        """The median of how far those shares are from it."""
        off = np.abs(self._ratios[: self._observed] - middle)
        off.sort()
        return _median(off)


def _median(ordered: Floats) -> float:
    count = len(ordered)
    half = count >> 1
    return ordered.item(half) if count & 1 else (ordered.item(half - 1) + ordered.item(half)) / 2
