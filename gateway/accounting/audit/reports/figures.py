"""What a report tells of a span of time, counted from the records of one or several gateways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gateway.accounting.audit.actions import Action, actions
from gateway.accounting.audit.reports.calls import RecordedCall, calls
from gateway.accounting.audit.reports.query import TimeRange


@dataclass(frozen=True, slots=True)
class RecordingGap:
    """A time in which a gateway did not run, or could not record."""

    origin: str
    from_s: float
    until_s: float
    why: str


@dataclass(slots=True)
class PolicyPeriod:
    """Settings by their hash, and when calls were decided on by them."""

    first_s: float
    last_s: float
    calls: int = 0


@dataclass(slots=True)
class AuditFigures:
    span: TimeRange
    calls: int = 0
    touched: Counter[tuple[str, str]] = field(default_factory=Counter)  # class, zone
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)  # class, outcome
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)  # class, reason
    tenants: Counter[tuple[str, str]] = field(default_factory=Counter)  # tenant, zone
    policies: dict[str, PolicyPeriod] = field(default_factory=dict)
    gaps: list[RecordingGap] = field(default_factory=list)
    unrecorded: int = 0  # records that could not be written, as gap records tell
    torn: int = 0
    leaks: list[RecordedCall] = field(default_factory=list)  # not clear, and in the cloud
    actions: list[Action] = field(default_factory=list)  # what operators did

    def add(self, records: Iterable[dict[str, Any]]) -> None:
        """Of one gateway, in their order."""
        did: list[dict[str, Any]] = []
        for call in calls(self._own(records, did)):
            if call.time_s in self.span:
                self._call(call)
        # guard: B7.quarter-page
        self.actions += [action for action in actions(did) if action.time_s in self.span]

    def _call(self, call: RecordedCall) -> None:
        self.calls += 1
        kind = call.kind
        for zone in call.zones or ("nowhere",):
            self.touched[kind, zone] += 1
            self.tenants[call.tenant, zone] += 1
        self.ended[kind, call.outcome] += 1
        if call.outcome in ("rejected", "shed", "expired", "failed"):
            self.refusals[kind, call.reason] += 1
        policy = self.policies.setdefault(call.policy, PolicyPeriod(call.time_s, call.time_s))
        policy.first_s, policy.last_s = (
            min(policy.first_s, call.time_s),
            max(policy.last_s, call.time_s),
        )
        policy.calls += 1
        if call.in_cloud_unclear:
            self.leaks.append(call)  # guard: B5.page-leaks

    def _own(
        self, records: Iterable[dict[str, Any]], did: list[dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """What the audit tells of itself is taken in on the way to the calls."""
        origin, last_s, stopped = "", None, False
        for record in records:
            kind, time_s = record["kind"], float(record.get("time", last_s or 0.0))
            if kind in ("segment", "action"):
                did.append(record)
            if kind == "segment":
                origin = str(record["origin"])
            elif kind == "start" and last_s is not None:
                why = "stopped" if stopped else "killed"
                self._gap(RecordingGap(origin, last_s, time_s, why))
            elif kind == "gap":
                self._gap(RecordingGap(origin, float(record["since"]), time_s, str(record["why"])))
                self.unrecorded += int(record["records"]) * (time_s in self.span)
            elif kind == "torn":
                self.torn += time_s in self.span
            stopped = kind == "stop"
            if kind not in ("segment", "torn"):  # written at a start, before it is recorded
                last_s = time_s
            yield record

    def _gap(self, gap: RecordingGap) -> None:
        if gap.until_s > self.span.from_s and gap.from_s < self.span.until_s:
            self.gaps.append(gap)
