"""Which calls, of what class, touched which zones, between two days."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.actions import Action, actions
from gateway.accounting.audit.reports.calls import RecordedCall, calls
from gateway.accounting.audit.verify import records
from gateway.core.types import is_onprem

_QUARTER = re.compile(r"(\d{4})[Qq]([1-4])")


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From a moment to another, which is not in it any more; seconds since 1970."""

    from_s: float = float("-inf")
    until_s: float = float("inf")

    def __contains__(self, time_s: float) -> bool:
        return self.from_s <= time_s < self.until_s


@dataclass(frozen=True, slots=True)
class CallFilter:
    """None: any."""

    span: TimeRange = TimeRange()
    sensitivity: str | None = None
    zone: str | None = None
    tenant: str | None = None
    model: str | None = None
    reason: str | None = None
    outcome: str | None = None
    sent_as: str | None = None
    ids: frozenset[str] | None = None
    traces: frozenset[str] | None = None

    def __contains__(self, call: RecordedCall) -> bool:
        return (
            call.time_s in self.span
            and (self.sensitivity is None or self.sensitivity in call.kind.split("+"))
            and (self.zone is None or self.zone in call.zones)
            and self.tenant in (None, call.tenant)
            and self.model in (None, call.model)
            and self.reason in (None, call.reason)
            and self.outcome in (None, call.outcome)
            and (self.sent_as is None or self.sent_as in call.sent_as)
            and (self.ids is None or call.id in self.ids)
            and (self.traces is None or call.trace in self.traces)
        )

    @property
    def must_be_empty(self) -> bool:
        """Whatever else is asked for: what was not read as clear never went to the cloud (B5)."""
        outside = self.zone is not None and not is_onprem(self.zone)
        return self.sensitivity in ("restricted", "unknown") and outside


def matching_calls(directories: Sequence[Path], wanted: CallFilter) -> Iterator[RecordedCall]:
    """Each checked against the chain that it stands in. Raises AuditError."""
    for directory in directories:
        yield from (call for call in calls(records(directory)) if call in wanted)


def done(directories: Sequence[Path], span: TimeRange, by: str | None) -> Iterator[Action]:
    """What operators did, each checked against the chain that it stands in. Raises AuditError."""
    for directory in directories:
        for action in actions(records(directory)):
            if action.time_s in span and by in (None, action.by):
                yield action


def moment(text: str) -> float:
    """A day or a moment of ISO 8601, in UTC unless it says otherwise. Raises AuditError."""
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise AuditError(
            f"{text}: write a day or a moment, as 2026-07-01 or 2026-07-01T12:00"
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp()


def quarter(text: str) -> TimeRange:
    """`2026Q3`. Raises AuditError."""
    match = _QUARTER.fullmatch(text)
    if match is None:
        raise AuditError(f"{text}: write a quarter as 2026Q3")
    year, number = int(match[1]), int(match[2])
    last = (year + number // 4, number % 4 * 3 + 1)
    starts = ((year, 3 * number - 2), last)
    from_s, until_s = (dt.datetime(y, m, 1, tzinfo=dt.UTC).timestamp() for y, m in starts)
    return TimeRange(from_s, until_s)
