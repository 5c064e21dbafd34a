"""`spillway audit ...`: read, check, hand over and report what was recorded of every call."""

from __future__ import annotations

import argparse
import base64
import dataclasses
import datetime as dt
import json
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from gateway.accounting.audit import AuditError, alias_key
from gateway.accounting.audit.journal.segments import chains, segments
from gateway.accounting.audit.note import parse_checkpoint
from gateway.accounting.audit.prove import (
    HashedAudit,
    checked,
    checked_consistency,
    consistency_text,
    lines_with,
    signed_notes,
    single_note,
)
from gateway.accounting.audit.reports.calls import RecordedCall
from gateway.accounting.audit.reports.figures import AuditFigures
from gateway.accounting.audit.reports.query import (
    CallFilter,
    TimeRange,
    done,
    matching_calls,
    moment,
    quarter,
)
from gateway.accounting.audit.reports.report import VerificationSummary, page
from gateway.accounting.audit.verify import JournalVerification, public_key, records, verify
from gateway.cli import console
from gateway.core.aliases import Aliases

_T = TypeVar("_T")
_TRACE = re.compile(r"[0-9a-f]{32}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_OUTCOMES = ("served", "streaming", "sent", "rejected", "shed", "expired", "failed", "cancelled")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("audit", help="check, search and prove what was recorded")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _verify_arguments(_action(actions, "verify", "whether anything was changed", _verify))
    help_text = "calls by class, zone, time and more; or what operators did"
    _query_arguments(_action(actions, "query", help_text, _query))
    _export_arguments(_action(actions, "export", "the signed checkpoint, for elsewhere", _export))
    _prove_arguments(_action(actions, "prove", "that one call is on record", _prove))
    _report_arguments(_action(actions, "report", "one page for a quarter, to print", _report))


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


def _argument(read: Callable[[str], _T]) -> Callable[[str], _T]:
    """What a wrong argument is, as argparse tells it."""

    def parse(text: str) -> _T:
        try:
            return read(text)
        except AuditError as exc:
            raise argparse.ArgumentTypeError(str(exc)) from None

    return parse


def _directories(args: argparse.Namespace) -> list[Path]:
    """Of each chain: a gateway of several workers has as many."""
    given = args.directory or [console.load_settings(args.config).audit.directory]
    return [chain for directory in given for chain in chains(directory)]


def _find_directory(args: argparse.Namespace, id_: str | None) -> Path:
    """The one chain that is meant: that with the call, where one is named."""
    directories = _directories(args)
    if len(directories) > 1 and id_ is not None and not id_.isdigit():
        return next((d for d in directories if _lines_with(d, id_)), directories[0])
    if len(directories) > 1:
        names = ", ".join(map(str, directories))
        raise AuditError(f"name one --directory, as each chain is its own: {names}")
    return directories[0]


# verify


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint", type=Path, action="append", default=[], metavar="FILE",
        help="checkpoints that were kept elsewhere: without one, a cut end may go unseen",
    )  # fmt: skip
    parser.add_argument("--proof", type=Path, metavar="FILE", help="check this alone, with --key")
    parser.add_argument("--json", action="store_true", help="the findings as JSON")


def _verify(args: argparse.Namespace) -> int:
    if args.proof is not None:
        return _verify_proof(args)
    holds = True
    for verification in _verified(args):
        holds = holds and verification.holds
        if args.json:
            console.put_json(_as_json(verification))
        else:
            _print_verification(verification, args.key is not None)
    return 0 if holds else 1


def _verified(args: argparse.Namespace) -> Iterator[JournalVerification]:
    """Of each directory, with those of the given checkpoints that are of its chain."""
    directories = _directories(args)
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


# query


def _query_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--class", dest="sensitivity", choices=("clear", "restricted", "unknown"),
        help="unknown: refused before it was read",
    )  # fmt: skip
    parser.add_argument("--zone", choices=("onprem", "cloud"), help="that the call touched")
    parser.add_argument(
        "--from",
        dest="from_s",
        type=_argument(moment),
        metavar="DAY",
        help="or a moment: 2026-07-01T12:00",
    )
    parser.add_argument(
        "--until", dest="until_s", type=_argument(moment), metavar="DAY", help="not included"
    )
    parser.add_argument("--tenant", help="of the caller's key")
    parser.add_argument("--model", help="by its name in the settings")
    parser.add_argument("--reason", help="the code of its end")
    parser.add_argument(
        "--outcome", choices=_OUTCOMES,
        help="how it ended; streaming and sent: its end is not on record",
    )  # fmt: skip
    parser.add_argument("--sent-as", metavar="ID", help="the id that a cloud saw, as a UUID")
    parser.add_argument(
        "--id",
        type=_argument(_call_id),
        metavar="ID",
        help="x-request-id, of the answer or the caller's",
    )
    parser.add_argument(
        "--trace", type=_argument(_trace_id), metavar="ID",
        help="the trace id of a traceparent, of the answer or the caller's",
    )  # fmt: skip
    parser.add_argument(
        "--actions", action="store_true", help="what operators did, in place of calls"
    )
    parser.add_argument("--by", metavar="NAME", help="with --actions: of this operator or user")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _call_id(text: str) -> str:
    """Raises AuditError."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise AuditError(f"{text}: write an id as a UUID") from None


def _trace_id(text: str) -> str:
    """Of a trace, or of all of a traceparent. Raises AuditError."""
    digits = text.lower()
    match = _TRACEPARENT.fullmatch(digits)
    digits = match[1] if match else digits
    if not _TRACE.fullmatch(digits):
        raise AuditError(f"{text}: write a trace id as 32 hexadecimal digits, or a traceparent")
    return digits


def _written_as(
    args: argparse.Namespace, given: str | None, alias: Callable[[Aliases, str], str]
) -> frozenset[str] | None:
    """What stands in records for an id: itself where it is the gateway's, else its alias."""
    if given is None:
        return None
    keys = map(alias_key.known, _directories(args))
    return frozenset({given, *(alias(key, given) for key in keys if key is not None)})


