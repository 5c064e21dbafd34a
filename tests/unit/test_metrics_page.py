"""The page of metrics is the one that the client library would write."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from gateway.accounting.metrics import Metrics
from gateway.accounting.page import page
from gateway.accounting.series import Counter, Gauge, Histogram, MetricsRegistry
from gateway.accounting.triton import read

_TRITON = b"""\
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="a\\"b",version="1"} 7
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.25
"""


def test_of_all_that_a_gateway_counts() -> None:
    metrics = Metrics()
    metrics.triton.expect("gpu", 60)
    metrics.triton.learn("gpu", read(_TRITON))
    metrics.tasks_failed.labels("some\nwhere").inc()
    metrics.credentials_refused.labels('a "kind"', "why\\not").inc(3)
    said = page(metrics.registry)
    assert said == generate_latest(metrics.registry) == metrics.render()
    assert b"spillway_triton_gpu_utilization_ratio" in said


@given(
    st.text(),
    st.lists(st.tuples(st.text(), st.floats(0, allow_infinity=False)), max_size=5),
    st.lists(st.floats(), max_size=5),
)
def test_of_any_names_and_numbers(
    says: str, counts: list[tuple[str, float]], levels: list[float]
) -> None:
    registry: CollectorRegistry = MetricsRegistry()
    counter = Counter("spillway_counts", says, ["who", "at"], registry=registry)
    gauge = Gauge("spillway_level", says, registry=registry)
    histogram = Histogram("spillway_times", says, ["who"], registry=registry, buckets=(0.5, 1, 2))
    for who, count in counts:
        counter.labels(who, "here").inc(count)
        histogram.labels(who).observe(count)
    for level in levels:
        gauge.set(level)
    assert page(registry) == generate_latest(registry)
