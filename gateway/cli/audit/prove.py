"""`spillway audit prove`: that one call is on record."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.prove import HashedAudit, consistency_text, single_note
from gateway.accounting.audit.verify import public_key
from gateway.cli import console
from gateway.cli.audit.directories import call_lines, find_directory


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", help="of the call (x-request-id), or a record's number")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="in this, not in ours")
    parser.add_argument(
        "--since", type=Path, metavar="FILE",
        help="without an id: that the chain of this checkpoint goes on in the newest one",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, help="default: standard output")


def run(args: argparse.Namespace) -> int:
    directory = find_directory(args, args.id)
    held = HashedAudit.from_directory(directory, public_key(directory, args.key))
    note = single_note(args.checkpoint.read_text()) if args.checkpoint else None
    if args.since is not None:
        newest = note or held.notes[max(held.notes)]
        text = consistency_text(held, single_note(args.since.read_text()), newest) + "\n"
    elif args.id is None:
        raise AuditError("say which call: its id, or --since FILE for a checkpoint")
    else:
        own_lines = call_lines(directory, args.id)
        if not own_lines:
            raise AuditError(f"{directory}: nothing is recorded of {args.id}")
        text = held.inclusion(*own_lines[0], note)
        if len(own_lines) > 1:
            more = ", ".join(str(seq) for seq, _ in own_lines[1:])
            console.err.print(f"its other records are {more}: prove them by number")
    if args.out is None:
        sys.stdout.write(text)
    else:
        args.out.write_text(text)
    return 0
