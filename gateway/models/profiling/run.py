"""Measures a served model: calls of 1, 2, 4 ... rows alone, then 1, 2, 4 ... callers at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from gateway.models.declaration import Declaration
from gateway.models.profiling import BatchPoint, LoadPoint, Machine, ModelProfile, fitted
from gateway.models.profiling.load import LoadTarget, Measured
from gateway.models.profiling.samples import requests, takes_text

_SAMPLES = 16  # requests of a size, in turns


@dataclass(frozen=True, slots=True)
class ProfilingPlan:
    most_callers: int = 64
    seconds: float = 1.0  # of one point in one round
    rounds: int = 3  # over all points, so that a noisy moment spoils none
    words: int = 12  # of a text


@dataclass(frozen=True, slots=True)
class Runs:
    """What the model says that it runs on; nothing where it does not say."""

    provider: str = ""
    graph: str = ""
    threads: int = 0


async def profiled(
    target: LoadTarget,
    declaration: Declaration,
    plan: ProfilingPlan,
    runs: Runs,
    progress: Callable[[], None],
) -> ModelProfile:
    """`progress` is called `steps` times. Raises CannotMeasure and CannotSample."""
    sizes, crowds = _sizes(declaration), list(doubling(plan.most_callers))
    samples = {n: requests(declaration, n, plan.words, _SAMPLES) for n in {1, *sizes}}
    batches: dict[int, list[Measured]] = {n: [] for n in sizes}
    loads: dict[int, list[Measured]] = {n: [] for n in crowds}
    for _ in range(plan.rounds):
        for n in sizes:
            batches[n].append(await target.measure(samples[n], 1, plan.seconds))
            progress()
        for n in crowds:
            loads[n].append(await target.measure(samples[1], n, plan.seconds))
            progress()
    points = tuple(_batch_point(n, measured) for n, measured in batches.items())
    fixed_s, per_row_s, error = fitted(points)
    return ModelProfile(
        model=declaration.name,
        machine=Machine.this(),
        provider=runs.provider,
        graph=runs.graph,
        threads=runs.threads,
        words=plan.words if takes_text(declaration) else 0,
        fixed_s=round(fixed_s, 7),
        per_row_s=round(per_row_s, 7),
        error=round(error, 4),
        batches=points,
        loads=tuple(load_point(n, measured) for n, measured in loads.items()),
    )


def steps(declaration: Declaration, plan: ProfilingPlan) -> int:
    return plan.rounds * (len(_sizes(declaration)) + len(list(doubling(plan.most_callers))))


def _sizes(declaration: Declaration) -> list[int]:
    return list(doubling(declaration.batch.max if declaration.batch else 1))


def doubling(most: int) -> Iterator[int]:
    """1, 2, 4 ... up to `most`, which is the last."""
    n = 1
    while n < most:
        yield n
        n *= 2
    yield most


def _batch_point(rows: int, measured: list[Measured]) -> BatchPoint:
    p50_s = median(one.quantile_s(0.5) for one in measured)
    return BatchPoint(rows, round(p50_s, 7), round(rows / p50_s, 1))


def load_point(callers: int, measured: list[Measured]) -> LoadPoint:
    """The medians of several measurements."""
    return LoadPoint(
        callers,
        round(median(one.calls_per_s for one in measured), 1),
        round(median(one.quantile_s(0.5) for one in measured), 7),
        round(median(one.quantile_s(0.99) for one in measured), 7),
        round(median(one.executed for one in measured), 2),
    )
