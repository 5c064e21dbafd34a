"""Charts as SVG text: latency distributions, latency over throughput, routes over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

# Okabe and Ito: told apart by those who see colours differently too.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5e5e5e", "#8c6d1f")
_DASHES = ("", "7 3", "2 3")
_WIDTH, _HEIGHT = 860, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 200, 14, 44
_MOST_POINTS = 400

_MEDIAN = "median latency, ms"
_MOST_NAMES = 15

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    title: str
    scale: Callable[[float], float]

    def at(self, value: float) -> float:
        """0 at its low end, 1 at its high one."""
        low, high = self.scale(self.low), self.scale(self.high)
        return (self.scale(value) - low) / ((high - low) or 1.0)


def distributions(curves: Mapping[str, Points]) -> str:
    """Curves of (ms, share that took no longer). The upper end is stretched: each line up is a
    tenth of the calls above the line before."""
    values = [ms for curve in curves.values() for ms, _ in curve if ms > 0]
    if not values:
        return _nothing()
    x = _logarithmic(min(values), max(values), "latency, ms")
    rarest = max(len(curve) for curve in curves.values())
    nines = min(5, max(2, math.ceil(math.log10(rarest + 1)) + 1))
    ticks = [(0.0, "0"), (0.5, "50 %"), *((1 - 10**-n, _percent(n)) for n in range(1, nines + 1))]
    top = 1 - 10.0 ** -(nines + 0.3)
    y = _Axis(0.0, top, ticks, "share of calls", lambda share: -math.log10(1 - min(share, top)))
    lines = {name: _steps(curve) for name, curve in curves.items()}
    return _chart(x, y, lines, dots=False)


def frontier(series: Mapping[str, Points]) -> str:
    """Points of (answers per second, ms), joined for each series in the order of throughput."""
    points = [point for each in series.values() for point in each if point[0] > 0 and point[1] > 0]
    if not points:
        return _nothing()
    x = _logarithmic(min(p[0] for p in points), max(p[0] for p in points), "answers per second")
    y = _logarithmic(min(p[1] for p in points), max(p[1] for p in points), _MEDIAN)
    lines = {
        name: sorted(p for p in each if p[0] > 0 and p[1] > 0) for name, each in series.items()
    }
    return _chart(x, y, lines, dots=True)


def over_time(seconds: Sequence[Mapping[str, float]]) -> str:
    """Stacked bars, one a second: name -> calls."""
    names = sorted({name for second in seconds for name in second})
    most = max((sum(second.values()) for second in seconds), default=0)
    if not most:
        return _nothing()
    x = _linear(float(len(seconds)), "second of the run")
    y = _linear(float(most), "calls a second")
    bars = []
    width = (_WIDTH - _LEFT - _RIGHT) / len(seconds)
    for at, second in enumerate(seconds):
        below = 0.0
        for index, name in enumerate(names):
            calls = second.get(name, 0)
            if not calls:
                continue
            left, top = _place(x, y, at, below + calls)
            height = _place(x, y, at, below)[1] - top
            bars.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(0.5, width - 1):.1f}" '
                f'height="{height:.1f}" fill="{_COLOURS[index % len(_COLOURS)]}">'
                f"<title>second {at}: {escape(name)} {calls:g}</title></rect>"
            )
            below += calls
    return _svg([*_axes(x, y), *bars, *_legend(names, dashed=False)])


def _chart(x: _Axis, y: _Axis, lines: Mapping[str, Points], *, dots: bool) -> str:
    drawn = _axes(x, y)
    for index, points in enumerate(lines.values()):
        places = [_place(x, y, *point) for point in points]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in places)
        drawn.append(f'<polyline points="{path}" {_stroke(index)}/>')
        if dots:
            drawn += [
                f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3.5" '
                f'fill="{_COLOURS[index % len(_COLOURS)]}">'
                f"<title>{point[0]:.4g}/s, {point[1]:.4g} ms</title></circle>"
                for (left, top), point in zip(places, points, strict=True)
            ]
    return _svg([*drawn, *_legend(list(lines), dashed=True)])


def _steps(curve: Points) -> Points:
    every = max(1, len(curve) // _MOST_POINTS)
    # The tail is what one looks for: the last points all stay.
    return [*(curve[: -_MOST_POINTS // 4 : every]), *curve[-_MOST_POINTS // 4 :]]


def _place(x: _Axis, y: _Axis, across: float, up: float) -> tuple[float, float]:
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    return _LEFT + x.at(across) * wide, _HEIGHT - _BOTTOM - y.at(up) * high


def _axes(x: _Axis, y: _Axis) -> list[str]:
    right, floor = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    drawn = []
    for value, text in x.ticks:
        left = _place(x, y, value, y.low)[0]
        drawn.append(
            f'<line class="grid" x1="{left:.1f}" x2="{left:.1f}" y1="{_TOP}" y2="{floor}"/>'
        )
        drawn.append(f'<text x="{left:.1f}" y="{floor + 16}" text-anchor="middle">{text}</text>')
    for value, text in y.ticks:
        top = _place(x, y, x.low, value)[1]
        drawn.append(
            f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{top:.1f}" y2="{top:.1f}"/>'
        )
        drawn.append(f'<text x="{_LEFT - 6}" y="{top + 4:.1f}" text-anchor="end">{text}</text>')
    middle = (_LEFT + right) / 2
    drawn.append(f'<text x="{middle}" y="{floor + 36}" text-anchor="middle">{x.title}</text>')
    down = (_TOP + floor) / 2
    drawn.append(
        f'<text transform="translate(14 {down}) rotate(-90)" text-anchor="middle">{y.title}</text>'
    )
    return drawn


def _legend(names: Sequence[str], *, dashed: bool) -> list[str]:
    drawn = []
    for index, name in enumerate(names[:_MOST_NAMES]):
        top = _TOP + 12 + index * 19
        left = _WIDTH - _RIGHT + 14
        stroke = _stroke(index if dashed else index % len(_COLOURS))
        drawn.append(f'<line x1="{left}" x2="{left + 22}" y1="{top - 4}" y2="{top - 4}" {stroke}/>')
        drawn.append(f'<text x="{left + 28}" y="{top}">{escape(name[:26])}</text>')
    if (more := len(names) - _MOST_NAMES) > 0:
        below = _TOP + 12 + _MOST_NAMES * 19
        drawn.append(f'<text x="{_WIDTH - _RIGHT + 14}" y="{below}">and {more} more</text>')
    return drawn


def _stroke(index: int) -> str:
    dash = _DASHES[index // len(_COLOURS) % len(_DASHES)]
    colour = _COLOURS[index % len(_COLOURS)]
    return f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'


def _svg(drawn: Sequence[str]) -> str:
    inside = "\n".join(drawn)
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">\n{inside}\n</svg>'


def _nothing() -> str:
    return "<p>nothing was measured</p>"


def _logarithmic(low: float, high: float, title: str) -> _Axis:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high) + 1e-9)
    last = max(last, first + 1)
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    marks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    bottom = max((m for m in marks if m <= low * 1.001), default=marks[0])
    top = min((m for m in marks if m >= high * 0.999), default=marks[-1])
    ticks = [(mark, f"{mark:g}") for mark in marks if bottom <= mark <= top]
    return _Axis(bottom, top, ticks, title, math.log10)


def _linear(high: float, title: str) -> _Axis:
    step = 10.0 ** math.floor(math.log10(high))
    step = next(s for s in (step / 5, step / 2, step, step * 2) if high / s <= 6)
    ticks = [(n * step, f"{n * step:g}") for n in range(int(high / step) + 1)]
    return _Axis(0.0, high, ticks, title, lambda value: value)


def _percent(nines: int) -> str:
    return f"{100 - 10.0 ** (2 - nines):g} %"
