"""The figures as a page and as a picture."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.simulate.capacity import FleetSize, cheapest
from gateway.simulate.mix import ROUTES, RouteMix
from gateway.simulate.report import RECORDED, SimulationReport, Table, describe_skipped, tables
from gateway.simulate.study import POLICY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OURS, _CLOUD, _MISSED, _TROUBLE = "#0b6e8a", "#a9bcc6", "#d9734e", "#3d3d3d"
_CUT: Final = 4.0  # times the median cost
_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:74rem;padding:0 1rem;
color:#1d2b33}h1{font-size:1.4rem}table{border-collapse:collapse;margin:1.2rem 0;display:block;
overflow-x:auto}th,td{padding:.3rem .8rem;text-align:right;border-bottom:1px solid #dde4e8;
white-space:nowrap}th:first-child,td:first-child{text-align:left}tr.ours{font-weight:600}
svg{max-width:100%;height:auto}p{max-width:48rem}
"""
_UNIT: Final = (
    "Costs are in mean cloud calls; regret is the cost per call above the least that anyone could "
    "reach who knew every arrival."
)


def write_png(path: Path, report: SimulationReport) -> None:
    figure = _draw(report)
    figure.suptitle(report.title, fontsize=11)
    figure.savefig(path, dpi=120)


def write_html(path: Path, report: SimulationReport) -> None:
    """One file that needs nothing else."""
    drawn = io.StringIO()
    _draw(report).savefig(drawn, format="svg")
    svg = drawn.getvalue()
    title = html.escape(report.title)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>",
        f"<p>{_UNIT}</p>",
        *map(_html_table, tables(report)),
    ]
    if report.compared is not None and (left_out := describe_skipped(report.compared.skipped)):
        parts.append(f"<p>{html.escape(left_out)}</p>")
    parts.append(svg[svg.index("<svg") :])
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(cell)}" for cell in table.heading)
    lines = [f"<table><tr>{head}"]
    for row in table.rows:
        ours = " class=ours" if row[0] == POLICY else ""
        lines.append(f"<tr{ours}>" + "".join(f"<td>{html.escape(cell)}" for cell in row))
    below = f"<p>{html.escape(table.below)}</p>" if table.below else ""
    return "\n".join(lines) + f"</table>{below}"


def _draw(report: SimulationReport) -> Figure:
    # A second to import, and only who wants a picture needs it.
    from matplotlib.figure import Figure

    above = ["costs", "budgets", *(["sizes"] if report.sizes else [])]
    mixes = list(report.mixes)
    height = 1.1 + 0.36 * len(report.results) + 2.3 * len(mixes)
    rows: list[Any] = [above, *([name] * len(above) for name in mixes)]
    figure = Figure(figsize=(5.2 * len(above), max(4.4, height)), layout="constrained")
    axes = figure.subplot_mosaic(
        rows,
        height_ratios=[1.1 + 0.36 * len(report.results), *[2.3] * len(mixes)],
    )
    _draw_costs(axes["costs"], report)
    _draw_budgets(axes["budgets"], report)
    if report.sizes:
        _draw_sizes(axes["sizes"], report.sizes)
    for name, mix in report.mixes.items():
        _draw_mix(axes[name], name, mix, report.trouble)
    for ax in axes.values():
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _below(ax: Axes, gap: float = 0.1) -> None:
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -gap), ncols=3, frameon=False, fontsize=9)


