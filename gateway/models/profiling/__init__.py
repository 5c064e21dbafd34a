"""What a served model takes for a batch, measured: `models/<name>/profile.json`.

`fixed_s + per_row_s * rows` is what the queue expects of a model's batches until it has seen some.
It is fitted to the times of calls with 1, 2, 4 ... rows, each alone at the server, as the gateway
sees them: with the way there and back.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE = "profile.json"
_MOST_SHARE = 0.5
_LONGEST_DELAY_S = 0.0005  # a lone call waits for nothing all the time


class BadProfile(ValueError):
    """A file that is no profile; the message says why."""


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """Calls of so many rows, one after the other."""

    rows: int
    p50_s: float
    rows_per_s: float


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """So many callers, each with one row, and the next one when it was answered."""

    callers: int
    calls_per_s: float
    p50_s: float
    p99_s: float
    executed: float  # rows of the mean batch, by the server's count


@dataclass(frozen=True, slots=True)
class Machine:
    cpu: str
    cores: int

    @classmethod
    def this(cls) -> Machine:
        return cls(_cpu(), len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class ModelProfile:
    model: str
    machine: Machine
    provider: str  # of ONNX Runtime; empty where the model does not say
    graph: str
    threads: int
    words: int  # of a sampled text; 0 where the model takes none
    fixed_s: float
    per_row_s: float
    error: float  # how far the fit is off, as a mean share of the measured time
    batches: tuple[BatchPoint, ...]
    loads: tuple[LoadPoint, ...]

    @property
    def best_batch(self) -> int:
        """The smallest that gives nine tenths of the most rows a second."""
        most = max(point.rows_per_s for point in self.batches)
        return next(p.rows for p in self.batches if p.rows_per_s >= 0.9 * most)

    @property
    def delay_us(self) -> int:
        """How long Triton does well to wait for a batch to be whole: half of what a batch costs
        before its first row, where that is most of the time of a batch of eight. Else calls that
        were answered together, and ask again together, are executed in two parts; where the rows
        are what takes the time, two parts cost little, and waiting costs every call."""
        if self.fixed_s < _MOST_SHARE * (self.fixed_s + 8 * self.per_row_s) or not self._batched:
            return 0
        return round(min(_LONGEST_DELAY_S, self.fixed_s / 2) * 1e4) * 100

    @property
    def _batched(self) -> bool:
        return len(self.batches) > 1


def fitted(points: Sequence[BatchPoint]) -> tuple[float, float, float]:
    """`a`, `b` and the mean relative error, of which the squares are the least; none is below 0."""
    times = [(point.rows, point.p50_s) for point in points]
    if len(times) < 2:
        a, b = (times[0][1], 0.0)
    else:
        a, b = _line(times)
        if b < 0:  # guard: E2.row-time
            a, b = 1 / _mean(1 / t for _, t in times), 0.0
        elif a < 0:
            a, b = 0.0, _mean(t / n for n, t in times)
    return a, b, _mean(abs(a + b * n - t) / t for n, t in times)


def _line(times: Sequence[tuple[int, float]]) -> tuple[float, float]:
    weight = [1 / t**2 for _, t in times]
    total = sum(weight)
    mean_n = sum(w * n for w, (n, _) in zip(weight, times, strict=True)) / total
    mean_t = sum(w * t for w, (_, t) in zip(weight, times, strict=True)) / total
    spread = sum(w * (n - mean_n) ** 2 for w, (n, _) in zip(weight, times, strict=True))
    b = (
        sum(w * (n - mean_n) * (t - mean_t) for w, (n, t) in zip(weight, times, strict=True))
        / spread
    )
    return mean_t - b * mean_n, b


def _mean(values: Iterable[float]) -> float:
    values_ = list(values)
    return sum(values_) / len(values_)


def write(path: Path, profile: ModelProfile) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(json.dumps(asdict(profile), indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def read(path: Path) -> ModelProfile:
    """Raises BadProfile for what is none, OSError where there is none."""
    raw = path.read_text(encoding="utf-8")
    try:
        profile = _profile(json.loads(raw))
    except (ValueError, KeyError, TypeError) as exc:
        raise BadProfile(f"{path}: is no profile ({type(exc).__name__}); measure it again") from exc
    times = (profile.fixed_s, profile.per_row_s)
    # guard: E2.positive-times
    if not all(math.isfinite(t) and t >= 0 for t in times) or not sum(times) > 0:
        raise BadProfile(f"{path}: a batch takes time; measure it again")
    return profile


def _profile(document: dict[str, Any]) -> ModelProfile:
    lists = {
        "machine": Machine(**document["machine"]),
        "batches": tuple(BatchPoint(**point) for point in document["batches"]),
        "loads": tuple(LoadPoint(**point) for point in document["loads"]),
    }
    times = {key: float(document[key]) for key in ("fixed_s", "per_row_s", "error")}
    return ModelProfile(**{**document, **lists, **times})


def _cpu() -> str:
    """The model and what it can: two machines with the same take about the same time."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    keys = {key.strip(): value.strip() for key, value in fields.items()}
    names = (keys.get("model name", platform.machine()), keys.get("model", ""))
    return " ".join(filter(None, names))
