"""When calls are meant to be sent, whatever becomes of those before: seconds from the start."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from pathlib import Path


def poisson(rate_per_s: float, chance: random.Random) -> Iterator[float]:
    """Callers who know nothing of each other."""
    at_s = 0.0
    while True:
        at_s += chance.expovariate(rate_per_s)
        yield at_s


def bursty(rate_per_s: float, variation: float, chance: random.Random) -> Iterator[float]:
    """Gamma-distributed gaps with this coefficient of variation: 1 is Poisson, 3 comes in bursts
    with silence between them, as the traces of language models do."""
    shape = 1 / variation**2
    scale = 1 / (rate_per_s * shape)
    at_s = 0.0
    while True:
        at_s += chance.gammavariate(shape, scale)
        yield at_s


def steady(rate_per_s: float) -> Iterator[float]:
    """Equal gaps: the least that a rate can ask of a server."""
    sent = 0
    while True:
        sent += 1
        yield sent / rate_per_s


def trace(path: Path, rate_per_s: float | None) -> Iterator[float]:
    """Recorded arrivals: a CSV whose first column is seconds from its start; it may have a head.
    With a rate, time is stretched so that the mean rate is this one; at its end it starts again.

    Raises ValueError for a file without two arrivals at different times.
    """
    with path.open(newline="") as lines:
        read = [_seconds(row[0]) for row in csv.reader(lines) if row]
    times_s = sorted(t for t in read if t is not None)
    if len(times_s) < 2 or times_s[0] == times_s[-1]:
        raise ValueError(f"{path}: needs a first column with seconds, of two arrivals at least")
    first_s = times_s[0]
    length_s = (times_s[-1] - first_s) * len(times_s) / (len(times_s) - 1)
    stretch = 1.0 if rate_per_s is None else len(times_s) / length_s / rate_per_s
    lap = 0
    while True:
        for at_s in times_s:
            yield (at_s - first_s + lap * length_s) * stretch
        lap += 1


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
