"""The account of one call: everything that it holds and owes is settled once, on every exit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, Protocol

from gateway import ambient, logs
from gateway.accounting.measures import measures_of
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import DecisionLog, Durable, RecordUnwritable
from gateway.accounting.waits import Waits
from gateway.deadline import Clock
from gateway.ledger.entry import Entry, entry_of
from gateway.tracing import Span
from gateway.types import (
    PUBLIC_MODEL,
    Attempt,
    Classification,
    Decision,
    InferenceRequest,
    Outcome,
    TensorCall,
    Zone,
)

_log = logging.getLogger(__name__)

_SORTED: Final = {
    frozenset(some): sorted(zone.value for zone in some)
    for count in range(len(Zone) + 1)
    for some in combinations(Zone, count)
}
"""Every set of zones, as records name it."""
_NONE: Final[dict[str, Any]] = {}  # in every record that has nothing to say there
_NOWHERE: Final[list[str]] = []
_MILLI: Final = 1e3


class Ledger(Protocol):
    def post(self, entry: Entry) -> None:
        """Neither waits nor raises."""
        ...


class Shadowed(Protocol):
    """What shadow policies make of the call. Neither waits nor raises."""

    def told(self, restricted: bool) -> Mapping[str, Mapping[str, str | None]]:
        """By shadow, for the record: zone and reason."""
        ...

    def ended(
        self,
        outcome: Outcome,
        decision: Decision | None,
        tried: bool,
        late: bool,
        restricted: bool,
    ) -> None: ...


class Accounts:
    """Opens an account for each call; keeps count of the open ones."""

    def __init__(
        self,
        log: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        policy_hash: Callable[[], str],
        ledger: Ledger | None = None,
        before_dispatch: bool = False,
    ) -> None:
        """`before_dispatch`: what is about to leave is on record before it does."""
        self.ledger = ledger
        self.before_dispatch = before_dispatch
        self.log = log
        self.metrics = metrics
        self.clock = clock
        self.policy_hash = policy_hash
        self.measures = measures_of(metrics)
        self.waits = Waits()
        self.open_calls = 0
        self._quiet: asyncio.Event | None = None  # while somebody waits for it

    def open(self, request: InferenceRequest) -> CallAccount:
        self.open_calls += 1
        self.metrics.in_flight.level += 1
        return CallAccount(self, request)

    def closed(self) -> None:
        self.open_calls -= 1
        self.metrics.in_flight.level -= 1
        if self._quiet is not None and not self.open_calls:
            self._quiet.set()
            self._quiet = None

    async def quiet(self) -> None:
        """Returns once no call is open."""
        if self.open_calls:
            if self._quiet is None:
                self._quiet = asyncio.Event()
            await self._quiet.wait()


class CallAccount:
    """Filled in as the call goes on; `settle` may be called on every path and acts once."""

    __slots__ = (
        "_accounts", "_begun_s", "_kept_back", "_recorded", "_releases", "_request", "_settled",
        "_settling", "_told", "attempts", "decision", "found", "shadowed", "total_tokens", "vetoes",
    )  # fmt: skip

    def __init__(self, accounts: Accounts, request: InferenceRequest) -> None:
        self._accounts = accounts
        self._request = request
        self._releases: list[Callable[[], None]] = []
        self._told: dict[str, Any] = _NONE  # the line with all that was decided, once it was made
        self._settled = False
        self._recorded = False  # that line is written
        self._kept_back = False  # settled as served, and the answer has not gone yet
        self._settling: Span | None = None
        self._begun_s: float | None = None  # when the first frame of a stream could go
        self.found: Classification | None = None
        self.decision: Decision | None = None
        self.vetoes: tuple[tuple[str, str], ...] = ()  # where no decision was possible
        self.attempts: list[Attempt] = []
        self.total_tokens: int | None = None
        self.shadowed: Shadowed | None = None

    def holds(self, release: Callable[[], None]) -> None:
        """Remember what must be given back when the call ends."""
        self._releases.append(release)

    def classified(self, found: Classification) -> None:
        """Again when more is known; what was known last counts."""
        self.found = found

    def decided(self, decision: Decision) -> None:
        """Again when its queue decided otherwise."""
        self.decision = decision

    async def leaves(self, endpoint: str, sent_as: str) -> None:
        """Were the gateway killed from here on, this is what tells of the call."""
        if not self._accounts.before_dispatch:
            return
        request, found = self._request, self.found
        record = {
            "kind": "intent",
            "time": int(ambient.wall_s() * _MILLI) / _MILLI,
            "id": request.id,
            "sent_as": sent_as,
            "endpoint": endpoint,
            "tenant": request.tenant,
            "model": request.model,
            "sensitivity": found.sensitivity._value_ if found is not None else None,
            "policy": self._accounts.policy_hash(),
        }
        await self._until(self._write(record))

    def attempted(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        accounts, request = self._accounts, self._request
        if accounts.ledger is not None:
            accounts.ledger.post(self._entry(attempt))
        accounts.measures.attempted(attempt, request.payload.operation._value_, request.model)

    def _entry(self, attempt: Attempt) -> Entry:
        request, found, decision, cost = self._request, self.found, self.decision, attempt.cost
        usage = cost.usage
        return entry_of((
            ambient.wall_s(),
            request.id,
            request.tenant,
            request.model,
            attempt.endpoint,
            attempt.zone._value_,
            "" if decision is None else decision.reason,
            attempt.result,
            1 if found is None or found.restricted else 0,
            cost.nano_usd,
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            cost.moved_bytes,
            cost.gpu_ns,
            cost.cloud_nano_usd,
            1 if cost.estimated else 0,
        ))  # fmt: skip

    def check(self) -> None:
        """Raises RecordUnwritable: a call that could not be recorded is not begun."""
        self._accounts.log.check()

    async def record_before_release(self, current: Attempt) -> None:
        """The line of a call whose answer streams. Raises RecordUnwritable: no answer then."""
        record = self._told = self._record((*self.attempts, current))
        record["outcome"] = "streaming"
        durable = self._write(record)
        self._recorded = True
        await self._until(durable)
        accounts = self._accounts
        self._begun_s = accounts.clock()
        accounts.measures.begun(self._request, current.endpoint, self._begun_s)

    async def settle_before_release(self, reason: str) -> None:
        """As served. The answer may go once this returns; where it raises, the account is to be
        settled again, as whatever became of the call."""
        self._kept_back = True
        durable = self._settle(Outcome.SERVED, reason)
        await self._until(durable)
        self._kept_back = False
        self._count(Outcome.SERVED, reason)

    async def _until(self, durable: Durable | None) -> None:
        """For no longer than the answer is worth anything (D1)."""
        if durable is None:
            return
        waits, deadline = self._accounts.waits, self._request.deadline
        waits.open[durable] = deadline
        if deadline.at_s < waits.looks_s:
            waits.look_at(deadline)
        try:
            failed = await durable
        finally:
            del waits.open[durable]
        if failed is not None:
            self._recorded = False
            raise failed

    def settle(self, outcome: Outcome, reason: str) -> None:
        """Give everything back, write the record, count. An error does not wait for its record:
        nothing that an endpoint said is in it."""
        if self._settled and not self._kept_back:
            return
        self._kept_back = False
        with contextlib.suppress(RecordUnwritable):  # it is counted
            self._settle(outcome, reason)
        self._count(outcome, reason)

    def _settle(self, outcome: Outcome, reason: str) -> Durable | None:
        if not self._settled:
            self._settled = True
            if self._request.trace.sampled:
                self._settling = self._request.trace.begin("settle")
            self._accounts.closed()
            for release in self._releases:
                release()
        if self._recorded:
            record = self._end()
        else:
            record = self._told = self._record(self.attempts)
        record["outcome"] = outcome._value_
        record["end_reason"] = reason
        durable = self._write(record)
        self._recorded = True
        return durable

    def _write(self, record: dict[str, Any]) -> Durable | None:
        try:
            return self._accounts.log.append(record)
        except RecordUnwritable:
            self._accounts.metrics.record_failures.inc()
            raise

    def _count(self, outcome: Outcome, reason: str) -> None:
        accounts, request, attempts = self._accounts, self._request, self.attempts
        zone = attempts[-1].zone._value_ if attempts else "none"  # or where it was last tried
        took_s = accounts.clock() - request.received_s
        accounts.measures.ended(self._told, zone, outcome._value_, reason, took_s)
        if self.shadowed is not None:
            late = took_s > request.deadline.at_s - request.received_s
            self.shadowed.ended(outcome, self.decision, bool(attempts), late, self._restricted)
        if self._begun_s is not None and outcome is Outcome.SERVED and attempts:
            streamed_s = accounts.clock() - self._begun_s
            accounts.measures.streamed(request, attempts[-1], streamed_s)
        if _log.isEnabledFor(logging.DEBUG):
            told = logs.of(request.id, request.traceparent)
            _log.debug("%s: %s, zone %s", outcome.value, reason, zone, extra=told)
        if request.trace.sampled:
            request.trace.end(self._settling, {})
            request.trace.finish(
                {
                    "protocol": request.protocol.value,
                    "operation": request.operation.value,
                    "model": request.model,
                    "tenant": request.tenant,
                    "sensitivity": self._told["sensitivity"] or "unknown",
                    "zone": zone,
                    "outcome": outcome.value,
                    "reason": reason,
                    "attempts": len(attempts),
                }
            )

    @property
    def _restricted(self) -> bool:
        return self.found is None or self.found.restricted

    def _end(self) -> dict[str, Any]:
        """Of a call whose first line is written."""
        return {
            "kind": "end",
            "id": self._request.id,
            "took_s": _rounded(self._accounts.clock() - self._request.received_s),
            "total_tokens": self.total_tokens,
            "attempts": list(map(_attempt, self.attempts)),
        }

    def _record(self, attempts: Sequence[Attempt]) -> dict[str, Any]:
        accounts, request = self._accounts, self._request
        found, decision, call = self.found, self.decision, request.payload
        return {
            "kind": "call",
            "time": int(ambient.wall_s() * _MILLI + 0.5) / _MILLI,
            "id": request.id,
            "trace": request.traceparent[3:35],
            "tenant": request.tenant,
            "protocol": request.protocol._value_,
            "operation": call.operation._value_,
            "model": request.model,
            "budget_s": _rounded(request.deadline.at_s - request.received_s),
            "priority": request.priority,
            "input_bytes": _input_bytes(call) if type(call) is TensorCall else None,
            "allowed": _SORTED[request.zones],
            "sensitivity": None if found is None else found.sensitivity._value_,
            "classify_reason": None if found is None else found.reason,
            "entities": dict(found.entities) if found and found.entities else _NONE,
            "pseudonymised": dict(found.pseudonymised) if found and found.pseudonymised else _NONE,
            "classify_s": None if found is None else _rounded(found.classify_s),
            "looked_for": None if found is None else _looked_for(found),
            "reason": None if decision is None else decision.reason,
            "zones": _NOWHERE if decision is None else _SORTED[decision.zones],
            "latency_critical": None if decision is None else decision.latency_critical,
            "vetoes": dict(self.vetoes if decision is None else decision.vetoes),
            "predicted_s": _NONE if decision is None else dict(decision.predicted_s),
            "shadows": _NONE if self.shadowed is None else self.shadowed.told(self._restricted),
            "attempts": list(map(_attempt, attempts)),
            "took_s": _rounded(accounts.clock() - request.received_s),
            "total_tokens": self.total_tokens,
            "policy": accounts.policy_hash(),
        }


_LOOKED_FOR: Final = {True: "everything", False: "patterns"}


def _looked_for(found: Classification) -> str:
    """How far the call was read: for `everything` that the policy names; `patterns` alone, as far
    as they were needed to tell that it stays; `nothing`, since its model is public."""
    return "nothing" if found.reason == PUBLIC_MODEL else _LOOKED_FOR[found.complete]


def _rounded(seconds: float) -> float:
    """To whole microseconds. `round` would do, at five times the cost and eight times a record."""
    try:
        return int(seconds * 1e6 + 0.5) / 1e6
    except (OverflowError, ValueError):  # of what is no number; JSON says null
        return seconds


def _input_bytes(call: TensorCall) -> int:
    return sum(len(t.data) for t in call.inputs)


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "endpoint": attempt.endpoint,
        "zone": attempt.zone._value_,
        "zones": _SORTED[attempt.zones],
        "result": attempt.result,
        "queued_s": _rounded(attempt.queued_s) if attempt.queued_s else 0.0,
        "took_s": _rounded(attempt.took_s),
        "price_usd": attempt.price_usd,
        "sent_as": attempt.sent_as or None,
    }
