"""A profile as a picture: throughput and latency by the rows of a call, and by callers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.models.profiling import ModelProfile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RATE, _TIME, _FIT = "#0b6e8a", "#d9734e", "#3d3d3d"
_MS: Final = 1000


def write(path: Path, profile: ModelProfile) -> None:
    """SVG or PNG, by the name's ending."""
    with saved(path, (9.5, 3.6)) as figure:
        left, right = figure.subplots(1, 2)
        _batches(left, profile)
        _loads(right, profile)
        on = f" on {profile.provider}" if profile.provider else ""
        figure.suptitle(f"{profile.model}{on}, {profile.machine.cores} cores", fontsize=11)


@contextmanager
def saved(path: Path, inches: tuple[float, float]) -> Iterator[Figure]:
    """A figure to draw on, and its file at the end: the same figures, the same bytes."""
    import matplotlib  # of the extra `simulate`, and slow to import
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "spillway"
    figure = Figure(figsize=inches, layout="constrained")
    yield figure
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, dpi=120, metadata=metadata)


def _batches(axes: Axes, profile: ModelProfile) -> None:
    rows = [point.rows for point in profile.batches]
    axes.plot(
        rows, [p.p50_s * _MS for p in profile.batches], "o", color=_TIME, label="measured, median"
    )
    fit = [(profile.fixed_s + profile.per_row_s * n) * _MS for n in rows]
    formula = f"{profile.fixed_s * _MS:.3g} + {profile.per_row_s * _MS:.3g} x rows"
    axes.plot(rows, fit, "-", color=_FIT, linewidth=1, label=formula)
    _scaled(axes, "rows of a call", "ms for the call", rows)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.legend(frameon=False, fontsize=8)


def _loads(axes: Axes, profile: ModelProfile) -> None:
    callers = [point.callers for point in profile.loads]
    rates = [point.calls_per_s for point in profile.loads]
    axes.plot(callers, rates, "o-", color=_RATE)
    for point in profile.loads:
        axes.annotate(
            f"{point.executed:.1f}", (point.callers, point.calls_per_s), fontsize=7,
            textcoords="offset points", xytext=(0, 5), ha="center",
        )  # fmt: skip
    _scaled(axes, "callers at once, a row each", "calls a second", callers)
    axes.set_ylim(0, max(rates) * 1.15)
    times = axes.twinx()
    times.plot(callers, [p.p50_s * _MS for p in profile.loads], "s--", color=_TIME, markersize=3)
    times.set_ylabel("ms, median", color=_TIME)
    times.set_ylim(bottom=0)
    axes.set_title("figures at the points: rows of the mean executed batch", fontsize=8)


def _scaled(axes: Axes, x: str, y: str, ticks: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(n) for n in ticks])
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.25)