def _draw_costs(ax: Axes, report: SimulationReport) -> None:
    """The dearest would squeeze the others: its bar is cut, its number is not."""
    costs = {
        name: (f.cloud_cost / f.calls, f.missed_cost / f.calls)
        for name, f in report.results.items()
    }
    if report.compared is not None:
        r = report.compared.recorded
        costs = {RECORDED: (r.cloud_cost / r.calls, r.missed_cost / r.calls), **costs}
    names = list(costs)[::-1]
    totals = [sum(costs[name]) for name in names]
    most = _CUT * sorted(totals)[len(totals) // 2] if totals else 1.0
    edge = min(max(totals, default=1.0), most) or 1.0
    for y, name in enumerate(names):
        cloud, missed = costs[name]
        colour = _OURS if name == POLICY else _CLOUD
        shown = min(cloud, edge)
        ax.barh(y, shown, color=colour, label="cloud" if name == POLICY else "")
        ax.barh(
            y, min(missed, edge - shown), left=shown, color=_MISSED,
            label="missed budgets" if y == 0 else "",
        )  # fmt: skip
        cut = " (cut)" if cloud + missed > edge * 1.001 else ""
        at = min(cloud + missed, edge)
        ax.annotate(f"{cloud + missed:.2f}{cut}", (at, y), xytext=(3, -3),
                    textcoords="offset points", fontsize=9)  # fmt: skip
    ax.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    ax.set_xlim(0, edge * 1.25)
    ax.set_title("Cost of a call, in mean cloud calls", fontsize=10)
    _below(ax)


def _draw_budgets(ax: Axes, report: SimulationReport) -> None:
    met = {name: f.attainment for name, f in report.results.items()}
    if report.compared is not None:
        met = {RECORDED: report.compared.recorded.attainment, **met}
    names = list(met)[::-1]
    at = list(range(len(names)))
    for share, shift, colour, label in (
        ([_share(met[n].restricted) for n in names], 0.2, _OURS, "restricted"),
        ([_share(met[n].clear) for n in names], -0.2, _CLOUD, "clear"),
    ):
        ax.barh([y + shift for y in at], share, height=0.38, color=colour, label=label)
    ax.set_yticks(at, [name.replace("_", " ") for name in names])
    ax.set_xlim(0, 100)
    ax.xaxis.grid(visible=True, color="white", linewidth=0.8)
    ax.set_title("Budgets met, in %", fontsize=10)
    _below(ax)


def _draw_sizes(ax: Axes, sizes: Sequence[FleetSize]) -> None:
    """Too few servers can cost a thousand times what enough of them do: those bars are cut."""
    best = cheapest(sizes)
    edge = min(max(s.total_usd for s in sizes), _CUT * best.total_usd) or 1.0
    for size in sizes:
        floor = 0.0
        for usd, colour, label in (
            (size.gpu_usd, _OURS, "GPUs"),
            (size.cloud_usd, _CLOUD, "cloud"),
            (size.missed_usd, _MISSED, "missed budgets"),
        ):
            shown = max(0.0, min(usd, edge - floor))
            first = label if size is sizes[0] else ""
            ax.bar(size.servers, shown, bottom=floor, color=colour, label=first)
            floor += shown
        cut = "\n(cut)" if size.total_usd > edge * 1.001 else ""
        weight = "bold" if size is best else "normal"
        ax.annotate(
            f"{size.total_usd:,.2f}{cut}", (size.servers, floor), xytext=(0, 3),
            textcoords="offset points", ha="center", fontsize=9, fontweight=weight,
        )  # fmt: skip
    ax.set_ylim(0, edge * 1.3)
    ax.set_xticks([size.servers for size in sizes])
    ax.set_title("Cost of an hour by servers, in $ (cheapest: bold)", fontsize=10)
    _below(ax)


def _draw_mix(ax: Axes, name: str, mix: RouteMix, trouble: Sequence[tuple[float, float]]) -> None:
    at = [0.0, *mix.until_s]
    shares = [[share[0], *share] for share in mix.shares]
    ax.stackplot(
        at, *([100 * s for s in share] for share in shares),
        colors=(_OURS, _CLOUD, _MISSED), labels=ROUTES, step="pre",
    )  # fmt: skip
    for number, (from_s, to_s) in enumerate(trouble):
        ax.axvspan(
            from_s, to_s, facecolor="none", edgecolor=_TROUBLE, hatch="//", alpha=0.55,
            linewidth=1.0, label="" if number else "the cloud fails, or is slow",
        )  # fmt: skip
    ax.set_xlim(0, at[-1])
    ax.set_ylim(0, 100)
    ax.set_xlabel("seconds", fontsize=9)
    ax.set_title(f"Where the calls went, in %: {name.replace('_', ' ')}", fontsize=10)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)


def _share(value: float | None) -> float:
    return 100 * value if value is not None else 0.0
