"""Calls as the audit tells of them: the record of each, with what its end says if it streamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gateway.audit import AuditError

UNKNOWN = "unknown"  # the class of a call that was refused before it was read
NOT_CLEAR = ("restricted", UNKNOWN)
SENT = "sent"
"""The outcome of what was sent to the cloud, or was about to be, and of which nothing more is on
record: it is under way, or its gateway was killed. Also of canaries."""


@dataclass(frozen=True, slots=True)
class Call:
    seq: int
    time_s: float
    id: str
    tenant: str
    model: str
    sensitivity: str
    zones: tuple[str, ...]  # that it touched, in order
    outcome: str
    reason: str  # of its end, else of its placement
    policy: str
    origin: str = ""
    sent_as: tuple[str, ...] = ()  # the ids that clouds saw

    @property
    def in_cloud_unclear(self) -> bool:
        """What must never be (BEHAVIOURS B5)."""
        return self.sensitivity in NOT_CLEAR and "cloud" in self.zones


def calls(records: Iterable[dict[str, Any]]) -> Iterator[Call]:
    """In the order of their ends. A stream whose end is not on record comes last."""
    open_calls: dict[str, dict[str, Any]] = {}
    leaving: dict[str, dict[str, Any]] = {}  # by the id that the cloud saw
    origin = ""
    for record in records:
        kind = record.get("kind")
        if kind == "segment":
            origin = str(record["origin"])
        elif kind == "start":  # of what a killed gateway had sent there is no more to come
            yield from (_sent(intent, origin) for intent in leaving.values())
            leaving.clear()
        elif kind == "canary":
            yield _sent(record, origin)
        elif kind == "intent":
            leaving[str(record["sent_as"])] = record
        for attempt in record.get("attempts", ()):
            leaving.pop(str(attempt.get("sent_as")), None)
        if kind == "call":
            before = open_calls.pop(str(record["id"]), None)
            if before is not None:  # the id of another call, as its caller chose it
                yield _call(before, origin)
            open_calls[str(record["id"])] = record
        elif kind == "end":
            known = open_calls.pop(str(record["id"]), None)
            if known is not None:
                yield _call({**known, **record, "seq": known["seq"]}, origin)
        if len(open_calls) > _HELD:
            yield _call(open_calls.pop(next(iter(open_calls))), origin)
        if len(leaving) > _HELD:
            yield _sent(leaving.pop(next(iter(leaving))), origin)
    for record in open_calls.values():
        yield _call(record, origin)
    yield from (_sent(intent, origin) for intent in leaving.values())


_HELD = 100_000
"""Calls whose end may still come: of answers that were kept back, and of streams."""


def _sent(intent: dict[str, Any], origin: str) -> Call:
    attempt = {"zone": "cloud", "sent_as": intent.get("sent_as")}
    return _call(
        {**intent, "attempts": [attempt], "outcome": SENT, "reason": intent["kind"]}, origin
    )


def _call(record: dict[str, Any], origin: str) -> Call:
    try:
        return Call(
            seq=int(record["seq"]),
            time_s=float(record["time"]),
            id=str(record["id"]),
            tenant=str(record["tenant"]),
            model=str(record["model"]),
            sensitivity=str(record["sensitivity"] or UNKNOWN),
            zones=tuple(dict.fromkeys(str(a["zone"]) for a in record["attempts"])),
            outcome=str(record["outcome"]),
            reason=str(record.get("end_reason") or record["reason"]),
            policy=str(record["policy"]),
            origin=origin,
            sent_as=tuple(str(a["sent_as"]) for a in record["attempts"] if a.get("sent_as")),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise AuditError(f"record {record.get('seq')} is no record of a call: {exc!r}") from exc
