"""The account of one call: everything that it holds and owes is settled once, on every exit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from copy import copy
from functools import lru_cache
from typing import Any, Final, Protocol

from gateway.accounting.ledger.entry import make_entry
from gateway.accounting.measures import AT_ONCE
from gateway.accounting.records import SENT, Durable, RecordUnwritable
from gateway.core import timeouts
from gateway.core.errors import DeadlineExceeded
from gateway.core.process import logs
from gateway.core.types import (
    NOWHERE,
    PUBLIC_MODEL,
    Attempt,
    Classification,
    Decision,
    Endpoint,
    InferenceRequest,
    Outcome,
    TensorCall,
    Zone,
)
from gateway.pipeline.accounts import Accounts

_log = logging.getLogger(__name__)

_NONE: Final[dict[str, Any]] = {}  # in every record that has nothing to say there
_NOWHERE: Final[list[str]] = []
_MILLI: Final = 1e3


@lru_cache(256)  # a handful of sets, and those that callers narrow
def _names(zones: frozenset[Zone]) -> list[str]:
    """Of a set of zones, as records name it."""
    return sorted([zone.name for zone in zones])


class ShadowPort(Protocol):
    """What shadow policies make of the call. Neither waits nor raises."""

    def decisions(self, admitted: frozenset[Zone]) -> Mapping[str, Mapping[str, str | None]]:
        """By shadow, for the record: zone and reason."""
        ...

    def ended(
        self,
        outcome: Outcome,
        decision: Decision | None,
        tried: bool,
        late: bool,
        admitted: frozenset[Zone],
    ) -> None: ...


class CallAccount:
    """
    Filled in as the call goes on; `settle` may be called on every path and acts once.

    The record of a call that is sent somewhere has two parts. What was decided is told when its
    first attempt starts (`call`), and each attempt after that as it starts (`intent`); what became
    of it is told when it ends (`end`). Nothing leaves and no answer goes before what was told is
    durable. For the end nobody waits. A call that is sent nowhere has its end in the one record.
    """

    __slots__ = (
        "_accounts",
        "_begun",
        "_begun_s",
        "_id",
        "_number",
        "_recorded_classification",
        "_recorded_decision",
        "_request",
        "_settled",
        "attempts",
        "before_dispatch",
        "classification",
        "decision",
        "releases",
        "shadowed",
        "total_tokens",
        "vetoes",
    )  # fmt: skip

    def __init__(self, accounts: Accounts, request: InferenceRequest) -> None:
        accounts.open_calls += 1
        accounts.measures.number = number = accounts.measures.number + 1
        self._accounts = accounts
        self._request = request
        self._id, self._number = request.record_id, number
        self._begun: dict[str, Any] | None = None  # what was decided, once that is handed over
        self._recorded_classification: Classification | None = None  # what that tells
        self._recorded_decision: Decision | None = None
        self._settled = False
        self.before_dispatch = accounts.before_dispatch
        self._begun_s: float | None = None  # when the first frame of a stream could go
        self.releases: list[Callable[[], None]] = []  # of what it holds; called when it ends
        self.classification: Classification | None = None  # the last one, as more becomes known
        self.decision: Decision | None = None  # the last one: its queue may decide otherwise
        self.vetoes: tuple[tuple[str, str], ...] = ()  # where no decision was possible
        self.attempts: list[Attempt] = []
        self.total_tokens: int | None = None
        self.shadowed: ShadowPort | None = None

    def starts(
        self, endpoint: Endpoint, zones: frozenset[Zone], queued_s: float, sent_as: str
    ) -> Durable | None:
        """An attempt is about to be sent, and has not been yet: were the gateway killed from then
        on, this is what tells of it. None: it is durable. Raises RecordUnwritable."""
        attempt = {
            "endpoint": endpoint.name,
            "zone": endpoint.zone.name,
            "zones": _names(zones),
            "result": SENT,
            "queued_s": _rounded(queued_s) if queued_s else 0.0,
            "took_s": 0.0,
            "price_usd": 0.0,
            "sent_as": sent_as or None,
        }
        if self._begun is None:
            attempts = [*map(_attempt, self.attempts), attempt] if self.attempts else [attempt]
            record = self._record(attempts)
            record["outcome"] = SENT
            self._begun, self._recorded_decision = record, self.decision
            self._recorded_classification = self.classification
            self._accounts.measures.sent[self._number] = record
        else:
            # guard: B8.retry-record -> return None
            record = self._intent(attempt)  # guard: B4.attempt-start -> return None
        try:
            return self._accounts.log.append(record)
        except RecordUnwritable:
            self._begun = None  # guard: B4.handover-failure -> return None
            self._accounts.metrics.record_failures.inc()  # guard: B4.handover-failure
            raise  # guard: B4.handover-failure

    def attempted(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        accounts, request, model = self._accounts, self._request, self._request.model
        accounts.measures.tried.append((attempt, request.payload.operation, model))
        if accounts.ledger is None:  # guard: B3.attempt-entry -> return
            return
        classification, decision, cost = self.classification, self.decision, attempt.cost
        usage = cost.usage
        accounts.ledger.post(make_entry((
            accounts.wall_s(),
            self._id,
            request.tenant,
            model,
            attempt.endpoint,
            attempt.zone.name,
            "" if decision is None else decision.reason,
            attempt.result,
            1 if classification is None or classification.restricted else 0,
            cost.nano_usd,
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            cost.moved_bytes,
            cost.gpu_ns,
            cost.cloud_nano_usd,
            1 if cost.estimated else 0,
        )))  # fmt: skip

    async def on_record(self, durable: Durable) -> None:
        """Returns once what was told is durable. Waits for no longer than the answer is worth
        anything (D1). Raises RecordUnwritable: then nothing goes."""
        try:
            # guard: B4.record-deadline -> with timeouts.within(100000.0):
            with timeouts.within(self._request.deadline.remaining_s()):
                failed = await durable
        except TimeoutError:
            raise DeadlineExceeded(
                "the latency budget ran out before the record was durable"
            ) from None
        if failed is not None:
            self._begun = None  # guard: B4.failed-outcome
            # guard: B4.failed-record
            # guard: A10.failed-record copy(failed) -> failed
            raise copy(failed)  # who raises it has the record, which keeps it

    def begun(self, endpoint: str) -> None:
        """The first frame of a stream may go."""
        self._begun_s = begun_s = self._accounts.clock()
        self._accounts.measures.begun(self._request, endpoint, begun_s)

    def settle(self, outcome: Outcome, reason: str) -> None:
        """Give everything back, write the record, count. Nothing waits for that record: nothing
        that an endpoint said is in it."""
        if self._settled:  # guard: A2.single-settlement
            return
        self._settled = True
        accounts, request, attempts = self._accounts, self._request, self.attempts
        settling = request.trace.begin("settle") if request.trace.sampled else None
        accounts.open_calls -= 1
        if accounts.awaited is not None:
            accounts.wake()
        for release in self.releases:
            release()
        now_s = accounts.clock()
        took_s = now_s - request.received_s
        begun, tried = self._begun, list(map(_attempt, attempts))
        if begun is None:  # sent nowhere, or what was told of it was not kept
            begun = record = self._record(tried)
        # guard: B4.changed-verdict minus 2
        elif (
            len(attempts) > 1
            or self.classification is not self._recorded_classification
            or self.decision is not self._recorded_decision
        ):  # more is known by now, and the end tells all of it
            begun = record = self._record(tried)
            record["kind"] = "end"
        else:
            record = {
                "kind": "end",
                "id": self._id,
                "number": self._number,
                "took_s": _rounded(took_s),
                "total_tokens": self.total_tokens,
                "attempts": tried,
            }
        if self.shadowed is not None:
            record["shadows"] = self.shadowed.decisions(self._admitted)
        record["outcome"] = outcome._value_
        record["end_reason"] = reason
        try:
            accounts.log.note(record)
        except RecordUnwritable:
            accounts.metrics.record_failures.inc()  # guard: P1.unrecorded-call -> return
        zone = attempts[-1].zone.name if attempts else "none"  # or where it was last tried
        measures = accounts.measures
        measures.sent.pop(self._number, None)
        measures.ended.append((begun, record, zone, outcome._value_, reason, took_s, now_s))
        if len(measures.ended) >= AT_ONCE:
            measures.count()
        if self.shadowed is not None:
            late = took_s > request.deadline.at_s - request.received_s
            self.shadowed.ended(outcome, self.decision, bool(attempts), late, self._admitted)
        if self._begun_s is not None and outcome is Outcome.SERVED and attempts:
            accounts.measures.streamed(request, attempts[-1], now_s - self._begun_s)
        if accounts.debug:
            fields = logs.call_fields(self._id, request.record_trace)
            _log.debug("%s: %s, zone %s", outcome.value, reason, zone, extra=fields)
        if settling is not None:
            request.trace.end(settling, {})
            self._trace(begun, zone, outcome, reason)

    @property
    def _admitted(self) -> frozenset[Zone]:
        return NOWHERE if self.classification is None else self.classification.admitted

    def _trace(self, record: Mapping[str, Any], zone: str, outcome: Outcome, reason: str) -> None:
        request = self._request
        request.trace.finish(
            {
                "protocol": request.protocol.value,
                "operation": request.operation.name,
                "model": request.model,
                "tenant": request.tenant,
                "sensitivity": record["sensitivity"] or "unknown",
                "zone": zone,
                "outcome": outcome.value,
                "reason": reason,
                "attempts": len(self.attempts),
            }
        )

    def _intent(self, attempt: dict[str, Any]) -> dict[str, Any]:
        """Of an attempt after the first."""
        request, classification = self._request, self.classification
        intent = {
            "kind": "intent",
            "time": int(self._accounts.wall_s() * _MILLI) / _MILLI,
            "id": self._id,
            "number": self._number,
            "sent_as": attempt["sent_as"],
            "endpoint": attempt["endpoint"],
            "zone": attempt["zone"],
            "tenant": request.tenant,
            "model": request.model,
            "sensitivity": None if classification is None else classification.sensitivity._value_,
            "policy": self._accounts.policy,
        }
        return intent if classification is None else intent | _class(classification)

    def _record(self, attempts: list[dict[str, Any]]) -> dict[str, Any]:
        accounts, request = self._accounts, self._request
        classification, decision, call = self.classification, self.decision, request.payload
        record = {
            "kind": "call",
            "time": int(accounts.wall_s() * _MILLI + 0.5) / _MILLI,
            "id": self._id,
            "number": self._number,
            "trace": request.record_trace,
            "tenant": request.tenant,
            "protocol": request.protocol._value_,
            "operation": call.operation.name,
            "model": request.model,
            "budget_s": _rounded(request.deadline.at_s - request.received_s),
            "priority": request.priority,
            "input_bytes": _input_bytes(call) if type(call) is TensorCall else None,
            "allowed": _names(request.zones),
            "sensitivity": None if classification is None else classification.sensitivity._value_,
            "classify_reason": None if classification is None else classification.reason,
            "entities": dict(classification.entities)
            if classification and classification.entities
            else _NONE,
            "pseudonymised": dict(classification.pseudonymised)
            if classification and classification.pseudonymised
            else _NONE,
            "classify_s": None if classification is None else _rounded(classification.classify_s),
            "looked_for": None if classification is None else _looked_for(classification),
            "reason": None if decision is None else decision.reason,
            "zones": _NOWHERE if decision is None else _names(decision.zones),
            "latency_critical": None if decision is None else decision.latency_critical,
            "vetoes": dict(self.vetoes if decision is None else decision.vetoes),
            "predicted_s": _NONE if decision is None else dict(decision.predicted_s),
            "shadows": _NONE,  # they decide once the call is on its way
            "attempts": attempts,
            "took_s": _rounded(accounts.clock() - request.received_s),
            "total_tokens": self.total_tokens,
            "policy": accounts.policy,
        }
        if classification is not None and classification.data_class:
            record |= _class(classification)
        return record


def _class(classification: Classification) -> dict[str, Any]:
    """Of a call between clear and restricted: its class, and where that admits it."""
    if not classification.data_class:
        return _NONE
    return {"class": classification.data_class, "admitted": _names(classification.admitted)}


_LOOKED_FOR: Final = {True: "everything", False: "patterns"}


def _looked_for(classification: Classification) -> str:
    """How far the call was read: for `everything` that the policy names; `patterns` alone, as far
    as they were needed to tell that it stays; `nothing`, since its model is public."""
    # guard: C16.record-unscanned -> return _LOOKED_FOR[classification.complete]
    return (
        "nothing" if classification.reason == PUBLIC_MODEL else _LOOKED_FOR[classification.complete]
    )


def _rounded(seconds: float) -> float:
    """To whole microseconds. `round` would do, at five times the cost and eight times a record."""
    try:
        return int(seconds * 1e6 + 0.5) / 1e6
    except (OverflowError, ValueError):  # of what is no number; JSON says null
        return seconds


def _input_bytes(call: TensorCall) -> int:
    inputs = call.inputs
    if len(inputs) == 1:
        return len(inputs[0].data)
    return sum([len(tensor.data) for tensor in inputs])


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "endpoint": attempt.endpoint,
        "zone": attempt.zone.name,
        "zones": _names(attempt.zones),
        "result": attempt.result,
        "queued_s": _rounded(attempt.queued_s) if attempt.queued_s else 0.0,
        "took_s": _rounded(attempt.took_s),
        "price_usd": attempt.price_usd,
        "sent_as": attempt.sent_as or None,
    }
