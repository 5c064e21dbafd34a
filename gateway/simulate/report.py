"""The figures for people: a table, a page, a picture."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.simulate.capacity import Size, cheapest
from gateway.simulate.study import POLICY, Figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEADING: Final = (
    "policy", "regret", "attained", "restricted", "clear", "cloud cost", "spilled", "shed",
    "utilised", "batch",
)  # fmt: skip
_SIZES: Final = ("servers", "GPU $/h", "cloud $/h", "missed $/h", "total $/h", "attained")
_OURS, _CLOUD, _MISSED = "#0b6e8a", "#a9bcc6", "#d9734e"


def as_json(found: Mapping[str, Figures]) -> dict[str, object]:
    return {name: asdict(figures) for name, figures in found.items()}


def sizes_as_json(sizes: Sequence[Size]) -> list[dict[str, object]]:
    return [asdict(size) | {"total_usd": size.total_usd} for size in sizes]


def rows(found: Mapping[str, Figures]) -> list[tuple[str, ...]]:
    return [
        (
            name,
            _number(f.regret, 3),
            _percent(f.attainment.all),
            _percent(f.attainment.restricted),
            _percent(f.attainment.clear),
            f"{f.cloud_cost:.0f}",
            _percent(f.spilled / f.calls),
            _percent(f.shed / f.calls),
            _percent(f.utilisation),
            f"{f.mean_batch:.1f}",
        )
        for name, f in found.items()
    ]


def size_rows(sizes: Sequence[Size]) -> list[tuple[str, ...]]:
    return [
        (
            str(s.servers), f"{s.gpu_usd:.2f}", f"{s.cloud_usd:.2f}", f"{s.missed_usd:.2f}",
            f"{s.total_usd:.2f}", _percent(s.figures.attainment.all),
        )
        for s in sizes
    ]  # fmt: skip


def table(found: Mapping[str, Figures]) -> str:
    return _columns(_HEADING, rows(found))


def size_table(sizes: Sequence[Size]) -> str:
    best = cheapest(sizes)
    return (
        _columns(_SIZES, size_rows(sizes))
        + f"\n\ncheapest: {best.servers} servers, {best.total_usd:.2f} $/h"
    )


def write_png(path: Path, found: Mapping[str, Figures], sizes: Sequence[Size] = ()) -> None:
    _draw(found, sizes).savefig(path, dpi=120)


def write_html(
    path: Path, title: str, found: Mapping[str, Figures], sizes: Sequence[Size] = ()
) -> None:
    """One file that needs nothing else."""
    drawn = io.StringIO()
    _draw(found, sizes).savefig(drawn, format="svg")
    svg = drawn.getvalue()
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>{html.escape(title)}</title>",
        "<style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;"
        "padding:0 1rem;color:#1d2b33}table{border-collapse:collapse;margin:1rem 0}"
        "th,td{padding:.3rem .8rem;text-align:right;border-bottom:1px solid #dde4e8}"
        "th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}</style>",
        f"<h1>{html.escape(title)}</h1>",
        _html_table(_HEADING, rows(found)),
        "<p>Costs are in mean cloud calls; regret is the cost per call above the least that anyone "
        "could reach who knew every arrival.</p>",
    ]
    if sizes:
        best = cheapest(sizes)
        parts.append(_html_table(_SIZES, size_rows(sizes)))
        parts.append(f"<p>Cheapest: {best.servers} servers at {best.total_usd:.2f} $/h.</p>")
    parts.append(svg[svg.index("<svg") :])
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _draw(found: Mapping[str, Figures], sizes: Sequence[Size]) -> Figure:
    # A second to import, and only who wants a picture needs it.
    from matplotlib.figure import Figure

    panels = 3 if sizes else 2
    figure = Figure(figsize=(5.2 * panels, 4.4), layout="constrained")
    axes = figure.subplots(1, panels)
    _draw_costs(axes[0], found)
    _draw_budgets(axes[1], found)
    if sizes:
        _draw_sizes(axes[2], sizes)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False, fontsize=9
        )
    return figure


def _draw_costs(ax: Axes, found: Mapping[str, Figures]) -> None:
    names = list(found)[::-1]
    at = list(range(len(names)))
    cloud = [found[n].cloud_cost / found[n].calls for n in names]
    missed = [found[n].missed_cost / found[n].calls for n in names]
    ax.barh(at, cloud, color=[_OURS if n == POLICY else _CLOUD for n in names], label="cloud")
    ax.barh(at, missed, left=cloud, color=_MISSED, label="missed budgets")
    ax.set_yticks(at, [name.replace("_", " ") for name in names])
    for y, total in zip(at, map(sum, zip(cloud, missed, strict=True)), strict=True):
        ax.annotate(f"{total:.2f}", (total, y), xytext=(3, -3), textcoords="offset points")
    ax.margins(x=0.12)
    ax.set_title("Cost of a call, in mean cloud calls", fontsize=10)


def _draw_budgets(ax: Axes, found: Mapping[str, Figures]) -> None:
    names = list(found)[::-1]
    at = list(range(len(names)))
    for share, shift, colour, label in (
        ([_share(found[n].attainment.restricted) for n in names], 0.2, _OURS, "restricted"),
        ([_share(found[n].attainment.clear) for n in names], -0.2, _CLOUD, "clear"),
    ):
        ax.barh([y + shift for y in at], share, height=0.38, color=colour, label=label)
    ax.set_yticks(at, [])
    ax.set_xlim(0, 100)
    ax.set_title("Budgets met, in %", fontsize=10)


def _draw_sizes(ax: Axes, sizes: Sequence[Size]) -> None:
    servers = [s.servers for s in sizes]
    floor = [0.0] * len(sizes)
    for part, colour, label in (
        ([s.gpu_usd for s in sizes], _OURS, "GPUs"),
        ([s.cloud_usd for s in sizes], _CLOUD, "cloud"),
        ([s.missed_usd for s in sizes], _MISSED, "missed budgets"),
    ):
        ax.bar(servers, part, bottom=floor, color=colour, label=label)
        floor = [below + more for below, more in zip(floor, part, strict=True)]
    best = cheapest(sizes)
    ax.annotate(
        f"cheapest: {best.total_usd:,.2f} $/h", (best.servers, best.total_usd),
        xytext=(0, 8), textcoords="offset points", ha="center",
    )  # fmt: skip
    ax.set_xticks(servers)
    ax.set_xlabel("servers")
    ax.set_title("Cost of an hour, in $", fontsize=10)


def _share(value: float | None) -> float:
    return 100 * value if value is not None else 0.0


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _columns(heading: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    widths = [max(len(r[i]) for r in (heading, *body)) for i in range(len(heading))]
    lines = []
    for row in (heading, *body):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _html_table(heading: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(cell)}" for cell in heading)
    lines = ["<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in row) for row in body]
    return f"<table><tr>{head}\n" + "\n".join(lines) + "</table>"
