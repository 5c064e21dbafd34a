"""`spillway costs`: what was spent, what that saved, and whether another GPU would pay."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from rich import box
from rich.bar import Bar
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gateway.accounting.ledger.chart import svg
from gateway.accounting.ledger.database import LedgerDown, LedgerError
from gateway.accounting.ledger.reading import LedgerReader
from gateway.accounting.ledger.report import (
    BY,
    BadQuestion,
    ReportQuery,
    SpendGroup,
    SpendReport,
    as_json,
)
from gateway.accounting.pricing import usd
from gateway.cli import console

_WIDE = 110  # columns of a terminal that has room for bars
_MOST = 25  # rows of the table; --csv and --json have all
_COLUMNS = ("attempts", "served", "onprem_usd", "cloud_usd", "unserved_usd", "tokens", "estimated")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "costs",
        help="what calls cost, and what that saved",
        description="From the ledger, for all days that it has, unless --from and --to say less. "
        "Needs no running gateway.",
    )
    console.add_config(parser)
    parser.add_argument("--by", default="tenant", help=f"one of {', '.join(BY)}; default tenant")
    parser.add_argument("--from", dest="first", metavar="DAY", help="the first, as 2026-11-01")
    parser.add_argument("--to", dest="last", metavar="DAY", help="the last, it included")
    parser.add_argument("--tenant", help="of this one alone")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the whole report as JSON")
    form.add_argument("--csv", action="store_true", help="the groups as CSV")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="and a picture of the groups")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = console.load_settings(args.config)
    try:
        question = ReportQuery.from_arguments(args.by, args.first, args.last, args.tenant)
        report = LedgerReader.from_settings(settings).report(question)
    except BadQuestion as bad:
        console.fail(str(bad))
        return 2
    except (LedgerError, LedgerDown) as failed:
        console.fail(str(failed))
        return 1
    if args.svg is not None:
        args.svg.write_text(svg(report))
    if args.json:
        console.put_json(as_json(report))
    elif args.csv:
        _put_csv(report)
    else:
        _show(report, Console(highlight=False, emoji=False))
    return 0


def _put_csv(report: SpendReport) -> None:
    out = csv.writer(sys.stdout)
    out.writerow([report.question.by, *_COLUMNS])
    for g in report.groups:
        out.writerow([_unformula(g.name), *_figures(g)])


def _unformula(name: str) -> str:
    """A name that a spreadsheet would take for a formula is marked as text."""
    return "'" + name if name.startswith(("=", "+", "-", "@")) else name


def _figures(g: SpendGroup) -> list[str | int]:
    money = [f"{usd(nano):.9f}" for nano in (g.onprem, g.cloud, g.unserved)]
    return [g.attempts, g.served, *money, g.tokens, g.estimated]


def _show(report: SpendReport, out: Console) -> None:
    by, whole = report.question.by, report.whole
    tenant = f" of {escape(report.question.tenant)}" if report.question.tenant else ""
    table = Table(
        title=f"Spend{tenant} by {by}, {report.first} to {report.last}, in US dollars",
        title_justify="left", box=box.SIMPLE_HEAD, show_footer=True,
    )  # fmt: skip
    table.add_column(by, "all")
    for name, footer in (
        ("attempts", f"{whole.attempts:,}"), ("on-prem", _usd(whole.onprem)),
        ("cloud", _usd(whole.cloud)), ("for nothing", _usd(whole.unserved)),
        ("together", _usd(whole.spent)),
    ):  # fmt: skip
        table.add_column(name, footer, justify="right")
    if wide := out.width >= _WIDE:
        table.add_column("", "")
    shown = report.groups[-_MOST:] if by == "day" else report.groups[:_MOST]
    most = max((g.spent for g in shown), default=0) or 1
    for g in shown:
        bar = [Bar(most, 0, g.spent, width=24)] if wide else []
        table.add_row(
            escape(g.name), f"{g.attempts:,}", _usd(g.onprem), _usd(g.cloud), _usd(g.unserved),
            _usd(g.spent), *bar,
        )  # fmt: skip
    out.print(table)
    if len(shown) < len(report.groups):
        out.print(f"{len(report.groups) - len(shown)} more: --csv and --json have all of them")
    for line in conclusions(report):
        out.print(line, markup=False)


def conclusions(report: SpendReport) -> list[str]:
    """In words, with what they rest on."""
    lines, saved = [], report.saved
    if saved.calls:
        lines.append(
            f"Saved against all-cloud: {_usd(saved.nano_usd)} USD. {saved.calls:,} clear calls "
            f"answered on the premises cost {_usd(saved.cost)}; at the cloud's price of their "
            f"models they would have cost {_usd(saved.in_the_cloud)}."
        )
    if saved.not_compared:
        lines.append(
            f"{saved.not_compared:,} more are not compared: the cloud has no price for their model."
        )
    for g in report.gpus:
        sentence = f"{g.endpoint}: busy {g.utilisation:.1%} of the time"
        if g.break_even is None:
            lines.append(
                f"{sentence}; without clear calls that the cloud has a price for, no break-even"
            )
        elif g.break_even > 1:
            lines.append(
                f"{sentence}; break-even {g.break_even:.1%}: the cloud is cheaper at any load"
            )
        else:
            word = "above" if g.utilisation > g.break_even else "below"
            lines.append(f"{sentence}; break-even at {g.break_even:.1%}, so it is {word} it")
    if report.another is not None and report.another.spilled:
        lines.append(_another(report))
    return lines


def _another(report: SpendReport) -> str:
    it = report.another
    assert it is not None
    needs = "" if it.needs is None else f" ({it.needs:.2f} GPUs would be kept busy)"
    return (
        f"Another GPU would {'pay' if it.pays else 'not pay'} for itself: {it.spilled:,} calls "
        f"left for want of room, at {it.spilled_month_usd:,.2f} USD a month{needs}; one GPU saves "
        f"at most {it.saves_month_usd:,.2f} of that and costs {it.gpu_month_usd:,.2f}."
    )


def _usd(nano_usd: int) -> str:
    return f"{usd(nano_usd):,.6f}"
