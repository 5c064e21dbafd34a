"""The account of one call: everything that it holds and owes is settled once, on every exit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gateway import ambient, logs
from gateway.accounting import measures
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import DecisionLog, Durable, RecordUnwritable
from gateway.deadline import Clock
from gateway.errors import DeadlineExceeded
from gateway.ledger.entry import Entry
from gateway.tracing import Span
from gateway.types import (
    Attempt,
    Classification,
    Decision,
    InferenceRequest,
    Outcome,
    TensorCall,
    Zone,
)

_log = logging.getLogger(__name__)


class Ledger(Protocol):
    def post(self, entry: Entry) -> None:
        """Neither waits nor raises."""
        ...


class Accounts:
    """Opens an account for each call; keeps count of the open ones."""

    def __init__(
        self,
        log: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        policy_hash: Callable[[], str],
        ledger: Ledger | None = None,
    ) -> None:
        self.ledger = ledger
        self.log = log
        self.metrics = metrics
        self.clock = clock
        self.policy_hash = policy_hash
        self.open_calls = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def open(self, request: InferenceRequest) -> CallAccount:
        self.open_calls += 1
        self._quiet.clear()
        self.metrics.in_flight.inc()
        return CallAccount(self, request)

    def closed(self) -> None:
        self.open_calls -= 1
        self.metrics.in_flight.dec()
        if not self.open_calls:
            self._quiet.set()

    async def quiet(self) -> None:
        """Returns once no call is open."""
        await self._quiet.wait()


class CallAccount:
    """Filled in as the call goes on; `settle` may be called on every path and acts once."""

    def __init__(self, accounts: Accounts, request: InferenceRequest) -> None:
        self._accounts = accounts
        self._request = request
        self._releases: list[Callable[[], None]] = []
        self._settled = False
        self._recorded = False  # a line with all that was decided is written
        self._kept_back = False  # settled as served, and the answer has not gone yet
        self._settling: Span | None = None
        self.found: Classification | None = None
        self.decision: Decision | None = None
        self.vetoes: tuple[tuple[str, str], ...] = ()  # where no decision was possible
        self.attempts: list[Attempt] = []
        self.total_tokens: int | None = None

    def holds(self, release: Callable[[], None]) -> None:
        """Remember what must be given back when the call ends."""
        self._releases.append(release)

    def classified(self, found: Classification) -> None:
        """Again when more is known; what was known last counts."""
        self.found = found

    def _count_findings(self) -> None:
        if self.found is None:
            return
        metrics = self._accounts.metrics
        metrics.classify_seconds.labels(self.found.sensitivity.value).observe(self.found.classify_s)
        for kind, count in self.found.entities.items():
            metrics.entities.labels(kind).inc(count)
        for kind, count in self.found.pseudonymised.items():
            metrics.pseudonymised.labels(kind).inc(count)

    def decided(self, decision: Decision) -> None:
        """Again when its queue decided otherwise."""
        self.decision = decision

    def attempted(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        metrics = self._accounts.metrics
        metrics.attempts.labels(attempt.endpoint, attempt.zone.value, attempt.result).inc()
        if attempt.price_usd:
            metrics.spend_usd.labels(attempt.endpoint, attempt.zone.value).inc(attempt.price_usd)
        if self._accounts.ledger is not None:
            self._accounts.ledger.post(self._entry(attempt))
        measures.attempted(metrics, self._request, attempt)

    def _entry(self, attempt: Attempt) -> Entry:
        request, cost = self._request, attempt.cost
        return Entry(
            at_s=ambient.wall_s(),
            call=request.id,
            tenant=request.tenant,
            model=request.model,
            endpoint=attempt.endpoint,
            zone=attempt.zone,
            reason=self.decision.reason if self.decision is not None else "",
            result=attempt.result,
            restricted=self.found is None or self.found.restricted,
            nano_usd=cost.nano_usd,
            input_tokens=cost.usage.input_tokens,
            output_tokens=cost.usage.output_tokens,
            cached_tokens=cost.usage.cached_tokens,
            moved_bytes=cost.moved_bytes,
            gpu_ns=cost.gpu_ns,
            cloud_nano_usd=cost.cloud_nano_usd,
            estimated=cost.estimated,
        )

    def check(self) -> None:
        """Raises RecordUnwritable: a call that could not be recorded is not begun."""
        self._accounts.log.check()

    async def record_before_release(self, current: Attempt) -> None:
        """The line of a call whose answer streams. Raises RecordUnwritable: no answer then."""
        record = {**self._record((*self.attempts, current)), "outcome": "streaming"}
        durable = self._write(record)
        self._recorded = True
        await self._until(durable)
        accounts = self._accounts
        measures.begun(accounts.metrics, self._request, current.endpoint, accounts.clock())

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
            async with asyncio.timeout(max(0.0, self._request.deadline.remaining_s())):
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
        record = (
            {"kind": "end", "id": self._request.id, "took_s": self._took_s(),
             "total_tokens": self.total_tokens, "attempts": [_attempt(a) for a in self.attempts]}
            if self._recorded
            else self._record(self.attempts)
        )  # fmt: skip
        durable = self._write({**record, "outcome": outcome.value, "end_reason": reason})
        self._recorded = True
        return durable

    def _write(self, record: dict[str, Any]) -> Durable | None:
        try:
            return self._accounts.log.append(record)
        except RecordUnwritable:
            self._accounts.metrics.record_failures.inc()
            raise

    def _count(self, outcome: Outcome, reason: str) -> None:
        metrics, request = self._accounts.metrics, self._request
        zone = self._zone()
        label = zone.value if zone else "none"
        sensitivity = self.found.sensitivity.value if self.found else "unknown"
        metrics.calls.labels(
            request.protocol.value, request.model, sensitivity, label, outcome.value, reason
        ).inc()
        took_s = self._took_s()
        metrics.call_seconds.labels(request.protocol.value, label).observe(took_s)
        measures.ended(metrics, request, outcome, label, took_s)
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

    def _zone(self) -> Zone | None:
        """Where it was served, else where it was last tried."""
        return self.attempts[-1].zone if self.attempts else None

    def _took_s(self) -> float:
        return round(self._accounts.clock() - self._request.received_s, 6)

    def _record(self, attempts: Sequence[Attempt]) -> dict[str, Any]:
        request, found, decision = self._request, self.found, self.decision
        return {
            "kind": "call",
            "time": round(ambient.wall_s(), 3),
            "id": request.id,
            "trace": request.traceparent[3:35],
            "tenant": request.tenant,
            "protocol": request.protocol.value,
            "operation": request.operation.value,
            "model": request.model,
            "budget_s": round(request.deadline.at_s - request.received_s, 6),
            "priority": request.priority,
            "input_bytes": _input_bytes(request),
            "allowed": sorted(z.value for z in request.zones),
            "sensitivity": found.sensitivity.value if found else None,
            "classify_reason": found.reason if found else None,
            "entities": dict(found.entities) if found else {},
            "pseudonymised": dict(found.pseudonymised) if found else {},
            "classify_s": round(found.classify_s, 6) if found else None,
            "looked_for": _looked_for(found),
            "reason": decision.reason if decision else None,
            "zones": sorted(z.value for z in decision.zones) if decision else [],
            "latency_critical": decision.latency_critical if decision else None,
            "vetoes": dict(decision.vetoes if decision else self.vetoes),
            "predicted_s": dict(decision.predicted_s) if decision else {},
            "attempts": [_attempt(a) for a in attempts],
            "took_s": self._took_s(),
            "total_tokens": self.total_tokens,
            "policy": self._accounts.policy_hash(),
        }


def _looked_for(found: Classification | None) -> str | None:
    """How far the call was read: for `everything` that the policy names, or `patterns` alone, as
    far as they were needed to tell that it stays."""
    if found is None:
        return None
    return "everything" if found.complete else "patterns"


def _input_bytes(request: InferenceRequest) -> int | None:
    call = request.payload
    return sum(len(t.data) for t in call.inputs) if isinstance(call, TensorCall) else None


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "endpoint": attempt.endpoint,
        "zone": attempt.zone.value,
        "zones": sorted(z.value for z in attempt.zones),
        "result": attempt.result,
        "queued_s": round(attempt.queued_s, 6),
        "took_s": round(attempt.took_s, 6),
        "price_usd": attempt.price_usd,
    }
