"""`spillway audit ...`: read, check, hand over and report what was recorded of every call."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from gateway.accounting.audit import AuditError
from gateway.cli import console
from gateway.cli.audit import export, prove, query, report, verify


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("audit", help="check, search and prove what was recorded")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    verify.add_arguments(_action(actions, "verify", "whether anything was changed", verify.run))
    help_text = "calls by class, zone, time and more; or what operators did"
    query.add_arguments(_action(actions, "query", help_text, query.run))
    export.add_arguments(
        _action(actions, "export", "the signed checkpoint, for elsewhere", export.run)
    )
    prove.add_arguments(_action(actions, "prove", "that one call is on record", prove.run))
    report.add_arguments(_action(actions, "report", "one page for a quarter, to print", report.run))


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    help_text: str,
    act: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name, help=help_text,
        description=f"{help_text[0].upper()}{help_text[1:]}. Needs no running gateway.",
        epilog="Exit codes: 0 it holds, or nothing wrong was found; 1 it does not hold, or calls "
        "are where none may be; 2 the input was wrong.",
    )  # fmt: skip
    console.add_config(parser)
    parser.add_argument(
        "--directory", type=Path, action="append", metavar="DIR",
        help="of the audit, instead; several gateways: once for each",
    )  # fmt: skip
    if name != "query":  # which signs for nothing
        parser.add_argument(
            "--key", help="the public key, or its file (default: signing.pub there)"
        )
    parser.set_defaults(run=_verification, act=act)
    return parser


def _verification(args: argparse.Namespace) -> int:
    try:
        return int(args.act(args))
    except AuditError as exc:
        console.fail(str(exc))
        return 2
    except OSError as exc:
        console.fail(f"{exc.filename}: {exc.strerror}")
        return 2
