"""The end of the demo as a person reads it: where every call went, why, and the proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gateway.accounting.live.words import why
from gateway.demo.plan import PHASES, ClientMethod
from gateway.demo.proof import Proof
from gateway.demo.summary import CLOUD, ONPREM, RESTRICTED, CallGroup, CallTally, Summary
from gateway.demo.words import PROTOCOLS, ZONES

_MOST_LISTED = 5


def report(summary: Summary, proof: Proof) -> Iterator[RenderableType]:
    total = summary.total
    yield ""
    yield Text.assemble(
        (f"{total.calls} calls", "bold"),
        f", {total.restricted} of them with restricted data: {total.onprem} answered on-prem, "
        f"{total.cloud} in the cloud, {total.unanswered} not answered.",
    )
    yield "The on-prem Triton is real and runs on this machine. The cloud is simulated here, too."
    yield ""
    yield _by_class(summary)
    yield _legend(summary)
    yield ""
    yield _reasons(summary)
    yield ""
    yield _tallies("phase", summary.by_phase, {p.name: f"{p.name}: {p.says}" for p in PHASES})
    yield "each call in the phase in which it was sent"
    yield ""
    yield _tallies("protocol", summary.by_protocol, PROTOCOLS)
    yield _clients(summary)
    yield ""
    if summary.false_alarms:
        yield (
            "clear calls held to be restricted, for a finding or for want of time to read them: "
            f"{summary.false_alarms}"
        )
        yield ""
    yield from _verdict(proof)


def _by_class(summary: Summary) -> Table:
    table = _table("Where every call went", "class", "answered")
    for name in ("calls", "p50 ms", "p95 ms", "in time", "cost USD"):
        table.add_column(name, justify="right")
    for (sensitivity, zone), group in summary.groups.items():
        forbidden = (sensitivity, zone) == (RESTRICTED, CLOUD)
        if group.calls or forbidden:
            style = ("bold red" if group.calls else "bold green") if forbidden else ""
            table.add_row(sensitivity, ZONES[zone], *_figures(group), style=style)
    return table


def _legend(summary: Summary) -> str:
    onprem, cloud = summary.cost_usd[ONPREM], summary.cost_usd[CLOUD]
    return (
        "in time: answered within the latency budget, of the calls that stated one\n"
        f"cost: at the prices of the settings; on-prem {onprem:.4f}, cloud {cloud:.4f}"
    )


def _figures(group: CallGroup) -> tuple[str, ...]:
    return (
        str(group.calls),
        "-" if group.p50_ms is None else f"{group.p50_ms:.0f}",
        "-" if group.p95_ms is None else f"{group.p95_ms:.0f}",
        f"{group.deadline_met} of {group.deadline_stated}" if group.deadline_stated else "-",
        f"{group.cost_usd:.4f}",
    )


def _reasons(summary: Summary) -> Table:
    spilled = summary.total.spilled
    table = _table(f"Why ({spilled} spilled to the cloud)", "answered")
    table.add_column("calls", justify="right")
    table.add_column("reason", no_wrap=True)
    table.add_column("in words")
    last = ""
    for (zone, reason), calls in summary.reasons.items():
        table.add_row("" if zone == last else ZONES[zone], str(calls), reason, why(zone, reason))
        last = zone
    return table


def _clients(summary: Summary) -> str:
    used = dict.fromkeys(
        method.client for method in ClientMethod if method.value in summary.by_client
    )
    return f"clients, all unmodified: {', '.join(used)}"


def _tallies(name: str, tallies: Mapping[str, CallTally], labels: Mapping[str, str]) -> Table:
    table = _table(f"By {name}")
    table.add_column(name)
    for column in ("calls", "on-prem", "cloud\n(simulated)", "not\nanswered", "in time"):
        table.add_column(column, justify="right", no_wrap=True)
    for key, tally in tallies.items():
        table.add_row(
            labels[key],
            *(str(n) for n in (tally.calls, tally.onprem, tally.cloud, tally.unanswered)),
            f"{tally.deadline_met} of {tally.deadline_stated}" if tally.deadline_stated else "-",
        )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _verdict(proof: Proof) -> Iterator[RenderableType]:
    leaked = len(proof.leaked)
    style = "bold red" if leaked else "bold green"
    yield Text(f"restricted calls in the cloud: {leaked}", style=style)
    yield (
        f"  looked for {proof.markers} markers of {proof.restricted_calls} restricted calls in all "
        f"{proof.cloud_bytes:,} bytes that reached the cloud:\n"
        "  as plain text and in JSON, percent, hex, UTF-16 and base64 encoding, compressed or not"
    )
    yield (
        f"  of the {proof.controls} clear calls that the cloud answered, the same search finds "
        f"{proof.controls_detected}"
    )
    if proof.disagreements:
        count = len(proof.disagreements)
        yield Text(f"  {count} contradictions between the cloud, records and answers:", style="red")
        yield from (f"    {disagreement}" for disagreement in proof.disagreements[:_MOST_LISTED])
    else:
        yield "  the decision records and the answers' headers say the same"
    if not proof.holds:
        yield Text("The promise does not hold in this run, or could not be shown.", "bold red")


def document(summary: Summary, proof: Proof) -> dict[str, Any]:
    """The same for programs."""
    document = summary.as_json()
    return {
        "calls": document["calls"],
        "restricted": document["restricted"],
        "restricted_in_cloud": len(proof.leaked),
        **document,
        "proof": proof.as_json(),
        "cloud_is_simulated": True,
    }
