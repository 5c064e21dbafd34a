"""The page of `spillway top`, for a terminal of any width."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gateway.app.top.readings import ENDS, SENSITIVITIES, TopFigures

_ZONES = {"onprem": "on-prem", "cloud": "cloud"}
_MOST_ROWS = 12  # of queues; the busiest are shown


def page(url: str, now: TopFigures | None, silent_s: float = 0.0, why: str = "") -> RenderableType:
    """`silent_s`: for how long the gateway has told nothing, if it has not."""
    head = Text(f"spillway  {url}  ")
    if silent_s:
        head.append(f" NO ANSWER for {silent_s:.0f} s ({why}): what follows is old ", "reverse red")
    if now is None:
        return Group(head, Text("waiting for the first answer"))
    head.append(f"policy {now.policy}  calls in flight {now.calls_in_flight}")
    if now.draining:
        head.append("  DRAINING", "bold yellow")
    return Group(head, _promise(now), _calls(now), _endpoints(now), _queues(now))


def _promise(now: TopFigures) -> Text:
    if now.restricted_in_cloud:
        return Text(f"RESTRICTED CALLS IN THE CLOUD: {now.restricted_in_cloud}", "reverse bold red")
    return Text("restricted calls in the cloud: 0", "green")


def _calls(now: TopFigures) -> Table:
    table = Table(title="calls per second", title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for end in ENDS:
        table.add_column(_ZONES.get(end, end), justify="right")
    for sensitivity in SENSITIVITIES:
        row = [f"{now.per_s[sensitivity, end]:.1f}" for end in ENDS]
        table.add_row(sensitivity, *row)
    for at, name in enumerate(("p50", "p95", "p99")):
        cells = [_ms(p[at] if p else None) for p in now.percentiles_s.values()]
        table.add_row(name, *cells, "")
    table.add_row("spent", "", f"${now.spend_usd:.4f}", f"${now.spend_usd_per_h:.2f}/h")
    return table


def _endpoints(now: TopFigures) -> Table:
    table = Table(title="endpoints", title_justify="left", box=None, pad_edge=False)
    for name in ("name", "zone", "state"):
        table.add_column(name)
    for name in ("in flight", "calls/s", "failed/s", "p50", "p95"):
        table.add_column(name, justify="right")
    for its in now.endpoints:
        table.add_row(
            Text(its.name),
            _ZONES.get(its.zone, its.zone),
            Text(its.state, "" if its.state == "up" else "bold red"),
            str(its.in_flight),
            f"{its.per_s:.1f}",
            Text(f"{its.failed_per_s:.1f}", "red" if its.failed_per_s else ""),
            _ms(its.p50_s),
            _ms(its.p95_s),
        )
    return table


def _queues(now: TopFigures) -> Table:
    table = Table(title="queues", title_justify="left", box=None, pad_edge=False)
    table.add_column("model")
    table.add_column("servers")
    table.add_column("waiting", justify="right")
    table.add_column("with servers", justify="right")
    for its in now.queues[:_MOST_ROWS]:
        names = (Text(its.model), Text(its.servers))
        table.add_row(*names, str(its.waiting), str(its.with_servers))
    if len(now.queues) > _MOST_ROWS:
        table.add_row(f"and {len(now.queues) - _MOST_ROWS} more", "", "", "")
    return table


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"
