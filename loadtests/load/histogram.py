"""Latencies by logarithmic buckets, as HDR histograms keep them: all of a run in constant memory.

Buckets are 2^(1/128) wide, so that a quantile is at most 0.55 % too large. Values are buffered and
folded by the thousand, because a generator has no microsecond to spare for each.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

_PER_DOUBLING = 128
_BUCKETS = 36 * _PER_DOUBLING  # from 1 us to 19 hours
_BUFFERED = 8192


class Histogram:
    """Of seconds; what is below a microsecond counts as one."""

    __slots__ = ("_buffer", "_counts", "_max_s", "_sum_s", "record")

    def __init__(self) -> None:
        self._counts: npt.NDArray[np.int64] = np.zeros(_BUCKETS, np.int64)
        self._buffer = array("d")
        self._sum_s = self._max_s = 0.0
        self.record = self._buffer.append

    def tidy(self) -> None:
        """Keeps memory constant; to be called now and then, outside a call."""
        if len(self._buffer) >= _BUFFERED:
            self._fold()

    def __len__(self) -> int:
        self._fold()
        return int(self._counts.sum())

    @property
    def mean_s(self) -> float:
        return self._sum_s / max(1, len(self))

    @property
    def max_s(self) -> float:
        self._fold()
        return self._max_s

    def quantile_s(self, q: float) -> float:
        """The least latency that a share `q` of all did not exceed; 0.0 when there are none."""
        total = len(self)
        if not total:
            return 0.0
        rank = max(1, int(np.ceil(q * total)))
        at = int(np.searchsorted(np.cumsum(self._counts), rank))
        return min(_upper_s(at), self._max_s)

    def summary_ms(self) -> dict[str, float]:
        points = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
        found = {name: round(self.quantile_s(q) * 1e3, 4) for name, q in points.items()}
        mean, most = self.mean_s, self.max_s
        return {**found, "mean": round(mean * 1e3, 4), "max": round(most * 1e3, 4)}

    def add(self, other: Histogram) -> None:
        other._fold()
        self._fold()
        self._counts += other._counts
        self._sum_s += other._sum_s
        self._max_s = max(self._max_s, other._max_s)

    def cdf(self) -> Iterator[tuple[float, float]]:
        """(latency in ms, share of all that took no longer) of every bucket that is not empty."""
        total, below = len(self), 0
        for at in np.flatnonzero(self._counts):
            below += int(self._counts[at])
            yield min(_upper_s(int(at)), self._max_s) * 1e3, below / total

    def _fold(self) -> None:
        if not self._buffer:
            return
        seen = np.array(self._buffer)
        del self._buffer[:]
        self._sum_s += float(seen.sum())
        self._max_s = max(self._max_s, float(seen.max()))
        at = np.log2(np.maximum(seen * 1e6, 1.0)) * _PER_DOUBLING
        index = np.minimum(at.astype(np.int64), _BUCKETS - 1)
        self._counts += np.bincount(index, minlength=_BUCKETS)


def _upper_s(bucket: int) -> float:
    return float(2.0 ** ((bucket + 1) / _PER_DOUBLING)) / 1e6
