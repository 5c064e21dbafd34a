"""`spillway models ls`: what is in the repository."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from gateway.cli import console
from gateway.cli.models import add_repository
from gateway.models import listing

_WIDE = 200  # columns, for files and pipes


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("ls", help="what is in the repository")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    add_repository(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if not args.repository.is_dir():
        console.fail(f"{args.repository}: is no directory; name one with --repository")
        return 2
    models = listing.listed(args.repository)
    if args.json:
        console.put_json([model.as_json() for model in models])
        return 0
    table = Table(box=None, pad_edge=False)
    for column in (
        "model",
        "version",
        "variant",
        "bytes",
        "sha256",
        "ranges",
        "verified",
        "rows",
        "profile",
    ):
        table.add_column(column, justify="right" if column == "bytes" else "left", no_wrap=True)
    for model in models:
        _rows(table, model)
    Console(width=None if sys.stdout.isatty() else _WIDE, emoji=False).print(table)
    return 0


def _rows(table: Table, model: listing.Listed) -> None:
    number = str(model.versions[-1]) if model.versions else "-"
    ranges = ", ".join(f"{n} {a}..{c} ({b})" for n, (a, b, c) in model.ranges)
    profiled = "yes" if model.profiled else "-"
    if not model.variants:
        table.add_row(
            model.name, number, model.wrong or "code alone", "", "", ranges, "-", "-", profiled
        )
    for at, variant in enumerate(model.variants):
        first = (model.name, number) if at == 0 else ("", "")
        verified = {True: "yes", False: "NO", None: "-"}[variant.verified]
        table.add_row(
            *first,
            f"{variant.file} ({variant.precision})",
            f"{variant.size_bytes:,}",
            variant.sha256[:12],
            ranges if at == 0 else "",
            verified,
            variant.rows or "-",
            profiled if at == 0 else "",
        )
