"""Metrics as OTLP has them, from the same registry that `/metrics` shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from prometheus_client.registry import CollectorRegistry
from prometheus_client.samples import Sample

from gateway.accounting.otlp.spans import attributes, scope

_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


@dataclass(frozen=True, slots=True)
class _Times:
    """Between which it was counted."""

    since_ns: int
    now_ns: int


def request(
    registry: CollectorRegistry, resource: Resource, since_s: float, now_s: float
) -> ExportMetricsServiceRequest:
    """`since_s`: when the counting began, in seconds since 1970."""
    times = _Times(int(since_s * 1e9), int(now_s * 1e9))
    metrics = [
        _metric(family.name, family.documentation, family.type, family.samples, times)
        for family in registry.collect()
        if family.samples
    ]
    scoped = ScopeMetrics(scope=scope(), metrics=metrics)
    return ExportMetricsServiceRequest(
        resource_metrics=[ResourceMetrics(resource=resource, scope_metrics=[scoped])]
    )


def _metric(name: str, says: str, kind: str, samples: Iterable[Sample], times: _Times) -> Metric:
    if kind == "histogram":
        points = [*_histograms(samples, times)]
        histogram = Histogram(data_points=points, aggregation_temporality=_CUMULATIVE)
        return Metric(name=name, description=says, histogram=histogram)
    counted = kind == "counter"
    numbers = [
        NumberDataPoint(
            attributes=list(attributes(s.labels)),
            as_double=s.value,
            start_time_unix_nano=times.since_ns,
            time_unix_nano=times.now_ns,
        )
        for s in samples
        if not s.name.endswith("_created")
    ]
    if counted:
        total = Sum(data_points=numbers, aggregation_temporality=_CUMULATIVE, is_monotonic=True)
        return Metric(name=f"{name}_total", description=says, sum=total)
    return Metric(name=name, description=says, gauge=Gauge(data_points=numbers))


def _histograms(samples: Iterable[Sample], times: _Times) -> Iterator[HistogramDataPoint]:
    """Prometheus counts what is at or below a bound, OTLP what is between two."""
    series: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for sample in samples:
        labels = dict(sample.labels)
        part = labels.pop("le", sample.name.rpartition("_")[2])
        series.setdefault(tuple(labels.items()), {})[part] = sample.value
    for key, parts in series.items():
        below = [(float(le), n) for le, n in parts.items() if le not in ("sum", "count", "created")]
        counts, before = [], 0
        for _, count in sorted(below):
            counts.append(int(count) - before)
            before = int(count)
        yield HistogramDataPoint(
            attributes=list(attributes(dict(key))),
            count=before,
            sum=parts["sum"],
            bucket_counts=counts,
            explicit_bounds=[bound for bound, _ in sorted(below) if not math.isinf(bound)],
            start_time_unix_nano=times.since_ns,
            time_unix_nano=times.now_ns,
        )
