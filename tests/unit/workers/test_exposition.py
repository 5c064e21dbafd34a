"""One page of metrics for all workers."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from gateway.accounting.metrics import Metrics
from gateway.cluster.workers.exposition import labelled, together


def test_each_series_names_its_worker_and_each_family_is_told_once() -> None:
    one, two = Metrics(), Metrics()
    one.tenant_calls.labels("acme", "onprem", "served").inc(2)
    two.tenant_calls.labels("acme", "onprem", "served").inc(3)
    two.in_flight.set(4)
    page = together({2: two.render().decode(), 1: one.render().decode()})
    families = list(text_string_to_metric_families(page))
    assert len({f.name for f in families}) == len(families)
    samples = [s for f in families for s in f.samples]
    assert all(s.labels["worker"] in ("1", "2") for s in samples)
    calls = {s.labels["worker"]: s.value for s in samples
             if s.name.endswith("_total") and "acme" in s.labels.values()}  # fmt: skip
    assert calls == {"1": 2.0, "2": 3.0}
    assert {(s.labels["worker"], s.value) for s in samples
            if s.name == "spillway_calls_in_flight"} == {("1", 0.0), ("2", 4.0)}  # fmt: skip


def test_a_sample_is_labelled_whatever_it_has() -> None:
    assert labelled("a_total 3.0", 2) == 'a_total{worker="2"} 3.0'
    assert labelled('a{b="}",c="{"} 1', 1) == 'a{worker="1",b="}",c="{"} 1'
    assert labelled("# EOF", 1) == "# EOF"
