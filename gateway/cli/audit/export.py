"""`spillway audit export`: the signed checkpoint, to be kept elsewhere."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.journal.segments import segments
from gateway.accounting.audit.note import parse_checkpoint
from gateway.accounting.audit.prove import signed_notes
from gateway.accounting.audit.verify import public_key
from gateway.cli import console
from gateway.cli.audit.directories import audit_directories


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", type=Path, metavar="DIR", help="write it and the key there")
    parser.add_argument("--records", action="store_true", help="and a copy of all records")


def run(args: argparse.Namespace) -> int:
    """Of several chains each has a directory of its own there, by its name."""
    directories = audit_directories(args)
    several = len(directories) > 1
    if len({directory.name for directory in directories}) < len(directories):
        raise AuditError("name one --directory: these have the same name")
    for directory in directories:
        _export_one(args, directory, args.to / directory.name if args.to and several else args.to)
    return 0


def _export_one(args: argparse.Namespace, directory: Path, to: Path | None) -> None:
    key = public_key(directory, args.key)
    notes = signed_notes(directory, key)
    if not notes:
        raise AuditError(f"{directory}: nothing is signed yet")
    note = notes[max(notes)]
    if to is None:
        sys.stdout.write(note)
        return
    to.mkdir(parents=True, exist_ok=True)
    size = parse_checkpoint(note, key).size
    (to / f"{size:012d}.checkpoint").write_text(note)
    (to / "signing.pub").write_text(f"{key}\n")
    if args.records:
        for segment in segments(directory):
            for path in (segment.path, segment.checkpoints):
                shutil.copy2(path, to)
        for part in directory.glob("*.torn"):
            shutil.copy2(part, to)
    console.err.print(f"{to}: the checkpoint of {size} records, and the public key")
