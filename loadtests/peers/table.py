"""The figures of a run as people and programs read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from loadtests.peers.rounds import Measured

DIRECT = "direct"
"""The backend with nothing in front of it: what is added is added to this."""

# heading, figure, decimals, minus that of `direct`
_COLUMNS = (
    ("CPU ms/call", "cpu_ms", 3, False),
    ("calls/s", "rps", 0, False),
    ("mixed CPU ms", "mixed_cpu_ms", 3, False),
    ("mixed calls/s", "mixed_rps", 0, False),
    ("with findings CPU ms", "findings_cpu_ms", 3, False),
    ("added p50 ms", "p50_ms", 2, True),
    ("added p99 ms", "p99_ms", 2, True),
    ("p50 ms at 1", "single_p50_ms", 3, False),
    ("CPU ms/stream", "stream_cpu_ms", 2, False),
    ("streams/s", "streams_per_s", 0, False),
    ("CPU ms/burst", "burst_cpu_ms", 3, False),
    ("bursts/s", "bursts_per_s", 0, False),
    ("added 1st byte ms", "first_byte_ms", 2, True),
    ("v2 CPU ms", "v2_cpu_ms", 3, False),
    ("v2 calls/s", "v2_rps", 0, False),
    ("gRPC CPU ms", "grpc_cpu_ms", 3, False),
    ("gRPC calls/s", "grpc_rps", 0, False),
)
_RATIOS = (
    "cpu_ms", "rps", "mixed_cpu_ms", "mixed_rps", "stream_cpu_ms", "streams_per_s",
    "burst_cpu_ms", "bursts_per_s", "v2_cpu_ms", "grpc_cpu_ms",
)  # fmt: skip


def as_json(measured: Mapping[str, Measured], absent: Mapping[str, str]) -> dict[str, Any]:
    """Medians by peer; figures that `direct` has too also as what was added to it. A value that
    could not be measured is null, and so is a percentile that fell among failed calls."""
    found: dict[str, Any] = {}
    for name, each in measured.items():
        row: dict[str, Any] = {}
        for _, figure, _, added in _COLUMNS:
            row[figure] = _rounded(each.median(figure))
            if added:
                row[f"added_{figure}"] = _rounded(_added(each, measured.get(DIRECT), figure))
        row["generator_share"] = _rounded(each.median("generator"))
        if each.failed:
            row["failed"] = each.failed
        found[name] = row
    return {**found, **{name: {"absent": why} for name, why in absent.items()}}


def as_text(
    measured: Mapping[str, Measured], absent: Mapping[str, str], notes: Mapping[str, str]
) -> str:
    columns = [c for c in _COLUMNS if any(c[1] in each.figures for each in measured.values())]
    rows = [["", *(heading for heading, *_ in columns)]]
    for name, each in measured.items():
        cells = []
        for _, figure, decimals, added in columns:
            direct = measured.get(DIRECT)
            value = _added(each, direct, figure) if added else each.median(figure)
            cells.append(_cell(value, decimals, signed=added))
        rows.append([name, *cells])
    lines = ["medians", *_aligned(rows), "", *_ratios(measured)]
    lines += [f"{name}: absent: {why}" for name, why in absent.items()]
    lines += [f"{name}: {note}" for name, note in notes.items() if note and name in measured]
    for name, each in measured.items():
        for how, count in each.failed.items():
            lines.append(f"{name}: failed: {how}: {count}  {each.samples.get(how, '')[:200]!r}")
        share = each.median("generator")
        if share is not None and share > 0.8:
            lines.append(f"{name}: the generator used {share:.0%} of a core, and held it back")
    return "\n".join(lines)


def _ratios(measured: Mapping[str, Measured]) -> list[str]:
    """Of each to Spillway's inspected calls: above 1 is more than that."""
    base = measured.get("spillway_inspected")
    if base is None or len(measured) < 2:
        return []
    figures = [f for f in _RATIOS if base.median(f)]
    headings = {figure: heading for heading, figure, *_ in _COLUMNS}
    rows = [["", *(headings[f] for f in figures)]]
    for name, each in measured.items():
        cells = []
        for figure in figures:
            pairs = zip(each.figures.get(figure, ()), base.figures[figure], strict=False)
            ratios = sorted(mine / other for mine, other in pairs if other)
            cells.append(f"{ratios[len(ratios) // 2]:.2f}" if ratios else "-")
        rows.append([name, *cells])
    title = "ratios to spillway_inspected (medians of the rounds' own ratios)"
    return [title, *_aligned(rows), ""]


def _added(each: Measured, direct: Measured | None, figure: str) -> float | None:
    """The median over rounds of what was added in that round."""
    if direct is None:
        return None
    pairs = zip(each.figures.get(figure, ()), direct.figures.get(figure, ()), strict=False)
    added = sorted(mine - bare for mine, bare in pairs)
    return added[len(added) // 2] if added else None


def _cell(value: float | None, decimals: int, *, signed: bool) -> str:
    if value is None:
        return "-"
    if math.isinf(value):
        return "failed"
    return f"{value:+.{decimals}f}" if signed else f"{value:.{decimals}f}"


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 4)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
