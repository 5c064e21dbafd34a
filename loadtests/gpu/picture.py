"""Rows a second over the batch: a picture for each model, a curve for each way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loadtests.gpu import Found


def write(path: Path, found: Sequence[Found]) -> None:
    """SVG or PNG, by the name's ending."""
    from matplotlib.figure import Figure  # slow to import

    models = list(dict.fromkeys(one.model for one in found))
    figure = Figure(figsize=(4.2 * len(models), 3.6), layout="constrained")
    for axes, model in zip(figure.subplots(1, len(models), squeeze=False)[0], models, strict=True):
        of_model = [one for one in found if one.model == model]
        batches = sorted({one.batch for one in of_model})
        for way in dict.fromkeys(one.way for one in of_model):
            curve = sorted((o.batch, o.rows_per_s) for o in of_model if o.way == way)
            axes.plot(*zip(*curve, strict=True), "o-", label=way, markersize=4)
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, [str(batch) for batch in batches])
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_minor_formatter("{x:,.0f}")
        axes.set_xlabel("rows of a batch")
        axes.set_ylabel("rows a second")
        axes.set_title(model, fontsize=10)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)
