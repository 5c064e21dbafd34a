"""`spillway values`: a table of exact values from a column of a CSV file, hashed under a key."""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Iterator
from pathlib import Path

from gateway.classify import ScannerUnfit
from gateway.classify.categories import values
from gateway.cli import console


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "values",
        help="make a table of exact values for a category",
        description="Writes keyed digests of a column's values, which nobody can read, for "
        "classify.categories.<name>.values. The key is made where there is none; keep it as a "
        "secret, apart from the table and the CSV file.",
    )
    parser.add_argument("csv", type=Path, metavar="FILE", help="a CSV file whose first row names")
    parser.add_argument("--column", metavar="NAME", help="default: the first")
    parser.add_argument("--key", type=Path, required=True, metavar="FILE", help="of the table")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the table")
    parser.add_argument("--json", action="store_true", help="the counts as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        if not args.key.exists():
            _write(args.key, values.new_key().encode() + b"\n")
        table, count, short = values.written(
            _column(args.csv, args.column), values.read_key(args.key)
        )
        if not count:
            raise ScannerUnfit(
                f"{args.csv}: the column has no value of {values.FEWEST_SIGNS} signs"
            )
        _write(args.out, table)
    except ScannerUnfit as exc:
        console.fail(str(exc))
        return 2
    except (OSError, ValueError, csv.Error) as exc:
        console.fail(f"{args.csv}: {exc}")
        return 2
    if args.json:
        console.put_json({"values": count, "too_short": short})
    else:
        console.err.print(f"{count} values; {short} too short to be distinct from other text")
    return 0


def _column(path: Path, name: str | None) -> Iterator[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        head = next(rows, [])
        if name is not None and name not in head:
            raise ScannerUnfit(f"{path}: no column {name!r}; there are: {', '.join(head)}")
        at = 0 if name is None else head.index(name)
        for row in rows:
            if len(row) > at:
                yield row[at]


def _write(path: Path, content: bytes) -> None:
    """For its owner alone, whole or not at all."""
    begun = path.with_name(f".{path.name}.new")
    with open(os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    begun.replace(path)
