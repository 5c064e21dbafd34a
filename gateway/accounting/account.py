"""The account of one call: everything that it holds and owes is settled once, on every exit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, Protocol

from gateway import ambient, logs, patience
from gateway.accounting.measures import Measures
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import DecisionLog, Durable, RecordUnwritable
from gateway.deadline import Clock
from gateway.errors import DeadlineExceeded
from gateway.ledger.entry import Entry
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
        self.measures = Measures(metrics)
        self.open_calls = 0
        self._quiet: asyncio.Event | None = None  # while somebody waits for it

    def open(self, request: InferenceRequest) -> CallAccount:
        self.open_calls += 1
        self.metrics.in_flight.inc()
        return CallAccount(self, request)

    def closed(self) -> None:
        self.open_calls -= 1
        self.metrics.in_flight.dec()
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
        "_settling", "attempts", "decision", "found", "shadowed", "total_tokens", "vetoes",
    )  # fmt: skip

    def __init__(self, accounts: Accounts, request: InferenceRequest) -> None:
        self._accounts = accounts
        self._request = request
        self._releases: list[Callable[[], None]] = []
        self._settled = False
        self._recorded = False  # a line with all that was decided is written
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

    def _count_findings(self) -> None:
        found = self.found
        if found is None:
            return
        metrics = self._accounts.metrics
        metrics.classify_seconds.labels(found.sensitivity._value_).observe(found.classify_s)
        for kind, count in found.entities.items():
            metrics.entities.labels(kind).inc(count)
        for kind, count in found.pseudonymised.items():
            metrics.pseudonymised.labels(kind).inc(count)

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
            "time": round(ambient.wall_s(), 3),
            "id": request.id,
            "sent_as": sent_as,
            "endpoint": endpoint,
            "tenant": request.tenant,
            "model": request.model,
            "sensitivity": found.sensitivity.value if found else None,
            "policy": self._accounts.policy_hash(),
        }
        await self._until(self._write(record))

    def attempted(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        accounts = self._accounts
        if accounts.ledger is not None:
            accounts.ledger.post(self._entry(attempt))
        accounts.measures.attempted(self._request, attempt)

    def _entry(self, attempt: Attempt) -> Entry:
        request, cost = self._request, attempt.cost
        usage = cost.usage
        return Entry(
            ambient.wall_s(),
            request.id,
            request.tenant,
            request.model,
            attempt.endpoint,
            attempt.zone,
            self.decision.reason if self.decision is not None else "",
            attempt.result,
            self._restricted,
            cost.nano_usd,
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            cost.moved_bytes,
            cost.gpu_ns,
            cost.cloud_nano_usd,
            cost.estimated,
        )

    def check(self) -> None:
        """Raises RecordUnwritable: a call that could not be recorded is not begun."""
        self._accounts.log.check()

    async def record_before_release(self, current: Attempt) -> None:
        """The line of a call whose answer streams. Raises RecordUnwritable: no answer then."""
        record = self._record((*self.attempts, current))
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
        try:
            with patience.within(self._request.deadline.remaining_s()):
                failed = await durable
        except TimeoutError:
            raise DeadlineExceeded(
                "the latency budget ran out before the record was durable"
            ) from None
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
            self._settling = self._request.trace.begin("settle")
            self._accounts.closed()
            for release in self._releases:
                release()
            self._count_findings()
        record = self._end() if self._recorded else self._record(self.attempts)
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
        request = self._request
        zone = self._zone()
        label = zone._value_ if zone is not None else "none"
        sensitivity = self.found.sensitivity._value_ if self.found is not None else "unknown"
        took_s, measures = self._took_s(), self._accounts.measures
        measures.ended(request, sensitivity, label, outcome._value_, reason, took_s)
        if self.shadowed is not None:
            late = took_s > request.deadline.at_s - request.received_s
            self.shadowed.ended(outcome, self.decision, bool(self.attempts), late, self._restricted)
        if self._begun_s is not None and outcome is Outcome.SERVED and self.attempts:
            streamed_s = self._accounts.clock() - self._begun_s
            measures.streamed(request, self.attempts[-1], streamed_s)
        if _log.isEnabledFor(logging.DEBUG):
            told = logs.of(request.id, request.traceparent)
            _log.debug("%s: %s, zone %s", outcome.value, reason, label, extra=told)
        if request.trace.sampled:
            request.trace.end(self._settling, {})
            request.trace.finish(
                {
                    "protocol": request.protocol.value,
                    "operation": request.operation.value,
                    "model": request.model,
                    "tenant": request.tenant,
                    "sensitivity": sensitivity,
                    "zone": label,
                    "outcome": outcome.value,
                    "reason": reason,
                    "attempts": len(self.attempts),
                }
            )

    @property
    def _restricted(self) -> bool:
        return self.found is None or self.found.restricted

    def _zone(self) -> Zone | None:
        """Where it was served, else where it was last tried."""
        return self.attempts[-1].zone if self.attempts else None

    def _took_s(self) -> float:
        return _rounded(self._accounts.clock() - self._request.received_s, _MICRO)

    def _end(self) -> dict[str, Any]:
        """Of a call whose first line is written."""
        return {
            "kind": "end",
            "id": self._request.id,
            "took_s": self._took_s(),
            "total_tokens": self.total_tokens,
            "attempts": [_attempt(a) for a in self.attempts],
        }

    def _record(self, attempts: Sequence[Attempt]) -> dict[str, Any]:
        request, found, decision = self._request, self.found, self.decision
        call = request.payload
        return {
            "kind": "call",
            "time": _rounded(ambient.wall_s(), _MILLI),
            "id": request.id,
            "trace": request.traceparent[3:35],
            "tenant": request.tenant,
            "protocol": request.protocol._value_,
            "operation": call.operation._value_,
            "model": request.model,
            "budget_s": _rounded(request.deadline.at_s - request.received_s, _MICRO),
            "priority": request.priority,
            "input_bytes": _input_bytes(call) if isinstance(call, TensorCall) else None,
            "allowed": _SORTED[request.zones],
            "sensitivity": None if found is None else found.sensitivity._value_,
            "classify_reason": None if found is None else found.reason,
            "entities": dict(found.entities) if found and found.entities else _NONE,
            "pseudonymised": dict(found.pseudonymised) if found and found.pseudonymised else _NONE,
            "classify_s": None if found is None else _rounded(found.classify_s, _MICRO),
            "looked_for": _looked_for(found),
            "reason": None if decision is None else decision.reason,
            "zones": [] if decision is None else _SORTED[decision.zones],
            "latency_critical": None if decision is None else decision.latency_critical,
            "vetoes": dict(self.vetoes if decision is None else decision.vetoes),
            "predicted_s": _NONE if decision is None else dict(decision.predicted_s),
            "shadows": _NONE if self.shadowed is None else self.shadowed.told(self._restricted),
            "attempts": [_attempt(a) for a in attempts],
            "took_s": self._took_s(),
            "total_tokens": self.total_tokens,
            "policy": self._accounts.policy_hash(),
        }


_LOOKED_FOR: Final = {True: "everything", False: "patterns"}


def _looked_for(found: Classification | None) -> str | None:
    """How far the call was read: for `everything` that the policy names; `patterns` alone, as far
    as they were needed to tell that it stays; `nothing`, since its model is public."""
    if found is None:
        return None
    return "nothing" if found.reason == PUBLIC_MODEL else _LOOKED_FOR[found.complete]


_MILLI: Final = 1e3
_MICRO: Final = 1e6


def _rounded(seconds: float, parts: float) -> float:
    """To so many parts of a second. `round` would do, at five times the cost and eight times a
    record."""
    try:
        return int(seconds * parts + 0.5) / parts
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
        "queued_s": _rounded(attempt.queued_s, _MICRO),
        "took_s": _rounded(attempt.took_s, _MICRO),
        "price_usd": attempt.price_usd,
        "sent_as": attempt.sent_as or None,
    }
