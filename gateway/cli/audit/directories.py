"""Which audits a command of `spillway audit` is about, and which records in them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gateway.accounting.audit import AuditError, alias_key
from gateway.accounting.audit.journal.segments import chains
from gateway.accounting.audit.prove import lines_with
from gateway.cli import console

_T = TypeVar("_T")


def argument(read: Callable[[str], _T]) -> Callable[[str], _T]:
    """What a wrong argument is, as argparse tells it."""

    def parse(text: str) -> _T:
        try:
            return read(text)
        except AuditError as exc:
            raise argparse.ArgumentTypeError(str(exc)) from None

    return parse


def audit_directories(args: argparse.Namespace) -> list[Path]:
    """Of each chain: a gateway of several workers has as many."""
    given = args.directory or [console.load_settings(args.config).audit.directory]
    return [chain for directory in given for chain in chains(directory)]


def find_directory(args: argparse.Namespace, id_: str | None) -> Path:
    """The one chain that is meant: that with the call, where one is named."""
    directories = audit_directories(args)
    if len(directories) > 1 and id_ is not None and not id_.isdigit():
        return next((d for d in directories if call_lines(d, id_)), directories[0])
    if len(directories) > 1:
        names = ", ".join(map(str, directories))
        raise AuditError(f"name one --directory, as each chain is its own: {names}")
    return directories[0]


def call_lines(directory: Path, id_: str) -> list[tuple[int, bytes]]:
    """Of a call, by its id on record or the one that its caller gave; or by a record's number."""
    lines = lines_with(directory, id_)
    key = None if lines or id_.isdigit() else alias_key.known(directory)
    return lines if key is None else lines_with(directory, key.call_alias(id_))
