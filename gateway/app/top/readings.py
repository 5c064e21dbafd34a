"""Two readings of a gateway's metrics and its status, as rates and percentiles between them.

Percentiles are those of a histogram: of the calls between the two readings, interpolated within a
bucket as Prometheus' `histogram_quantile` does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from gateway.core.types import is_onprem

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class GatewayReading:
    """Everything that a gateway told at one moment."""

    at_s: float
    status: Mapping[str, Any]
    values: Mapping[str, Mapping[Labels, float]] = field(repr=False)

    @classmethod
    def parse(cls, at_s: float, metrics: str, status: Mapping[str, Any]) -> GatewayReading:
        """Raises ValueError for what is no text in Prometheus' format."""
        values: dict[str, dict[Labels, float]] = defaultdict(dict)
        for family in text_string_to_metric_families(metrics):
            for sample in family.samples:
                values[sample.name][frozenset(sample.labels.items())] = sample.value
        return cls(at_s, status, values)

    def total(self, name: str, **labels: str) -> float:
        """The sum of all series that have these labels."""
        wanted = labels.items()
        return sum(v for have, v in self.values.get(name, {}).items() if have >= set(wanted))

    def by(self, name: str, label: str) -> dict[str, float]:
        totals: dict[str, float] = defaultdict(float)
        for have, value in self.values.get(name, {}).items():
            totals[dict(have).get(label, "")] += value
        return dict(totals)


@dataclass(frozen=True, slots=True)
class ReadingDelta:
    """What happened between two readings of one gateway."""

    first: GatewayReading
    last: GatewayReading

    @property
    def seconds(self) -> float:
        return max(1e-9, self.last.at_s - self.first.at_s)

    def per_s(self, name: str, **labels: str) -> float:
        """Never below zero: a gateway that was restarted counts from zero again."""
        gained = self.last.total(name, **labels) - self.first.total(name, **labels)
        return max(0.0, gained) / self.seconds

    def percentiles_s(
        self, name: str, shares: Sequence[float], **labels: str
    ) -> list[float] | None:
        """None while nothing was counted."""
        wanted = set(labels.items())
        buckets: dict[float, float] = defaultdict(float)
        for have, value in self.last.values.get(f"{name}_bucket", {}).items():
            if have >= wanted:
                before = self.first.values.get(f"{name}_bucket", {}).get(have, 0.0)
                buckets[float(dict(have)["le"])] += max(0.0, value - before)
        ends = sorted(buckets.items())
        if not ends or ends[-1][1] <= 0:
            return None
        return [_quantile(ends, share) for share in shares]


def _quantile(ends: Sequence[tuple[float, float]], share: float) -> float:
    """`ends`: the buckets' upper bounds with the counts up to there."""
    rank, lower, below = share * ends[-1][1], 0.0, 0.0
    for upper, count in ends:
        if count >= rank and count > below:
            if math.isinf(upper):
                return lower
            return lower + (upper - lower) * (rank - below) / (count - below)
        lower, below = upper, count
    return lower


@dataclass(frozen=True, slots=True)
class EndpointNow:
    name: str
    zone: str
    state: str  # up, down, or what is the matter with which model
    in_flight: int
    per_s: float
    failed_per_s: float
    p50_s: float | None
    p95_s: float | None


@dataclass(frozen=True, slots=True)
class QueueNow:
    servers: str
    model: str
    waiting: int
    with_servers: int


@dataclass(frozen=True, slots=True)
class TopFigures:
    """What is shown."""

    policy: str
    draining: bool
    calls_in_flight: int
    restricted_in_cloud: int  # since the gateway started; anything but 0 is an alarm
    per_s: Mapping[tuple[str, str], float]  # by sensitivity, and by zone or outcome
    percentiles_s: Mapping[str, list[float] | None]  # 50, 95, 99, by zone
    spend_usd: float
    spend_usd_per_h: float
    endpoints: Sequence[EndpointNow]
    queues: Sequence[QueueNow]


SENSITIVITIES = ("clear", "restricted")
ENDS = ("onprem", "cloud", "not answered")
SHARES = (0.5, 0.95, 0.99)


def now(between: ReadingDelta) -> TopFigures:
    last = between.last
    return TopFigures(
        policy=str(last.status.get("policy", "?")),
        draining=bool(last.status.get("draining")),
        calls_in_flight=int(last.total("spillway_calls_in_flight")),
        restricted_in_cloud=int(
            sum(
                last.total("spillway_calls_total", sensitivity="restricted", zone=zone)
                for zone in _zones(last, "cloud")
            )
        ),
        per_s={(s, end): _calls(between, s, end) for s in SENSITIVITIES for end in ENDS},
        percentiles_s={
            zone: between.percentiles_s("spillway_call_seconds", SHARES, zone=zone)
            for zone in ("onprem", "cloud")
        },
        spend_usd=last.total("spillway_spend_usd_total"),
        spend_usd_per_h=between.per_s("spillway_spend_usd_total") * 3600,
        endpoints=[_endpoint(between, its) for its in last.status.get("endpoints", [])],
        queues=_queues(last),
    )


def _zones(last: GatewayReading, end: str) -> list[str]:
    """Those that are shown as one of `ENDS`."""
    named = last.by("spillway_calls_total", "zone").keys() - {"none"}
    return [zone for zone in named if is_onprem(zone) == (end == "onprem")]


def _calls(between: ReadingDelta, sensitivity: str, end: str) -> float:
    name, its = "spillway_calls_total", {"sensitivity": sensitivity}
    if end != "not answered":
        return sum(
            between.per_s(name, **its, zone=zone, outcome="served")
            for zone in _zones(between.last, end)
        )
    return between.per_s(name, **its) - between.per_s(name, **its, outcome="served")


def _endpoint(between: ReadingDelta, its: Mapping[str, Any]) -> EndpointNow:
    name, models = str(its["endpoint"]), its.get("models", {})
    served = between.per_s("spillway_attempts_total", endpoint=name, result="served")
    times = [(m["p50_s"], m["p95_s"]) for m in models.values() if m.get("p50_s") is not None]
    slowest = max(times, default=(None, None))
    return EndpointNow(
        name=name,
        zone=str(its["zone"]),
        state=_state(its, models),
        in_flight=int(its["in_flight"]),
        per_s=served,
        failed_per_s=between.per_s("spillway_attempts_total", endpoint=name) - served,
        p50_s=slowest[0],
        p95_s=slowest[1],
    )


def _state(its: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    if not its["up"]:
        return "down"
    bad = [
        f"{model} {'ejected' if model_state.get('ejected') else model_state['health']}"
        for model, model_state in models.items()
        if model_state.get("ejected") or model_state.get("health") == "slow"
    ]
    return ", ".join(bad) or "up"


def _queues(last: GatewayReading) -> list[QueueNow]:
    with_server = last.values.get("spillway_queue_in_flight", {})
    queues = []
    for have, waiting in last.values.get("spillway_queue_waiting", {}).items():
        labels = dict(have)
        servers, model = labels["endpoint"], labels["model"]
        there = sum(
            value for other, value in with_server.items()
            if dict(other)["model"] == model and f"+{dict(other)['endpoint']}+" in f"+{servers}+"
        )  # fmt: skip
        queues.append(QueueNow(servers, model, int(waiting), int(there)))
    return sorted(queues, key=lambda q: (-q.waiting - q.with_servers, q.model))
