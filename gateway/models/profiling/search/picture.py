"""A search as a picture: calls a second and latency of every choice, as callers become more."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gateway.models.profiling import picture
from gateway.models.profiling.search import ChoiceTrial
from gateway.models.profiling.search.climb import ChoiceResult

_TRIED, _DECLARED, _CHOSEN = "#b8b8b8", "#d9734e", "#0b6e8a"
_MS: Final = 1000


def write(
    path: Path,
    model: str,
    trials: Iterable[ChoiceTrial],
    result: ChoiceResult,
    limit_s: float | None,
) -> None:
    """SVG or PNG, by the name's ending."""
    with picture.saved(path, (6.5, 4.2)) as figure:
        axes = figure.subplots()
        marked = {result.declared.choice: _DECLARED, result.chosen.choice: _CHOSEN}
        for trial in sorted(trials, key=lambda one: one.choice in marked):
            color = marked.get(trial.choice, _TRIED)
            axes.plot(
                [point.p99_s * _MS for point in trial.loads],
                [point.calls_per_s for point in trial.loads],
                "o-", color=color, markersize=3, linewidth=1,
                label=str(trial.choice) if trial.choice in marked else None,
            )  # fmt: skip
        if limit_s is not None:
            axes.axvline(limit_s * _MS, color="#3d3d3d", linestyle="--", linewidth=1)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("ms, 99th percentile")
        axes.set_ylabel("calls a second")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=7)
        figure.suptitle(f"{model}: more callers along each line", fontsize=10)
