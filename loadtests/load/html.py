"""A report of runs as one HTML file that asks nobody for anything: no script, no font, no link."""

from __future__ import annotations

import datetime
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from loadtests.load import charts

_STYLE = """
:root { color-scheme: light dark;
        --ink: #1c2126; --faint: #d8dde2; --ground: #fff; --soft: #5b6670 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaee; --faint: #3a424a; --ground: #15191d; --soft: #9aa5af }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
       max-width: 1080px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .2rem }
p { color: var(--soft); margin: .2rem 0 .6rem } .wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 12.5px }
th, td { padding: .2rem .4rem; text-align: right; border-bottom: 1px solid var(--faint);
         white-space: nowrap }
th:first-child, td:first-child { text-align: left } td.wrong { color: #d0342c; font-weight: 600 }
svg { width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: var(--ink) }
.grid { stroke: var(--faint); stroke-width: 1 }
"""
_COLUMNS = (
    "run",
    "sent",
    "answered",
    "failed",
    "answers/s",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "max ms",
    "CPU ms",
    "generator",
)

_MOST_CURVES = 8
_COUNTED = "Latency counts from when a call was meant to be sent."
_DISTRIBUTION = (
    "Of all calls that were sent: a curve that ends early had failures. Each line up is a tenth of "
    "the calls above the one before."
)

Document = Mapping[str, Any]
"""What `Result.as_json` makes."""


def write(path: Path, documents: Sequence[Document], title: str = "Load on a gateway") -> None:
    """Runs of the same label belong together: a line of the throughput chart."""
    parts = [
        _section(
            "Runs", _table(documents), "Latency counts from when a call was meant to be sent."
        ),
        *(
            _section(
                title,
                charts.distributions({_name(d, group): _of_sent(d) for d in group}),
                _DISTRIBUTION,
            )
            for title, group in _groups(documents)
        ),
        _section(
            "Throughput",
            charts.frontier(_frontier(documents)),
            "Each point is a run: what was answered in a second, and the median that it took.",
        ),
    ]
    for document in documents:
        if any(second["routes"] for second in document["seconds"]):
            name = _name(document, documents)
            parts.append(_section(f"Routes: {name}", charts.over_time(_routes(document)), ""))
    when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    path.write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1><p>{when} · {escape(machine)}</p>{''.join(parts)}</body></html>\n"
    )


def _section(title: str, body: str, words: str) -> str:
    said = f"<p>{escape(words)}</p>" if words else ""
    return f'<section><h2>{escape(title)}</h2>{said}<div class="wide">{body}</div></section>'


def _table(documents: Sequence[Document]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in _COLUMNS)
    rows = []
    for document in documents:
        ms = document["latency_ms"]
        failed = sum(document["failed"].values())
        how = "; ".join(f"{k}: {n}" for k, n in document["failed"].items())
        cost = "-" if document["cpu_ms"] is None else f"{document['cpu_ms']:.3f}"
        cells = [
            f"<td>{escape(_name(document, documents))}</td>",
            f"<td>{document['sent']}</td><td>{document['answered']}</td>",
            f'<td class="{"wrong" if failed else ""}" title="{escape(how)}">{failed}</td>',
            f"<td>{document['per_s']:.1f}</td>",
            *(f"<td>{ms[key]:.2f}</td>" for key in ("p50", "p99", "p999", "max")),
            f"<td>{cost}</td><td>{document['generator']['cpu_share']:.0%}</td>",
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _groups(documents: Sequence[Document]) -> list[tuple[str, Sequence[Document]]]:
    """What one chart can show: all runs, or those of one load each where there are many."""
    if len(documents) <= _MOST_CURVES:
        return [("Latency", documents)]
    loads = dict.fromkeys(str(document["load"]) for document in documents)
    return [(f"Latency, {load}", [d for d in documents if d["load"] == load]) for load in loads]


def _of_sent(document: Document) -> list[tuple[float, float]]:
    part = document["answered"] / max(1, document["sent"])
    return [(ms, share * part) for ms, share in document["cdf"]]


def _name(document: Document, documents: Sequence[Document]) -> str:
    """Its label, and its load where several runs have that label."""
    label, load = str(document["label"]), str(document["load"])
    same = Counter(str(each["label"]) for each in documents)[label]
    return f"{label}, {load}" if same > 1 else label


def _frontier(documents: Sequence[Document]) -> dict[str, list[tuple[float, float]]]:
    """Closed and open loops are not points of one line; where there are both, the closed ones."""
    closed = [d for d in documents if str(d["load"]).endswith(" connections")]
    series: dict[str, list[tuple[float, float]]] = {}
    for document in closed or documents:
        point = (document["per_s"], document["latency_ms"]["p50"])
        series.setdefault(str(document["label"]), []).append(point)
    return series


def _routes(document: Document) -> list[dict[str, float]]:
    return [
        {**second["routes"], **({"failed": second["failed"]} if second["failed"] else {})}
        for second in document["seconds"]
    ]
