"""Calls as the audit tells of them: what was decided on each, with what its end says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.accounting.audit import AuditError
from gateway.accounting.records import SENT
from gateway.core.types import is_onprem

UNKNOWN = "unknown"  # the class of a call that was refused before it was read
NOT_CLEAR = ("restricted", UNKNOWN)  # guard: B5.unread-class without UNKNOWN
OPEN = (SENT, "streaming")
"""Outcomes of what was sent, or was about to be, and of which nothing more is on record: it is
under way, or its gateway was killed. Also of canaries. `streaming` is a stream of an audit in the
older form, in which the record of a call was written with its answer."""

Key = tuple[str, int]
"""Of a call: its id, which its caller may have given to others, too, and its number."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
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
    trace: str = ""  # an alias where its caller gave one (`gateway.core.aliases`)
    data_class: str = ""  # between clear and restricted
    admitted: tuple[str, ...] = ()  # zones outside the premises that its class admits

    @property
    def in_cloud_unclear(self) -> bool:
        """What must never be (BEHAVIOURS B5)."""
        outside = (z for z in self.zones if not is_onprem(z) and z not in self.admitted)
        return self.sensitivity in NOT_CLEAR and any(outside)

    @property
    def kind(self) -> str:
        """Its class, or classes with `+` between."""
        return self.data_class or self.sensitivity


def record_key(record: Mapping[str, Any]) -> Key:
    """What a call's records have in common."""
    return str(record["id"]), int(record.get("number", 0))


def calls(records: Iterable[dict[str, Any]]) -> Iterator[RecordedCall]:
    """In the order of their ends. Those whose end is not on record come last."""
    open_calls: dict[Key, dict[str, Any]] = {}
    leaving: dict[str, dict[str, Any]] = {}  # by the id that the cloud saw, where no call has it
    origin = ""
    for record in records:
        kind = record.get("kind")
        if kind == "segment":
            origin = str(record["origin"])
        elif kind == "start":  # of what a killed gateway had sent there is no more to come
            # guard: B8.unsettled-identity
            yield from (_sent(intent, origin) for intent in leaving.values())
            leaving.clear()
        elif kind == "canary":
            yield _sent(record, origin)
        elif kind == "intent":
            known = open_calls.get(record_key(record)) if "number" in record else None
            if known is None:
                leaving[str(record["sent_as"])] = record
            else:
                open_calls[record_key(record)] = _tried(known, record)
        for attempt in record.get("attempts", ()):
            leaving.pop(str(attempt.get("sent_as")), None)
        if kind == "call":
            before = open_calls.pop(record_key(record), None)
            if before is not None:  # another call with that id, as its caller chose it
                yield _call(before, origin)
            open_calls[record_key(record)] = record
        elif kind == "end":
            known = open_calls.pop(record_key(record), None)
            if known is not None:
                # guard: B5.call-outcome -> yield _call(known, origin)
                yield _call(_ended(known, record), origin)
            elif "tenant" in record:  # the first part could not be written
                yield _call(record, origin)
        if len(open_calls) > _HELD:
            yield _call(open_calls.pop(next(iter(open_calls))), origin)
        if len(leaving) > _HELD:
            yield _sent(leaving.pop(next(iter(leaving))), origin)
    for record in open_calls.values():
        yield _call(record, origin)
    yield from (_sent(intent, origin) for intent in leaving.values())  # guard: B8.unsettled-call


_HELD = 100_000
"""Calls whose end may still come."""


def _tried(call: dict[str, Any], intent: dict[str, Any]) -> dict[str, Any]:
    """A call with one attempt more. Its class can only become worse."""
    # guard: B5.worst-class -> worse = call
    worse = call if intent["sensitivity"] == "clear" else intent
    attempts = [*call["attempts"], {"zone": intent["zone"], "sent_as": intent["sent_as"]}]
    its: dict[str, Any] = {
        key: worse[key] for key in ("sensitivity", "class", "admitted") if key in worse
    }
    return {**call, "attempts": attempts, **its}


def _ended(call: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
    """What was on record as sent stays so, whatever the end tells of."""
    endpoints = {attempt.get("sent_as") for attempt in end["attempts"]}
    untold = [a for a in call["attempts"] if a.get("sent_as") and a["sent_as"] not in endpoints]
    # guard: B5.sent-attempts -> return {**call, **end, 'seq': call['seq'], 'attempts':
    #   end['attempts']}
    return {**call, **end, "seq": call["seq"], "attempts": [*untold, *end["attempts"]]}


def _sent(intent: dict[str, Any], origin: str) -> RecordedCall:
    attempt = {"zone": intent.get("zone", "cloud"), "sent_as": intent.get("sent_as")}
    return _call(
        {**intent, "attempts": [attempt], "outcome": SENT, "reason": intent["kind"]}, origin
    )


def _call(record: dict[str, Any], origin: str) -> RecordedCall:
    try:
        # guard: B5.attempt-zones (str(a['zone']) for a in record['attempts']) -> (str(a['zone'])
        #   for a in ())
        return RecordedCall(
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
            trace=str(record.get("trace", "")),
            sent_as=tuple(str(a["sent_as"]) for a in record["attempts"] if a.get("sent_as")),
            data_class=str(record.get("class", "")),
            admitted=tuple(map(str, record.get("admitted", ()))),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise AuditError(f"record {record.get('seq')} is no record of a call: {exc!r}") from exc
