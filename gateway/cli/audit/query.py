"""`spillway audit query`: calls by class, zone, time and more; or what operators did."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import json
import re
import sys
import uuid
from collections.abc import Callable, Iterable

from gateway.accounting.audit import AuditError, alias_key
from gateway.accounting.audit.reports.calls import RecordedCall
from gateway.accounting.audit.reports.query import (
    CallFilter,
    TimeRange,
    done,
    matching_calls,
    moment,
)
from gateway.cli import console
from gateway.cli.audit.directories import argument, audit_directories
from gateway.core.aliases import Aliases

_TRACE = re.compile(r"[0-9a-f]{32}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_OUTCOMES = ("served", "streaming", "sent", "rejected", "shed", "expired", "failed", "cancelled")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--class", dest="sensitivity",
        help="clear, restricted, one of the settings, or unknown: refused before it was read",
    )  # fmt: skip
    parser.add_argument("--zone", help="that the call touched")
    parser.add_argument(
        "--from",
        dest="from_s",
        type=argument(moment),
        metavar="DAY",
        help="or a moment: 2026-07-01T12:00",
    )
    parser.add_argument(
        "--until", dest="until_s", type=argument(moment), metavar="DAY", help="not included"
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
        type=argument(_call_id),
        metavar="ID",
        help="x-request-id, of the answer or the caller's",
    )
    parser.add_argument(
        "--trace", type=argument(_trace_id), metavar="ID",
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
    keys = map(alias_key.known, audit_directories(args))
    return frozenset({given, *(alias(key, given) for key in keys if key is not None)})


def run(args: argparse.Namespace) -> int:
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
    count = _put(matching_calls(audit_directories(args), wanted), args.json)
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
    for action in done(audit_directories(args), span, args.by):
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
            shown = dataclasses.asdict(call)
            if not call.data_class:
                del shown["data_class"], shown["admitted"]
            sys.stdout.write(json.dumps(shown) + "\n")
            continue
        zones = "+".join(call.zones) or "nowhere"
        sys.stdout.write(
            f"{_at(call.time_s)}  {call.id}  {call.kind:<10}  {zones:<12}  "
            f"{call.tenant}  {call.model}  {call.outcome}  {call.reason}\n"
        )
    return count
