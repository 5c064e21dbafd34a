"""B6: no metric grows without end, whatever its labels are told."""

from __future__ import annotations

import prometheus_client
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest

from gateway.accounting import series
from gateway.accounting.metrics import Metrics
from gateway.accounting.series import (
    MOST_VALUES,
    OTHER,
    Bounded,
    Cap,
    Counter,
    Gauge,
    Histogram,
    MetricsRegistry,
)

TENANTS = 3 * MOST_VALUES


def series_of(registry: MetricsRegistry, name: str) -> dict[str, float]:
    return {
        sample.labels["tenant"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def test_a_label_has_a_thousand_values_and_the_rest_is_other_with_nothing_lost() -> None:
    registry = MetricsRegistry()
    counter = Counter("x", "X.", ["tenant"], registry=registry)
    for number in range(TENANTS):
        counter.labels(f"t{number}").inc()
    counter.labels("t7").inc()
    found = series_of(registry, "x_total")
    assert len(found) == MOST_VALUES + 1
    assert found["t7"] == 2
    assert found[OTHER] == TENANTS - MOST_VALUES
    assert sum(found.values()) == TENANTS + 1


@pytest.mark.parametrize("kind", [Counter, Gauge, Histogram])
def test_every_kind_has_the_cap(kind: type[Counter] | type[Gauge] | type[Histogram]) -> None:
    metric = kind("x", "X.", ["tenant"], registry=MetricsRegistry())
    made = {id(metric.labels(f"t{number}")) for number in range(TENANTS)}
    assert len(made) == MOST_VALUES + 1


def test_what_came_late_is_not_remembered_by_name() -> None:
    """Or the cap would bound Prometheus and not the gateway."""
    metric = Counter("x", "X.", ["tenant"], registry=MetricsRegistry())
    for number in range(TENANTS):
        metric.labels(f"t{number}")
    assert len(metric._made) == MOST_VALUES + 1
    assert (OTHER,) in metric._made


def test_each_label_has_a_cap_of_its_own() -> None:
    cap = Cap()
    for number in range(TENANTS):
        cap.admitted((number, "served"))
    assert cap.admitted(("one more", "failed")) == (OTHER, "failed")


def test_a_name_of_any_length_is_no_series() -> None:
    assert Cap().admitted(("x" * 10_000,)) == (OTHER,)


def test_a_registry_takes_nothing_without_a_cap() -> None:
    with pytest.raises(TypeError, match="series"):
        prometheus_client.Counter("x", "X.", ["tenant"], registry=MetricsRegistry())


def test_all_metrics_of_the_gateway_are_bounded() -> None:
    metrics = Metrics()
    found = [m for m in vars(metrics).values() if hasattr(m, "collect") and m != metrics.registry]
    assert len(found) > 30
    assert all(isinstance(metric, Bounded) for metric in found)


def test_metrics_of_several_gateways_in_one_process_are_apart() -> None:
    one, other = Metrics(), Metrics()
    one.tenant_calls.labels("a", "onprem", "served").inc()
    assert 'tenant="a"' in one.render().decode()
    assert 'tenant="a"' not in other.render().decode()


def test_a_metric_that_is_cleared_or_loses_a_series_starts_anew() -> None:
    registry = MetricsRegistry()
    gauge = Gauge("x", "X.", ["tenant"], registry=registry)
    gauge.labels("a").set(1)
    gauge.labels("b").set(1)
    gauge.remove("b")
    assert set(series_of(registry, "x")) == {"a"}
    gauge.clear()
    assert series_of(registry, "x") == {}
    gauge.labels("a").set(2)
    assert series_of(registry, "x") == {"a": 2}


def test_what_is_rendered_is_one_series_a_line() -> None:
    registry = MetricsRegistry()
    Counter("x", "X.", ["tenant"], registry=registry).labels('a"\nspillway_fake 1').inc()
    assert b"\nspillway_fake" not in generate_latest(registry)


# The library's own kinds are the reference

_AMOUNTS = st.floats(0, 1e6) | st.integers(0, 1000)
_LABELS = st.sampled_from(["a", "b", ""])
_COUNTED = st.lists(st.tuples(_LABELS, _AMOUNTS), max_size=30)


def rendered(registry: prometheus_client.CollectorRegistry) -> list[bytes]:
    """But for when a series began."""
    lines = generate_latest(registry).splitlines()
    return [line for line in lines if line.startswith(b"#") or b"_created" not in line]


@given(_COUNTED, _COUNTED, _COUNTED)
@settings(max_examples=100)
def test_what_is_counted_is_shown_as_the_library_would(
    counted: list[tuple[str, float]],
    levels: list[tuple[str, float]],
    observed: list[tuple[str, float]],
) -> None:
    buckets = (0.001, 0.5, 1, 10, 1000)
    registries = (MetricsRegistry(), prometheus_client.CollectorRegistry())
    for registry, kinds in zip(registries, (series, prometheus_client), strict=True):
        counter = kinds.Counter("c", "C.", ["x"], registry=registry)
        gauge = kinds.Gauge("g", "G.", ["x"], registry=registry)
        histogram = kinds.Histogram("h", "H.", ["x"], buckets=buckets, registry=registry)
        bare = kinds.Counter("bare", "B.", registry=registry)
        for label, amount in counted:
            counter.labels(label).inc(amount)
            bare.inc()
        for label, amount in levels:
            gauge.labels(label).inc(amount)
            gauge.labels(label).dec(1)
            gauge.labels(label + "!").set(amount)
        for label, amount in observed:
            histogram.labels(label).observe(amount)
        together = [amount for _, amount in observed]
        if kinds is series:
            series.Histogram("t", "T.", buckets=buckets, registry=registry).observe_all(together)
        else:
            one = kinds.Histogram("t", "T.", buckets=buckets, registry=registry)
            for amount in together:
                one.observe(amount)
    ours, theirs = map(rendered, registries)
    assert ours == theirs


def test_a_bound_is_within_its_bucket() -> None:
    histogram = Histogram("h", "H.", buckets=(1, 2), registry=(registry := MetricsRegistry()))
    histogram.observe(1)
    assert registry.get_sample_value("h_bucket", {"le": "1.0"}) == 1


def test_a_counter_only_goes_up() -> None:
    with pytest.raises(ValueError, match="up"):
        Counter("x", "X.", registry=MetricsRegistry()).inc(-1)