def _query(args: argparse.Namespace) -> int:
    start, end = args.from_s, args.until_s
    span = TimeRange(
        float("-inf") if start is None else start, float("inf") if end is None else end
    )
    if args.actions:
        return _query_actions(args, span)
    if args.by is not None:
        raise AuditError("--by is of operators: say --actions too, or --tenant for calls")
    wanted = CallFilter(
        span, args.sensitivity, args.zone, args.tenant, args.model, args.reason, args.outcome,
        args.sent_as, _written_as(args, args.id, Aliases.call_alias),
        _written_as(args, args.trace, Aliases.trace_alias),
    )  # fmt: skip
    count = _put(matching_calls(_directories(args), wanted), args.json)
    if wanted.must_be_empty and count:  # guard: B5.nonempty-exit
        console.fail(f"{count} calls that were not clear touched the cloud: this must never be")
        return 1
    console.err.print(f"{count} calls")
    return 0


def _query_actions(args: argparse.Namespace, span: TimeRange) -> int:
    for name in (
        "sensitivity", "zone", "tenant", "model", "reason", "outcome", "sent_as", "id", "trace",
    ):  # fmt: skip
        if getattr(args, name) is not None:
            option = {"sensitivity": "class", "sent_as": "sent-as"}.get(name, name)
            raise AuditError(f"--{option} is of calls, and --actions lists what operators did")
    count = 0
    for action in done(_directories(args), span, args.by):
        count += 1
        if args.json:
            sys.stdout.write(json.dumps(dataclasses.asdict(action)) + "\n")
            continue
        sys.stdout.write(
            f"{_at(action.time_s)}  {action.action:<10}  {action.on}  "
            f"by {action.by or 'nobody known'} ({action.via})\n"
        )
    console.err.print(f"{count} actions")
    return 0


def _at(time_s: float) -> str:
    return dt.datetime.fromtimestamp(time_s, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def _put(some: Iterable[RecordedCall], as_json: bool) -> int:
    count = 0
    for call in some:
        count += 1
        if as_json:
            sys.stdout.write(json.dumps(dataclasses.asdict(call)) + "\n")
            continue
        zones = "+".join(call.zones) or "nowhere"
        sys.stdout.write(
            f"{_at(call.time_s)}  {call.id}  {call.sensitivity:<10}  {zones:<12}  "
            f"{call.tenant}  {call.model}  {call.outcome}  {call.reason}\n"
        )
    return count


# export


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", type=Path, metavar="DIR", help="write it and the key there")
    parser.add_argument("--records", action="store_true", help="and a copy of all records")


def _export(args: argparse.Namespace) -> int:
    """Of several chains each has a directory of its own there, by its name."""
    directories = _directories(args)
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


# prove


def _prove_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", help="of the call (x-request-id), or a record's number")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="in this, not in ours")
    parser.add_argument(
        "--since", type=Path, metavar="FILE",
        help="without an id: that the chain of this checkpoint goes on in the newest one",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, help="default: standard output")


def _lines_with(directory: Path, id_: str) -> list[tuple[int, bytes]]:
    """Of a call, by its id on record or the one that its caller gave; or by a record's number."""
    lines = lines_with(directory, id_)
    key = None if lines or id_.isdigit() else alias_key.known(directory)
    return lines if key is None else lines_with(directory, key.call_alias(id_))


def _prove(args: argparse.Namespace) -> int:
    directory = _find_directory(args, args.id)
    held = HashedAudit.from_directory(directory, public_key(directory, args.key))
    note = single_note(args.checkpoint.read_text()) if args.checkpoint else None
    if args.since is not None:
        newest = note or held.notes[max(held.notes)]
        text = consistency_text(held, single_note(args.since.read_text()), newest) + "\n"
    elif args.id is None:
        raise AuditError("say which call: its id, or --since FILE for a checkpoint")
    else:
        own_lines = _lines_with(directory, args.id)
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


# report


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quarter", type=_argument(quarter), required=True, metavar="2026Q3",
                        help="of a year, in UTC")  # fmt: skip
    parser.add_argument(
        "--checkpoint", type=Path, action="append", default=[], metavar="FILE",
        help="checkpoints that were kept elsewhere, to compare with",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="an HTML page")


def _report(args: argparse.Namespace) -> int:
    figures, checks = AuditFigures(args.quarter), []
    for verification in _verified(args):
        checks.append(VerificationSummary.from_verification(verification, args.key is not None))
        if verification.holds:  # guard: B5.broken-chain always
            figures.add(records(verification.directory))
    args.out.write_text(page(figures, checks))
    whole = all(check.holds for check in checks)
    console.err.print(f"{args.out}: {figures.calls} calls; the chains hold: {whole}")
    return 0 if whole and not figures.leaks else 1
