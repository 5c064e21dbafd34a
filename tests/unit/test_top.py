"""What `spillway top` makes of two readings, and what it shows."""

from __future__ import annotations

import io
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from rich.console import Console, RenderableType

from gateway.__main__ import main
from gateway.accounting.metrics import Metrics
from gateway.app.top import screen
from gateway.app.top.readings import GatewayReading, ReadingDelta, TopFigures, now

STATUS: dict[str, Any] = {
    "policy": "abc123",
    "draining": False,
    "endpoints": [
        {
            "endpoint": "gpu", "zone": "onprem", "up": True, "in_flight": 3,
            "models": {"m": {"ejected": False, "health": "well", "p50_s": 0.02, "p95_s": 0.05}},
        },
        {
            "endpoint": "far", "zone": "cloud", "up": True, "in_flight": 0,
            "models": {"m": {"ejected": True, "health": "out", "p50_s": None, "p95_s": None}},
        },
        {"endpoint": "lost", "zone": "onprem", "up": False, "in_flight": 0, "models": {}},
    ],
}  # fmt: skip


def called(metrics: Metrics, times: int, *labels: str) -> None:
    metrics.calls.labels(*labels).inc(times)


def between(metrics: Metrics, happens: Any, seconds: float = 2.0) -> TopFigures:
    first = GatewayReading.parse(10.0, metrics.render().decode(), STATUS)
    happens(metrics)
    last = GatewayReading.parse(10.0 + seconds, metrics.render().decode(), STATUS)
    return now(ReadingDelta(first, last))


def burst(metrics: Metrics) -> None:
    called(metrics, 40, "openai", "m", "clear", "onprem", "served", "onprem_room")
    called(metrics, 20, "openai", "m", "clear", "cloud", "served", "spill_queue")
    called(metrics, 6, "kserve-rest", "m", "restricted", "onprem", "served", "restricted")
    called(metrics, 2, "openai", "m", "restricted", "none", "shed", "deadline_unmeetable")
    for took_s in (0.01, 0.02, 0.03, 4.0):
        metrics.call_seconds.labels("openai", "onprem").observe(took_s)
    metrics.attempts.labels("gpu", "onprem", "served").inc(46)
    metrics.attempts.labels("gpu", "onprem", "upstream_failed").inc(4)
    metrics.queue_waiting.labels("gpu+lost", "m").set(7)
    metrics.queue_in_flight.labels("gpu", "m").set(16)
    metrics.spend_usd.labels("far", "cloud").inc(0.002)


def text_of(page: RenderableType, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(page)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_rates_are_of_what_happened_between_the_readings() -> None:
    metrics = Metrics()
    burst(metrics)  # before the first reading, and so of no account
    found = between(metrics, burst)
    assert found.per_s["clear", "onprem"] == 20.0
    assert found.per_s["clear", "cloud"] == 10.0
    assert found.per_s["restricted", "onprem"] == 3.0
    assert found.per_s["restricted", "not answered"] == 1.0
    assert found.per_s["restricted", "cloud"] == 0.0
    gpu, far, lost = found.endpoints
    assert (gpu.per_s, gpu.failed_per_s, gpu.state) == (23.0, 2.0, "up")
    assert (far.state, lost.state) == ("m ejected", "down")
    (queue,) = found.queues
    assert (queue.waiting, queue.with_servers) == (7, 16)
    assert found.spend_usd == pytest.approx(0.004)
    assert found.spend_usd_per_h == pytest.approx(0.001 * 3600)


def test_percentiles_are_those_of_the_calls_between_the_readings() -> None:
    registry = CollectorRegistry()
    times = Histogram("t", "", ["zone"], buckets=(1.0, 2.0, 4.0), registry=registry)
    for value in (9.0,) * 50:
        times.labels("a").observe(value)
    first = GatewayReading.parse(0.0, generate_latest(registry).decode(), {})
    for value in (0.5, 0.5, 1.5, 1.5, 1.5, 1.5, 3.0, 3.0, 3.0, 30.0):
        times.labels("a").observe(value)
    found = ReadingDelta(first, GatewayReading.parse(1.0, generate_latest(registry).decode(), {}))
    assert found.percentiles_s("t", (0.1, 0.4, 0.9, 0.99), zone="a") == pytest.approx(
        [0.5, 1.5, 4.0, 4.0]  # the last is beyond all bounds, of which the highest is told
    )
    assert found.percentiles_s("t", (0.5,), zone="b") is None


def test_a_gateway_that_was_restarted_has_no_rates_below_zero() -> None:
    metrics = Metrics()
    burst(metrics)
    first = GatewayReading.parse(0.0, metrics.render().decode(), STATUS)
    found = now(ReadingDelta(first, GatewayReading.parse(1.0, Metrics().render().decode(), STATUS)))
    assert set(found.per_s.values()) == {0.0}


def test_a_restricted_call_in_the_cloud_is_an_alarm() -> None:
    def leaks(metrics: Metrics) -> None:
        called(metrics, 1, "openai", "m", "restricted", "cloud", "served", "bug")

    assert "restricted calls in the cloud: 0" in text_of(
        screen.page("u", between(Metrics(), burst))
    )
    assert "RESTRICTED CALLS IN THE CLOUD: 1" in text_of(
        screen.page("u", between(Metrics(), leaks))
    )


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_page_has_everything_at_any_width(width: int) -> None:
    shown = text_of(screen.page("http://gw:8080", between(Metrics(), burst)), width)
    for part in ("abc123", "clear", "restricted", "p99", "gpu", "down", "23.0"):
        assert part in shown, part


def test_names_are_shown_as_they_are() -> None:
    """Between colons stands no picture, and between brackets no style."""

    def happens(metrics: Metrics) -> None:
        metrics.queue_waiting.labels("gpu+gpu#a+b[red]", "ft:gpt-4o:acme:cat:id").set(7)
        metrics.queue_in_flight.labels("gpu#a+b[red]", "ft:gpt-4o:acme:cat:id").set(41)
        metrics.queue_in_flight.labels("gp", "ft:gpt-4o:acme:cat:id").set(1)

    shown = text_of(screen.page("u", between(Metrics(), happens)), 200)
    assert "ft:gpt-4o:acme:cat:id" in shown
    assert "gpu#a+b[red]" in shown
    assert "41" in shown


def test_old_figures_are_said_to_be_old() -> None:
    shown = text_of(screen.page("u", between(Metrics(), burst), 4.2, "cannot be reached"))
    assert "NO ANSWER for 4 s (cannot be reached): what follows is old" in shown


def test_a_gateway_that_is_not_there_is_an_error_that_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["top", "--once", "--url", "http://127.0.0.1:9"]) == 1
    assert "no gateway answers there (ConnectError)" in " ".join(capsys.readouterr().err.split())
    assert main(["top", "--once", "--interval", "0"]) == 2
    assert "--interval" in capsys.readouterr().err
