"""`spillway audit verify`: whether anything was changed."""

from __future__ import annotations

import argparse
import base64
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.prove import checked, checked_consistency
from gateway.accounting.audit.verify import JournalVerification, public_key, verify
from gateway.cli import console
from gateway.cli.audit.directories import audit_directories


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint", type=Path, action="append", default=[], metavar="FILE",
        help="checkpoints that were kept elsewhere: without one, a cut end may go unseen",
    )  # fmt: skip
    parser.add_argument("--proof", type=Path, metavar="FILE", help="check this alone, with --key")
    parser.add_argument("--json", action="store_true", help="the findings as JSON")


def run(args: argparse.Namespace) -> int:
    if args.proof is not None:
        return _verify_proof(args)
    holds = True
    for verification in verified(args):
        holds = holds and verification.holds
        if args.json:
            console.put_json(_as_json(verification))
        else:
            _print_verification(verification, args.key is not None)
    return 0 if holds else 1


def verified(args: argparse.Namespace) -> Iterator[JournalVerification]:
    """Of each directory, with those of the given checkpoints that are of its chain."""
    directories = audit_directories(args)
    keys = [public_key(directory, args.key) for directory in directories]
    given = [(str(path), path.read_text()) for path in args.checkpoint]
    if len(directories) > 1:
        for name, text in given:
            if not any(text.startswith(f"{key.name}\n") for key in keys):
                raise AuditError(f"{name}: a checkpoint of none of these directories")
    for directory, key in zip(directories, keys, strict=True):
        own_notes = [g for g in given if len(keys) == 1 or g[1].startswith(f"{key.name}\n")]
        yield verify(directory, key, own_notes)


def _verify_proof(args: argparse.Namespace) -> int:
    if args.key is None:
        raise AuditError("--proof needs --key: a proof is worth what the key is worth")
    key = public_key(Path(), args.key)
    text = args.proof.read_text()
    if text.startswith("{"):
        old, new = checked_consistency(text, key)
        console.err.print(f"proven: the chain of {new.size} records goes on that of {old.size}")
        return 0
    record, checkpoint = checked(text, key)
    console.err.print(f"proven: record {record['seq']} is one of {checkpoint.size}", markup=False)
    console.put_json(record)
    return 0


def _as_json(verification: JournalVerification) -> dict[str, object]:
    return {
        "directory": str(verification.directory),
        "holds": verification.holds,
        "findings": [dataclasses.asdict(finding) for finding in verification.findings],
        "chain": verification.chain,
        "origin": verification.key.name,
        "key_sha256": verification.key.fingerprint,
        "first": verification.first,
        "size": verification.head.size,
        "root": base64.b64encode(verification.head.tree.root()).decode(),
        "signed_size": verification.signed.size if verification.signed else None,
        "checkpoints": verification.checkpoints,
        "checkpoints_from_elsewhere": verification.outside,
        "running": verification.running,
        "stopped": verification.stopped,
    }


def _print_verification(verification: JournalVerification, key_given: bool) -> None:
    put = console.err.print
    for finding in verification.findings:
        put(f"[bold red]wrong[/] {finding}", soft_wrap=True)
    state = "[bold green]holds[/]" if verification.holds else "[bold red]does not hold[/]"
    put(
        f"{verification.key.name}: {state}: "
        f"records {verification.first} to {verification.head.size - 1}"
    )
    signed = verification.head.size - verification.unsigned
    put(f"  {verification.checkpoints} checkpoints fit, the last of {signed} records")
    if verification.unsigned and not verification.running:
        put(f"  the last {verification.unsigned} records are chained and not signed for yet")
    if not (verification.stopped or verification.running):
        put("  the gateway was killed, or records of its end were removed")
    if not verification.outside:
        put("  no checkpoint from elsewhere was compared (--checkpoint): an end that was cut off "
            "together with its checkpoints would not be seen")  # fmt: skip
    if not key_given:
        put("  the key is the one beside the records (--key): who can write there can replace both")
