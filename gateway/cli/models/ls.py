"""`spillway models ls`: what is in the repository."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from gateway import config
from gateway.cli import console
from gateway.cli.models import add_repository
from gateway.config import ConfigError
from gateway.models import listing

_WIDE = 200  # columns, for files and pipes


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("ls", help="what is in the repository")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    add_repository(parser)
    console.add_config(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if not args.repository.is_dir():
        console.fail(f"{args.repository}: is no directory; name one with --repository")
        return 2
    models = listing.listed(args.repository)
    splits = _splits(args)
    if args.json:
        console.put_json([{**m.as_json(), "split": splits.get(m.name, {})} for m in models])
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
        _rows(table, model, splits.get(model.name, {}))
    Console(width=None if sys.stdout.isatty() else _WIDE, emoji=False).print(table)
    return 0


def _splits(args: argparse.Namespace) -> dict[str, Mapping[str, float]]:
    """By a model's name in the repository, the weights of its versions in the settings. Settings
    that cannot be read here are no reason to list nothing."""
    try:
        settings = config.load(console.settings_path(args.config))
    except ConfigError:
        if args.config is not None:
            raise
        return {}
    return {
        served.model or name: model.versions
        for name, model in settings.models.items()
        for served in model.served_by
        if settings.endpoints[served.endpoint].embedded and model.versions
    }


def _rows(table: Table, model: listing.Listed, split: Mapping[str, float]) -> None:
    number = str(model.versions[-1]) if model.versions else "-"
    if total := sum(split.values()):
        number = ", ".join(f"{v} ({weight / total:.0%})" for v, weight in split.items())
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
