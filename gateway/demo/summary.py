"""Where every call went and why: sums over what callers saw and what the gateway recorded.

Pure: the same calls give the same summary. A call's class is what it is by its making, and its zone
is the one that answered its caller; a call without an answer has the zone `none`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gateway.demo.decided import Decided
from gateway.demo.observed import Observed
from gateway.demo.plan import PHASES, PlannedCall

ONPREM, CLOUD, NONE = "onprem", "cloud", "none"
RESTRICTED, CLEAR = "restricted", "clear"


@dataclass(frozen=True, slots=True)
class Ended:
    """One call, from both sides. `decided` is None where the gateway has no record of it."""

    observed: Observed
    decided: Decided | None

    @property
    def call(self) -> PlannedCall:
        return self.observed.call

    @property
    def sensitivity(self) -> str:
        return RESTRICTED if self.call.restricted else CLEAR

    @property
    def zone(self) -> str:
        answered = self.observed.ok and self.decided is not None
        return (self.decided.served_in or NONE) if answered and self.decided else NONE

    @property
    def spilled(self) -> bool:
        return self.zone == CLOUD and self.decided is not None and self.decided.spilled

    @property
    def reason(self) -> str:
        """The gateway's reason code; where it gave none, what the client said."""
        if self.decided is None:
            return self.observed.status
        reason = self.decided.reason if self.zone != NONE else self.decided.end_reason
        return reason or self.observed.status

    @property
    def cost_usd(self) -> float:
        return sum(self.decided.cost_usd.values()) if self.decided else 0.0


@dataclass(frozen=True, slots=True)
class CallGroup:
    """Calls of one class that ended in one zone."""

    calls: int
    p50_ms: float | None
    p95_ms: float | None
    deadline_stated: int
    deadline_met: int
    cost_usd: float  # of all their attempts, failed ones too


@dataclass(frozen=True, slots=True)
class CallTally:
    calls: int
    restricted: int
    onprem: int
    cloud: int
    unanswered: int
    spilled: int
    deadline_stated: int
    deadline_met: int


@dataclass(frozen=True, slots=True)
class Summary:
    total: CallTally
    groups: Mapping[tuple[str, str], CallGroup]  # by class and zone, all six
    reasons: Mapping[tuple[str, str], int]  # by zone and reason
    by_phase: Mapping[str, CallTally]
    by_protocol: Mapping[str, CallTally]
    by_client: Mapping[str, CallTally]
    cost_usd: Mapping[str, float]  # by the zone where it was spent
    false_alarms: int  # clear by their making, held to be restricted: a finding, or not read

    def as_json(self) -> dict[str, Any]:
        tables = {
            "by_protocol": self.by_protocol,
            "by_phase": self.by_phase,
            "by_client": self.by_client,
        }
        return {
            **asdict(self.total),
            "clear": self.total.calls - self.total.restricted,
            "false_alarms": self.false_alarms,
            "cost_usd": dict(self.cost_usd),
            "by_class_and_zone": [
                {"class": sensitivity, "zone": zone, **asdict(group)}
                for (sensitivity, zone), group in self.groups.items()
            ],
            "why": [
                {"zone": zone, "reason": reason, "calls": calls}
                for (zone, reason), calls in self.reasons.items()
            ],
            **{
                name: {key: asdict(tally) for key, tally in table.items()}
                for name, table in tables.items()
            },
        }


def summarise(ended: Sequence[Ended]) -> Summary:
    return Summary(
        total=tally(ended),
        groups={
            (sensitivity, zone): _group(
                [e for e in ended if e.sensitivity == sensitivity and e.zone == zone]
            )
            for sensitivity in (RESTRICTED, CLEAR)
            for zone in (ONPREM, CLOUD, NONE)
        },
        reasons=_reasons(ended),
        by_phase=_by(ended, lambda e: e.call.phase, [phase.name for phase in PHASES]),
        by_protocol=_by(ended, lambda e: e.call.method.protocol),
        by_client=_by(ended, lambda e: e.call.method.value),
        cost_usd={zone: round(_spent_usd(ended, zone), 6) for zone in (ONPREM, CLOUD)},
        false_alarms=sum(
            e.decided is not None and e.decided.restricted and not e.call.restricted for e in ended
        ),
    )


def tally(ended: Iterable[Ended]) -> CallTally:
    calls = list(ended)
    zones = Counter(e.zone for e in calls)
    return CallTally(
        calls=len(calls),
        restricted=sum(e.call.restricted for e in calls),
        onprem=zones[ONPREM],
        cloud=zones[CLOUD],
        unanswered=zones[NONE],
        spilled=sum(e.spilled for e in calls),
        deadline_stated=_stated(calls),
        deadline_met=_met(calls),
    )


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that `share` of the values do not exceed (nearest rank)."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _group(ended: Sequence[Ended]) -> CallGroup:
    took_ms = [e.observed.took_s * 1000 for e in ended]
    p50_ms, p95_ms = percentile(took_ms, 0.5), percentile(took_ms, 0.95)
    return CallGroup(
        calls=len(ended),
        p50_ms=None if p50_ms is None else round(p50_ms, 1),
        p95_ms=None if p95_ms is None else round(p95_ms, 1),
        deadline_stated=_stated(ended),
        deadline_met=_met(ended),
        cost_usd=round(sum(e.cost_usd for e in ended), 6),
    )


def _reasons(ended: Sequence[Ended]) -> dict[tuple[str, str], int]:
    """On-prem first, and the commonest first."""
    counted = Counter((e.zone, e.reason) for e in ended)
    order = (ONPREM, CLOUD, NONE)
    return dict(sorted(counted.items(), key=lambda item: (order.index(item[0][0]), -item[1])))


def _by(
    ended: Sequence[Ended], key: Callable[[Ended], str], order: Sequence[str] = ()
) -> dict[str, CallTally]:
    group_names = {key(e) for e in ended}
    keys = [name for name in order if name in group_names] if order else sorted(group_names)
    return {name: tally(e for e in ended if key(e) == name) for name in keys}


def _stated(ended: Sequence[Ended]) -> int:
    return sum(e.call.budget_ms is not None for e in ended)


def _met(ended: Sequence[Ended]) -> int:
    return sum(e.observed.in_time for e in ended)


def _spent_usd(ended: Sequence[Ended], zone: str) -> float:
    return sum(e.decided.cost_usd.get(zone, 0.0) for e in ended if e.decided)
