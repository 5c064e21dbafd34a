"""What a collector gets, and what becomes of it where the collector takes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from pydantic import ValidationError

pytest.importorskip("opentelemetry.proto", reason="the extra otel is not installed")

from gateway.accounting.metrics import Metrics
from gateway.accounting.otlp.collector import OtlpExporter
from gateway.config import Contradiction, TelemetrySettings
from gateway.core.trace_context import Trace
from tests.otlp import Receiver, collector

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

_RUNNER = asyncio.Runner()  # one loop: a sender keeps its connection


@pytest.fixture(scope="module", autouse=True)
def closed_at_the_end() -> Iterator[None]:
    yield
    _RUNNER.close()


class Sender:
    def __init__(self, url: str, **more: object) -> None:
        self.metrics = Metrics()
        self.settings = TelemetrySettings.model_validate({"otlp_url": url, **more})
        self.collector = OtlpExporter(self.settings, self.metrics)

    def trace(self, outcome: str = "served") -> Trace:
        trace = Trace(TRACEPARENT, "", time.monotonic(), time.monotonic, self.collector.take)
        attempt = trace.begin("attempt")
        trace.end(attempt, {"endpoint": "gpu", "result": "served"})
        trace.finish({"outcome": outcome, "attempts": 1})
        return trace

    def dropped(self, why: str) -> float:
        found = self.metrics.registry.get_sample_value(
            "spillway_traces_dropped_total", {"why": why}
        )
        return found or 0.0

    def send(self) -> None:
        _RUNNER.run(self.collector.send_traces())


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with collector() as found:
        yield found


def test_a_call_is_a_server_span_with_its_attempt_as_a_client_span(receiver: Receiver) -> None:
    sender = Sender(receiver.url)
    began_ns = time.time_ns()
    sender.trace()
    sender.send()
    call, attempt = sorted(receiver.spans(), key=lambda s: s.name, reverse=True)
    assert (call.name, call.kind, call.parent) == ("spillway.call", 2, "")
    assert (attempt.name, attempt.kind, attempt.parent) == ("spillway.attempt", 3, call.id)
    assert call.trace == attempt.trace == TRACEPARENT[3:35]
    assert call.told == {"spillway.outcome": "served", "spillway.attempts": 1}
    assert attempt.told == {"spillway.endpoint": "gpu", "spillway.result": "served"}
    assert abs(call.start_ns - began_ns) < 5e9
    assert call.start_ns <= attempt.start_ns <= attempt.end_ns <= call.end_ns


@pytest.mark.parametrize(
    ("outcome", "failed"),
    [("failed", True), ("served", False), ("shed", False), ("cancelled", False)],
)
def test_only_what_is_the_gateways_fault_is_an_error(
    receiver: Receiver, outcome: str, failed: bool
) -> None:
    sender = Sender(receiver.url)
    sender.trace(outcome)
    sender.send()
    (call,) = [s for s in receiver.spans() if s.name == "spillway.call"]
    assert call.failed is failed


def test_the_collectors_headers_go_along_and_nothing_of_the_environment(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-env=1")
    sender = Sender(receiver.url, headers={"x-token": "t"})
    sender.trace()
    sender.send()
    (headers,) = receiver.headers
    assert headers["x-token"] == "t"
    assert headers["content-type"] == "application/x-protobuf"
    assert "x-env" not in headers


def test_a_collector_that_is_full_gets_the_same_traces_later(receiver: Receiver) -> None:
    sender = Sender(receiver.url)
    sender.trace()
    receiver.status = 503
    sender.send()
    receiver.status = 200
    sender.trace()
    sender.send()
    assert len(receiver.spans()) == 4
    assert sender.dropped("refused") == sender.dropped("queue_full") == 0


def test_what_a_collector_refuses_is_dropped_and_counted(receiver: Receiver) -> None:
    sender = Sender(receiver.url)
    sender.trace()
    receiver.status = 400
    sender.send()
    receiver.status = 200
    sender.send()
    assert receiver.spans() == []
    assert sender.dropped("refused") == 1


def test_without_a_collector_so_many_wait_and_the_rest_is_dropped() -> None:
    sender = Sender("http://127.0.0.1:1")
    trace = sender.trace()
    for _ in range(3000):
        sender.collector.take(trace)
    assert len(sender.collector._traces) == 2048
    assert sender.dropped("queue_full") == 3001 - 2048
    sender.send()
    assert len(sender.collector._traces) == 2048


def test_metrics_are_pushed_as_they_are_shown(receiver: Receiver) -> None:
    sender = Sender(receiver.url, push_metrics=True)
    metrics = sender.metrics
    metrics.tenant_calls.labels("billing", "onprem", "served").inc(3)
    metrics.in_flight.set(2)
    for took_s in (0.05, 0.07, 400.0):
        metrics.call_seconds.labels("openai", "onprem").observe(took_s)
    _RUNNER.run(sender.collector.send_metrics())
    (message,) = receiver.metrics
    (resource,) = message.resource_metrics
    told = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert told["service.name"] == "spillway"
    found = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    (calls,) = found["spillway_tenant_calls_total"].sum.data_points
    assert calls.as_double == 3
    assert {a.key: a.value.string_value for a in calls.attributes} == {
        "tenant": "billing", "zone": "onprem", "outcome": "served",
    }  # fmt: skip
    assert found["spillway_tenant_calls_total"].sum.is_monotonic
    assert found["spillway_calls_in_flight"].gauge.data_points[0].as_double == 2
    (seconds,) = found["spillway_call_seconds"].histogram.data_points
    assert seconds.count == 3
    assert seconds.sum == pytest.approx(400.12)
    assert len(seconds.bucket_counts) == len(seconds.explicit_bounds) + 1
    below = dict(zip(seconds.explicit_bounds, seconds.bucket_counts, strict=False))
    assert (below[0.05], below[0.075], seconds.bucket_counts[-1]) == (1, 1, 1)
    assert not [name for name in found if "created" in name]


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({"push_metrics": True}, "push_metrics"),
        ({"otlp_url": "ftp://x"}, "otlp_url"),
        ({"otlp_url": "http://x:1", "ca_file": "/ca"}, "ca_file"),
        ({"otlp_url": "http://x:1", "trace_ratio": 2}, "trace_ratio"),
    ],
)
def test_settings_that_make_no_sense_are_refused(document: dict[str, object], where: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TelemetrySettings.model_validate(document)
    (error,) = caught.value.errors()
    raised = error.get("ctx", {}).get("error")
    assert where in (*error["loc"], *(raised.where if isinstance(raised, Contradiction) else ()))
