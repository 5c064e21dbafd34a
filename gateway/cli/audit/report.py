"""`spillway audit report`: one page for a quarter, to print."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway.accounting.audit.reports.figures import AuditFigures
from gateway.accounting.audit.reports.query import quarter
from gateway.accounting.audit.reports.report import VerificationSummary, page
from gateway.accounting.audit.verify import records
from gateway.cli import console
from gateway.cli.audit.directories import argument
from gateway.cli.audit.verify import verified


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quarter", type=argument(quarter), required=True, metavar="2026Q3",
                        help="of a year, in UTC")  # fmt: skip
    parser.add_argument(
        "--checkpoint", type=Path, action="append", default=[], metavar="FILE",
        help="checkpoints that were kept elsewhere, to compare with",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="an HTML page")


def run(args: argparse.Namespace) -> int:
    figures, checks = AuditFigures(args.quarter), []
    for verification in verified(args):
        checks.append(VerificationSummary.from_verification(verification, args.key is not None))
        if verification.holds:  # guard: B5.broken-chain always
            figures.add(records(verification.directory))
    args.out.write_text(page(figures, checks))
    whole = all(check.holds for check in checks)
    console.err.print(f"{args.out}: {figures.calls} calls; the chains hold: {whole}")
    return 0 if whole and not figures.leaks else 1
