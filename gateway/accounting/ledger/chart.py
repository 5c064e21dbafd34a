"""Spend as bars: a picture in SVG, for a page or a letter. No script, no external request."""

from __future__ import annotations

from xml.sax.saxutils import escape

from gateway.accounting.ledger.report import SpendReport
from gateway.accounting.pricing import usd

_ROW, _BAR, _NAMES, _BARS, _SUMS = 24, 14, 190, 460, 110
_HEAD = 56
MOST = 30  # bars; the rest is one more
ONPREM, CLOUD = "#1b7837", "#762a83"  # told apart by the colour-blind too (ColorBrewer PRGn)


def svg(report: SpendReport) -> str:
    """What each group cost, on-prem and in the cloud."""
    rows = _rows(report)
    most = max((onprem + cloud for _, onprem, cloud in rows), default=0) or 1
    width, height = _NAMES + _BARS + _SUMS, _HEAD + _ROW * len(rows) + 12
    title = f"Spend by {report.question.by}, {report.first} to {report.last} (US dollars)"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(12, 20, title, weight="bold"),
        _box(12, 30, 10, ONPREM) + _text(28, 39, "on-prem"),
        _box(92, 30, 10, CLOUD) + _text(108, 39, "cloud"),
    ]
    for at, (name, onprem, cloud) in enumerate(rows):
        y = _HEAD + at * _ROW
        onprem_width = onprem * _BARS / most
        parts += [
            _text(_NAMES - 8, y + 11, _short(name), anchor="end"),
            _box(_NAMES, y, onprem_width, ONPREM),
            _box(_NAMES + onprem_width, y, cloud * _BARS / most, CLOUD),
            _text(
                _NAMES + (onprem + cloud) * _BARS / most + 6, y + 11, f"{usd(onprem + cloud):,.4f}"
            ),
        ]
    return "\n".join([*parts, "</svg>", ""])


def _rows(report: SpendReport) -> list[tuple[str, int, int]]:
    rows = [(g.name, g.onprem, g.cloud) for g in report.groups]
    if report.question.by == "day":
        return rows[-MOST:]
    rest = rows[MOST:]
    if rest:
        others = f"{len(rest)} others", sum(r[1] for r in rest), sum(r[2] for r in rest)
        return [*rows[:MOST], others]
    return rows


def _short(name: str) -> str:
    return name if len(name) <= 28 else name[:27] + "…"


def _box(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(text)}</text>"
    )
