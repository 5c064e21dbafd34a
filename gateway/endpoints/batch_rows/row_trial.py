"""Whether the rows of one batch influence each other: rows together, beside each of them alone.

A server that batches puts rows of several callers into one execution. That is right for a model
that computes each row by itself. A graph with a softmax, a sort or statistics over the batch axis
has the same tensors and the same shapes, and gives a row another answer by whose rows are beside
it. No declaration tells the two apart, so it is tried before callers' rows are batched: a few rows
that differ, each alone, then in batches of several sizes, orders and with a row twice.

Nothing here runs a model: a `Trial` yields the batches, and whoever drives it sends their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gateway.endpoints.batch_rows.rows import INDEPENDENT, Rows, RowVerdict

Array = npt.NDArray[Any]
Batch = Mapping[str, Array]  # inputs or outputs by name; the first axis counts rows
Trial = Generator[Batch, Batch | None, RowVerdict]
"""Yields a batch, is sent what the model answers, or None where it refuses the batch."""
Row = TypeVar("Row")

ROWS = 8  # that are made
_TOGETHER = 5  # of them, those with the most different answers, in one batch
LARGEST = 64  # rows of the largest batch that is tried
TOLERANCE = 1e-3
"""Of FP32 and FP64 outputs, relative to the largest value of the row's output: what another order
of adding up does is far below it."""
HALF_PRECISION_TOLERANCE: Mapping[str, float] = {"FP16": 1e-2, "BF16": 5e-2}

_TELLING = 5.0  # times the tolerance: so far apart are answers in which an influence is to be seen
_NOISE = 0.01  # of the tolerance: answers so near each other are the same
_SMALL = 1e-3  # of the largest value in any row: a row of smaller ones is not compared more finely
_TINY = 1e-30
_SCALES = (1.0, 3.0, 0.3, 1.0, 10.0, 100.0, 1.0, 0.03)  # of floats without a range, by row
_NARROW = 0.05  # of a range
_PADDED = (1, 4)  # rows, by number
_STRINGS = (b"7", b"two red ropes", b"12", b"a boat on the water, far from home", b"345")
"""Safe in any language and format: numbers as text, and plain words of several lengths."""


def run(trial: Trial, model: Callable[[Batch], Batch | None]) -> RowVerdict:
    """Drive a trial with a model that answers at once."""
    answer: Batch | None = None
    started = False
    while True:
        try:
            batch = trial.send(answer) if started else next(trial)
        except StopIteration as end:
            verdict: RowVerdict = end.value
            return verdict
        started, answer = True, model(batch)


def trial(
    rows: Sequence[Row],
    joined: Callable[[Sequence[Row]], Batch],
    largest: int,
    tolerances: Mapping[str, float] | None = None,
) -> Trial:
    """`joined` makes one batch of several rows. `largest`: rows of the model's largest batch.
    `tolerances`: by output, where its numpy type does not say how exact it is; read as the answers
    come."""
    allowed = {} if tolerances is None else tolerances
    single_rows: list[Row] = []
    alone: list[Batch] = []
    for row in rows:
        answer = yield joined([row])
        if answer is None:
            continue
        if (name := _misshapen(answer, 1)) is not None:
            return RowVerdict(Rows.COUPLED, f"output {name} has not one row for one")
        single_rows.append(row)
        alone.append(answer)
    if len(single_rows) < 2:
        return RowVerdict(
            Rows.UNTRIED, f"it answers {len(single_rows)} of the {len(rows)} rows tried"
        )
    scales = _scales(alone)
    chosen = _most_different(alone, scales)
    single_rows, alone = [single_rows[at] for at in chosen], [alone[at] for at in chosen]
    again = yield joined([single_rows[0]])
    if again is None or _furthest(again, 0, alone[0], scales, allowed) is not None:
        return RowVerdict(Rows.UNTRIED, "it has two answers to the same row")
    for picked in batches(len(single_rows), largest):
        together = yield joined([single_rows[at] for at in picked])
        size = len(picked)
        if together is None:
            return RowVerdict(Rows.COUPLED, f"it refuses {size} rows that it answers one by one")
        if (name := _misshapen(together, size)) is not None:
            return RowVerdict(Rows.COUPLED, f"output {name} has not {size} rows for {size}")
        for at, number in enumerate(picked):
            off = _furthest(together, at, alone[number], scales, allowed)
            if off is not None:
                return RowVerdict(
                    Rows.COUPLED, f"{off} for a row in a batch of {size} as for it alone"
                )
    return _distinguishable(alone, scales, allowed)


def batches(rows: int, largest: int) -> list[tuple[int, ...]]:
    """The rows, by number, of every batch that is tried: two of them, three, all, the largest; in
    other orders, and one of them twice."""
    largest = max(1, min(largest, LARGEST))
    upwards = tuple(range(rows))
    # guard: E4.pair-batch without (1, 0)
    # guard: E4.repeated-row without (0, 0, *upwards[1:3])
    # guard: E4.largest-batch without tuple((at % rows for at in range(largest)))
    batches = [
        (1, 0),
        (*upwards[-1:], 0, *upwards[1:2]),
        upwards[::-1],
        (*upwards[1:], 0),
        (0, 0, *upwards[1:3]),
        tuple(at % rows for at in range(largest)),
    ]
    sized = dict.fromkeys(picked[:largest] for picked in batches)
    return [picked for picked in sized if len(picked) > 1]


def concatenated(rows: Sequence[Batch]) -> Batch:
    """Rows of equal shapes as one batch."""
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


def values(
    number: int,
    shape: Sequence[int],
    dtype: npt.DTypeLike,
    between: tuple[float, float] | None,
    generator: np.random.Generator,
) -> Array:
    """Values of one input of the row of that number, within the range. Without one, whole numbers
    are 0 and 1, which are rows of any table; those of 8 bits have their whole range in every other
    row, as pictures have."""
    kind = np.dtype(dtype)
    if kind == np.dtype(object):
        count = math.prod(shape)
        strings = np.empty(count, kind)
        strings[:] = [_STRINGS[(number + at) % len(_STRINGS)] for at in range(count)]
        return strings.reshape(tuple(shape))
    if np.issubdtype(kind, np.floating):
        if between is not None:
            low, high = between
            return (low + (high - low) * _shares(number, shape, generator)).astype(kind)
        random = generator.normal(0, _SCALES[number % len(_SCALES)], shape)
        return (np.abs(random) if number % 2 else random).astype(kind)
    low, high = between or (0, 1)
    if between is None and kind.itemsize == 1 and kind != np.dtype(bool) and number % 2:
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
    shares = _shares(number, shape, generator)
    whole: Array = np.floor(low + (high - low + 1) * shares)
    return whole.clip(low, high).astype(kind)


def padded(number: int, values: Array, free: Sequence[int]) -> Array:
    """A row as a shorter one is that was padded: the latter half of each of its free axes holds
    zeros, or empty strings. Other numbers' rows are as they were."""
    if number not in _PADDED:  # guard: E4.padded-rows always
        return values
    ended = values.copy()
    for axis in free:
        latter = [slice(None)] * values.ndim
        latter[axis] = slice((values.shape[axis] + 1) // 2, None)
        ended[tuple(latter)] = b"" if values.dtype == np.dtype(object) else 0
    return ended


def _shares(number: int, shape: Sequence[int], generator: np.random.Generator) -> Array:
    """Where in a range the values of a row are, from 0 to 1. Rows differ in more than their random
    numbers: to many a model noise is like any other noise."""
    random = generator.uniform(0, 1, shape)
    kinds: tuple[Callable[[], Array], ...] = (
        lambda: random,
        lambda: np.full(shape, 0.75),
        lambda: np.linspace(0, 1, math.prod(shape)).reshape(tuple(shape)),
        lambda: _NARROW * random,
        lambda: np.where(generator.uniform(0, 1, shape) < _NARROW, random, 0.0),
        lambda: np.full(shape, 0.25),
        lambda: 1 - _NARROW * random,
        lambda: random**3,
    )
    return kinds[number % len(kinds)]()


def _most_different(alone: Sequence[Batch], scales: Mapping[str, float]) -> list[int]:
    """Numbers of the rows that are put together: each has the answer that is furthest from those of
    the ones before."""
    chosen = [0]
    while len(chosen) < min(_TOGETHER, len(alone)):
        left = [at for at in range(len(alone)) if at not in chosen]
        chosen.append(
            max(left, key=lambda at: min(_between(alone[at], alone[one], scales) for one in chosen))
        )
    return chosen


def _between(one: Batch, other: Batch, scales: Mapping[str, float]) -> float:
    """How far two rows' answers are from each other, in the output where they are furthest; at the
    most 1 in each."""
    furthest = 0.0
    for name in one.keys() & other.keys():
        if one[name].shape != other[name].shape:
            apart = 1.0
        elif _inexact(one[name]):
            apart = min(1.0, _apart(one[name], other[name], scales[name]))
        else:
            apart = 0.0 if np.array_equal(one[name], other[name]) else 1.0
        furthest = max(furthest, apart)
    return furthest


def _misshapen(outputs: Batch, rows: int) -> str | None:
    return next((n for n, held in outputs.items() if held.ndim < 1 or len(held) != rows), None)


def _scales(alone: Sequence[Batch]) -> Mapping[str, float]:
    """By output, the largest value in any row, where it is a number."""
    return {name: max(_largest(one[name]) for one in alone if name in one) for name in alone[0]}


def _largest(values: Array) -> float:
    if not _inexact(values):
        return 0.0
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max(initial=0.0))


