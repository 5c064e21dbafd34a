"""The figures as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from gateway.simulate.capacity import FleetSize, cheapest
from gateway.simulate.mix import RouteMix
from gateway.simulate.moves import Matrix, Moves, RecordedFigures
from gateway.simulate.records import PLACES, Skipped
from gateway.simulate.study import StudyFigures

_HEADING: Final = (
    "policy", "regret", "attained", "restricted", "clear", "cloud cost", "spilled", "missed",
    "utilised", "batch",
)  # fmt: skip
_SIZES: Final = ("servers", "GPU $/h", "cloud $/h", "missed $/h", "total $/h", "attained")
_CLOUD: Final = (
    "in the cloud", "attempts", "answered", "failed", "429", "cut", "came back", "ejections",
    "attained then", "clear then",
)  # fmt: skip
RECORDED: Final = "recorded"


@dataclass(frozen=True, slots=True)
class Compared:
    """What the recorded run did, beside the policies."""

    recorded: RecordedFigures
    moves: Mapping[str, Moves]
    skipped: Skipped


@dataclass(frozen=True, slots=True)
class SimulationReport:
    title: str
    results: Mapping[str, StudyFigures]
    sizes: Sequence[FleetSize] = ()
    mixes: Mapping[str, RouteMix] = field(default_factory=dict)
    trouble: Sequence[tuple[float, float]] = ()  # outages and slow spells, in seconds
    compared: Compared | None = None


def as_json(report: SimulationReport) -> dict[str, object]:
    document: dict[str, object] = {name: _figures(f) for name, f in report.results.items()}
    if report.compared is not None:
        document[RECORDED] = asdict(report.compared.recorded)
        document["moves"] = {name: asdict(moves) for name, moves in report.compared.moves.items()}
        document["skipped"] = asdict(report.compared.skipped)
    if report.sizes:
        document["servers"] = [
            asdict(size) | {"figures": _figures(size.figures), "total_usd": size.total_usd}
            for size in report.sizes
        ]
    return document


def _figures(figures: StudyFigures) -> dict[str, object]:
    document = asdict(figures)
    return (
        document
        if figures.cloud is not None
        else {k: v for k, v in document.items() if k != "cloud"}
    )


@dataclass(frozen=True, slots=True)
class Table:
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    below: str = ""

    def __str__(self) -> str:
        cells = [self.heading, *self.rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.heading))]
        lines = []
        for row in cells:
            padded = [row[0].ljust(widths[0])]
            padded += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            lines.append("  ".join(padded).rstrip())
        return "\n".join(lines) + (f"\n\n{self.below}" if self.below else "")


def tables(report: SimulationReport) -> list[Table]:
    tables = [_policies(report)]
    if any(f.cloud is not None for f in report.results.values()):
        tables.append(_clouds(report))
    if report.compared is not None:
        tables += [_moves(name, moves) for name, moves in report.compared.moves.items()]
    if report.sizes:
        tables.append(_sizes(report.sizes))
    return tables


def _policies(report: SimulationReport) -> Table:
    rows: list[Sequence[str]] = [
        (
            name,
            "-" if f.regret is None else f"{f.regret:.3f}",
            percent(f.attainment.all),
            percent(f.attainment.restricted),
            percent(f.attainment.clear),
            f"{f.cloud_cost:.0f}",
            percent(f.spilled / f.calls),
            percent(1.0 - f.attainment.all),
            percent(f.utilisation),
            f"{f.mean_batch:.1f}",
        )
        for name, f in report.results.items()
    ]
    if report.compared is not None:
        rows.insert(0, _recorded(report.compared.recorded))
    return Table(_HEADING, rows)


def _recorded(f: RecordedFigures) -> tuple[str, ...]:
    return (
        RECORDED, "-", percent(f.attainment.all), percent(f.attainment.restricted),
        percent(f.attainment.clear), f"{f.cloud_cost:.0f}", percent(f.spilled / f.calls),
        percent(f.missed / f.calls), "-", "-",
    )  # fmt: skip


def _clouds(report: SimulationReport) -> Table:
    rows = []
    for name, figures in report.results.items():
        if figures.cloud is not None:
            c, then = figures.cloud.attempts, figures.cloud.in_trouble
            rows.append((
                name, str(c.attempts), str(c.answered), str(c.failed), str(c.busy), str(c.cut),
                str(c.returned), str(c.ejections), percent(then.all if then else None),
                percent(then.clear if then else None),
            ))  # fmt: skip
    return Table(_CLOUD, rows, "then: of the calls that arrived in an outage or a slow spell")


def _moves(policy: str, moves: Moves) -> Table:
    heading = (f"recorded -> {policy}", *(f"{c} {p}" for c in ("clear", "restr.") for p in PLACES))
    rows = [
        (place, *_counts(moves.clear, place), *_counts(moves.restricted, place)) for place in PLACES
    ]
    return Table(heading, rows, f"{moves.moved} calls would have gone elsewhere")


def _counts(matrix: Matrix, before: str) -> list[str]:
    return [str(matrix[before][after]) for after in PLACES]


def _sizes(sizes: Sequence[FleetSize]) -> Table:
    best = cheapest(sizes)
    rows = [
        (
            str(s.servers), f"{s.gpu_usd:.2f}", f"{s.cloud_usd:.2f}", f"{s.missed_usd:.2f}",
            f"{s.total_usd:.2f}", percent(s.figures.attainment.all),
        )
        for s in sizes
    ]  # fmt: skip
    return Table(_SIZES, rows, f"cheapest: {best.servers} servers, {best.total_usd:.2f} $/h")


def describe_skipped(skipped: Skipped) -> str:
    """Empty when every line was simulated."""
    parts = []
    if skipped.malformed:
        parts.append(f"{skipped.malformed} lines are no decision records ({skipped.first})")
    if skipped.rejected:
        parts.append(f"{skipped.rejected} calls were rejected as their callers' fault")
    if skipped.other_models:
        parts.append(f"{skipped.other_models} calls were to other models")
    return f"left out: {'; '.join(parts)}" if parts else ""


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
