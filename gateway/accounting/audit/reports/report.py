"""A quarter on one page that prints. It loads nothing: no script, no font, no picture."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from gateway.accounting.audit.reports.calls import RecordedCall
from gateway.accounting.audit.reports.figures import AuditFigures
from gateway.accounting.audit.reports.query import TimeRange
from gateway.accounting.audit.verify import JournalVerification
from gateway.core import ambient

_CLASSES = ("clear", "restricted", "unknown")
_PLACES = ("onprem", "cloud", "nowhere")
_OUTCOMES = ("served", "streaming", "sent", "rejected", "shed", "expired", "failed", "cancelled")
_DAY_S = 86_400

_STYLE = """
:root { --ink: #1a1d21; --soft: #5b636b; --line: #d4d9de; --well: #0b6b3a; --wrong: #a3120f; }
* { box-sizing: border-box; }
body { color: var(--ink); background: #fff; font: 10.5pt/1.45 system-ui, sans-serif;
       max-width: 46rem; margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 20pt; line-height: 1.2; margin: 0; }
h2 { font-size: 12.5pt; margin: 1.8rem 0 .4rem; break-after: avoid; }
p { margin: .3rem 0 .6rem; }
.soft { color: var(--soft); }
.verdict { border: 2px solid var(--well); border-left-width: 10px; padding: .8rem 1rem;
           margin: 1.2rem 0; font-size: 12.5pt; }
.verdict.wrong { border-color: var(--wrong); }
.verdict b { font-size: 18pt; }
table { border-collapse: collapse; width: 100%; margin: .3rem 0; }
thead { display: table-header-group; }
tr { break-inside: avoid; }
th, td { text-align: left; padding: .22rem .6rem .22rem 0; border-bottom: 1px solid var(--line);
         vertical-align: top; }
th { font-weight: 600; color: var(--soft); font-size: 9pt; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.none { color: var(--soft); font-style: italic; }
.wrong { color: var(--wrong); } .well { color: var(--well); }
code, pre { font: 8.5pt/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; border: 1px solid var(--line); padding: .5rem .7rem; }
@media print { @page { size: A4; margin: 16mm; } body { margin: 0; padding: 0; max-width: none; } }
"""


@dataclass(frozen=True, slots=True)
class VerificationSummary:
    """What a verification came to, in the words of the page."""

    origin: str
    holds: bool
    findings: tuple[str, ...]
    first: int
    size: int
    note: str  # the text of the last checkpoint that fits
    unsigned: int
    outside: int
    fingerprint: str
    key: str
    key_given: bool

    @classmethod
    def from_verification(
        cls, verification: JournalVerification, key_given: bool
    ) -> VerificationSummary:
        return cls(
            verification.key.name, verification.holds, tuple(map(str, verification.findings)),
            verification.first, verification.head.size,
            verification.signed.text if verification.signed else "",
            verification.unsigned, verification.outside,
            verification.key.fingerprint, str(verification.key), key_given,
        )  # fmt: skip


def page(figures: AuditFigures, checks: Sequence[VerificationSummary]) -> str:
    title = f"What was decided of calls, {_days(figures.span)}"
    body = "".join(
        (
            f"<h1>{escape(title)}</h1>",
            f'<p class="soft">Spillway audit, made {_time(ambient.wall_s())}. Times are UTC. '
            f"Gateways: {escape(', '.join(check.origin for check in checks))}.</p>",
            _verdict(figures, checks),
            _where(figures),
            _leaks(figures.leaks),
            _ends(figures),
            _refusals(figures),
            _tenants(figures),
            _policies(figures),
            _actions(figures),
            _gaps(figures),
            *map(_chain, checks),
            _how(),
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def _verdict(figures: AuditFigures, checks: Sequence[VerificationSummary]) -> str:
    broken = [check for check in checks if not check.holds]
    count = len(figures.leaks)
    restricted = sum(n for (kind, _), n in figures.ended.items() if kind != "clear")
    well = not broken and not count
    if broken:
        sentence = (
            "<b>No statement can be made.</b><br>The records of "
            f"{escape(', '.join(check.origin for check in broken))} are not as they were written, "
            "and are not counted below."
        )
    else:
        sentence = (
            f"<b>{count}</b> of {restricted} calls that were restricted, or not read, touched the "
            f"cloud. {figures.calls} calls are on record."
        )
    return f'<div class="verdict{"" if well else " wrong"}">{sentence}</div>'


def _named(built_in: Sequence[str], counts: Counter[tuple[str, str]], at: int) -> list[str]:
    """With classes or zones of the settings' own."""
    return [*built_in, *sorted({key[at] for key in counts} - {*built_in})]


def _where(figures: AuditFigures) -> str:
    places = _named(_PLACES, figures.touched, 1)
    rows = [
        [kind, *(figures.touched[kind, place] for place in places)]
        for kind in _named(_CLASSES, figures.touched, 0)
        if any(figures.touched[kind, place] for place in places) or kind != "unknown"
    ]
    return (
        "<h2>Calls by class and by the zones that they touched</h2>"
        "<p>A call that was tried in both zones counts in both. <i>Unknown</i> are calls that were "
        "refused before they were read; they are treated as restricted.</p>"
        + _table(["class", *places], rows)
    )


def _leaks(leaks: Sequence[RecordedCall]) -> str:
    rows = [
        [
            _time(c.time_s),
            c.id,
            c.kind,
            ", ".join(c.zones),
            c.tenant,
            c.model,
        ]
        for c in leaks
    ]
    return "<h2>Restricted or unread calls that touched the cloud</h2>" + _table(
        ["time", "call", "class", "zones", "tenant", "model"], rows, "There is none."
    )


def _ends(figures: AuditFigures) -> str:
    rows = [
        [kind, *(figures.ended[kind, outcome] for outcome in _OUTCOMES)]
        for kind in _named(_CLASSES, figures.ended, 0)
        if any(figures.ended[kind, outcome] for outcome in _OUTCOMES)
    ]
    return "<h2>How calls ended</h2>" + _table(["class", *_OUTCOMES], rows, "There were none.")


def _refusals(figures: AuditFigures) -> str:
    return "<h2>Refusals and failures, by reason</h2>" + _table(
        ["class", "reason", "calls"], _counted(figures.refusals), "There were none."
    )


def _tenants(figures: AuditFigures) -> str:
    return "<h2>Calls by tenant and zone</h2>" + _table(
        ["tenant", "zone", "calls"], _counted(figures.tenants), "There were none."
    )


def _counted(counts: Counter[tuple[str, str]]) -> list[list[object]]:
    return [[*what, count] for what, count in counts.most_common()]


def _policies(figures: AuditFigures) -> str:
    some = sorted(figures.policies.items(), key=lambda item: item[1].first_s)
    rows = [[name, _time(p.first_s), _time(p.last_s), p.calls] for name, p in some]
    return "<h2>Settings in force</h2>" + _table(
        ["policy hash", "first call", "last call", "calls"], rows, "None: there were no calls."
    )


def _actions(figures: AuditFigures) -> str:
    some = sorted(figures.actions, key=lambda action: action.time_s)
    rows = [[_time(a.time_s), a.action, a.on, a.by or "not known", a.via, a.tenant] for a in some]
    return (
        "<h2>What operators did</h2>"
        "<p>On the console, each by its credential; the kill switch by its file; keys by the "
        "command, with the user who ran it.</p>"
        + _table(["time", "action", "on", "by", "via", "tenant"], rows, "Nothing.")
    )


def _gaps(figures: AuditFigures) -> str:
    rows = [[g.origin, _time(g.from_s), _time(g.until_s), g.why] for g in figures.gaps]
    sentence = ""
    if figures.unrecorded:
        sentence += f'<p class="wrong">{figures.unrecorded} records could not be written.</p>'
    if figures.torn:
        sentence += (
            f"<p>{figures.torn} lines were torn by a kill, and are kept beside the records.</p>"
        )
    return (
        "<h2>Times without a gateway, or without records</h2>"
        "<p>From the last record to the next start; nothing is answered in that time. While "
        "records cannot be written, calls are refused.</p>"
        + sentence
        + _table(["gateway", "from", "until", "why"], rows, "There were none.")
    )


def _chain(check: VerificationSummary) -> str:
    state = (
        '<span class="well">every record fits the one before it</span>'
        if check.holds
        else '<span class="wrong">the records were changed</span>'
    )
    findings = "".join(f'<p class="wrong">{escape(finding)}</p>' for finding in check.findings)
    source = "given by whoever made this page" if check.key_given else "found beside the records"
    outside = (
        f"Checkpoints that were kept elsewhere, and fit: {check.outside}."
        if check.outside
        else "No checkpoint that was kept elsewhere was compared."
    )
    return (
        f"<h2>The chain of {escape(check.origin)}</h2>"
        f"<p>Records {check.first} to {check.size - 1}: {state}. {outside} "
        f"Records newer than the last checkpoint: {check.unsigned}.</p>{findings}"
        f"<p>The last checkpoint that fits (origin, size, root):</p><pre>{escape(check.note)}</pre>"
        f"<p>Key ({source}): <code>{escape(check.key)}</code><br>"
        f"SHA-256 of the key: <code>{check.fingerprint}</code></p>"
    )


def _how() -> str:
    return (
        "<h2>To check this page</h2>"
        "<p>With the records, the public key and a checkpoint that was exported at the time: "
        "<code>spillway audit verify --key KEY --checkpoint FILE</code>, then "
        "<code>spillway audit query --class restricted --zone cloud</code>, which prints nothing. "
        "One call: <code>spillway audit prove ID</code>.</p>"
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]], none: str = "") -> str:
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    if not body and none:
        body = f'<tr><td class="none" colspan="{len(heads)}">{escape(none)}</td></tr>'
    numbers = {*_PLACES, *_OUTCOMES, "calls"}
    head = "".join(
        f"<th{' class=n' if name in numbers else ''}>{escape(name)}</th>" for name in heads
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f'<td class="n">{value}</td>'
    return f"<td>{escape(str(value))}</td>"


def _time(at_s: float) -> str:
    return dt.datetime.fromtimestamp(at_s, dt.UTC).strftime("%Y-%m-%d\u00a0%H:%M:%S")


def _days(span: TimeRange) -> str:
    first, last = (
        dt.datetime.fromtimestamp(at_s, dt.UTC).strftime("%Y-%m-%d")
        for at_s in (span.from_s, span.until_s - _DAY_S)
    )
    return f"{first} to {last}"