def _inexact(values: Array) -> bool:
    return bool(np.issubdtype(values.dtype, np.inexact))


def _allowed(name: str, values: Array, tolerances: Mapping[str, float]) -> float:
    usual = HALF_PRECISION_TOLERANCE["FP16"] if values.dtype == np.float16 else TOLERANCE
    return tolerances.get(name, usual)


def _furthest(
    together: Batch,
    at: int,
    alone: Batch,
    scales: Mapping[str, float],
    tolerances: Mapping[str, float],
) -> str | None:
    """Which output of a row is another than that of the row alone, and how far; None: none is."""
    if together.keys() != alone.keys():
        return "other outputs"
    for name, wanted in alone.items():
        values = together[name][at : at + 1]
        if values.shape != wanted.shape or values.dtype != wanted.dtype:
            return f"output {name} has not the same shape"
        if not _inexact(wanted):
            if not np.array_equal(values, wanted):
                return f"output {name} is not the same"
            continue
        apart = _apart(values, wanted, scales[name])
        if apart > _allowed(name, wanted, tolerances):
            return f"output {name} is not the same (off by {apart:.1e})"
    return None


def _apart(rows: Array, wanted: Array, scale: float) -> float:
    """The largest difference, relative to the largest value wanted."""
    one, other = np.asarray(rows, np.float64), np.asarray(wanted, np.float64)
    finite = np.isfinite(one) & np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return math.inf
    if not finite.any():
        return 0.0
    difference = float(np.abs(one[finite] - other[finite]).max())
    return difference / max(float(np.abs(other[finite]).max()), _SMALL * scale, _TINY)


def _distinguishable(
    alone: Sequence[Batch], scales: Mapping[str, float], tolerances: Mapping[str, float]
) -> RowVerdict:
    """Nobody's answer changed. That says something where the answers were not all alike."""
    telling = False
    for name, first in alone[0].items():
        others = [one[name] for one in alone[1:]]
        if any(other.shape != first.shape for other in others):
            telling = True
        elif not _inexact(first):
            telling = telling or not all(np.array_equal(first, other) for other in others)
        else:
            spread = max(_apart(other, first, scales[name]) for other in others)
            allowed = _allowed(name, first, tolerances)
            if _NOISE * allowed < spread < _TELLING * allowed:
                return RowVerdict(Rows.UNTRIED, f"output {name} is nearly the same for every row")
            telling = telling or spread >= _TELLING * allowed
    if not telling:  # guard: E4.constant-answers
        return RowVerdict(Rows.UNTRIED, "its answers are the same for every row tried")
    return INDEPENDENT
