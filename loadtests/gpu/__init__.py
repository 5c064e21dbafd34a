"""What a card does for the models: each way to run a graph beside the processor, in turns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from gateway.models.declaration import Declaration
from gateway.models.samples import numpy_dtype
from gateway.models.sessions import Feed, Outputs

WITH_GRAPHS = ("minilm", "names", "fraud_score", "image_inspection")
_TINY = 1e-9


@dataclass(slots=True)
class Found:
    """Of one model at one batch by one way. `off`: from the graph as it was written, relative."""

    model: str
    batch: int
    way: str
    off: float = math.nan
    took_s: list[float] = field(default_factory=list)  # the median run of each round

    @property
    def ms(self) -> float:
        return median(self.took_s) * 1e3

    @property
    def rows_per_s(self) -> float:
        return self.batch / median(self.took_s)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. `off`: from the graph as it was written, relative to its largest value;
    `times_cpu`, `times_cuda`: how many times faster than that."""

    section: str
    what: str
    batch: int | None = None
    way: str = ""
    ms: float | None = None
    rows_per_s: float | None = None
    times_cpu: float | None = None
    times_cuda: float | None = None
    off: float | None = None
    note: str = ""


def usual(declared: Declaration, batch: int) -> Feed:
    """Random rows at the usual size of every free axis."""
    chance = np.random.default_rng(declared.verify.seed)
    feed = {}
    for name, tensor in declared.graph_inputs.items():
        sizes = [d if isinstance(d, int) else declared.axes[d].opt for d in tensor.dims]
        shape, dtype = (batch, *sizes), numpy_dtype(tensor.datatype)
        if np.issubdtype(dtype, np.floating):
            low, high = tensor.between or (-1.0, 1.0)
            feed[name] = chance.uniform(low, high, shape).astype(dtype)
        else:
            low, high = tensor.between or (0, 1)
            feed[name] = chance.integers(int(low), int(high), shape, endpoint=True).astype(dtype)
    return feed


def apart(found: Outputs, wanted: Outputs) -> float:
    """The largest difference of any output, relative to its largest value; inf for other shapes."""
    worst = 0.0
    for name, values in wanted.items():
        one, other = np.asarray(found[name], np.float64), np.asarray(values, np.float64)
        if one.shape != other.shape:
            return math.inf
        scale = max(float(np.abs(other).max(initial=0.0)), _TINY)
        worst = max(worst, float(np.abs(one - other).max(initial=0.0)) / scale)
    return worst
