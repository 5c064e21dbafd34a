"""The figures of every Triton stand in the gateway's own metrics, while they are fresh."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.accounting import triton
from gateway.accounting.metrics import Metrics
from gateway.accounting.series import MOST_VALUES, OTHER
from gateway.accounting.triton import FIGURES, STALE, TritonFigures
from gateway.config import EndpointSettings
from gateway.endpoints.triton.metrics_relay import MetricsRelay
from tests.live import LiveGateway, wait_until
from tests.unit.spill.clock import HandClock

GPU = 'gpu_uuid="GPU-1"'
MODEL = 'model="m",version="1"'
TOLD = "\n".join(
    (
        f"nv_inference_count{{{MODEL}}} 40",
        f"nv_inference_exec_count{{{MODEL}}} 10",
        f"nv_inference_queue_duration_us{{{MODEL}}} 2500000",
        f'nv_inference_request_failure{{{MODEL},reason="BACKEND"}} 3',
        f"nv_inference_pending_request_count{{{MODEL}}} 7",
        f"nv_gpu_utilization{{{GPU}}} 0.5",
        f"nv_gpu_memory_used_bytes{{{GPU}}} 1024",
        f"nv_energy_consumption{{{GPU}}} 12.5",
        f'nv_something_of_a_model{{{MODEL},said="secret"}} 1',
    )
)


def figures(clock: Callable[[], float], *endpoints: str, period_s: float = 5.0) -> TritonFigures:
    found = TritonFigures(clock)
    for name in endpoints or ("gpu",):
        found.expect(name, period_s)
    return found


def values(found: TritonFigures) -> dict[tuple[str, ...], float]:
    """Name and sorted label values -> value."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in found.collect()
        for sample in family.samples
    }


def test_figures_have_our_names_and_units_and_the_endpoint() -> None:
    found = figures(HandClock())
    found.learn("gpu", triton.read(TOLD.encode()))
    assert values(found) == {
        (STALE, "gpu"): 0,
        ("spillway_triton_inferences_total", "gpu", "m", "1"): 40,
        ("spillway_triton_executions_total", "gpu", "m", "1"): 10,
        ("spillway_triton_queue_seconds_total", "gpu", "m", "1"): 2.5,
        ("spillway_triton_request_failures_total", "gpu", "m", "1", "BACKEND"): 3,
        ("spillway_triton_pending_requests", "gpu", "m", "1"): 7,
        ("spillway_triton_gpu_utilization_ratio", "gpu", "GPU-1"): 0.5,
        ("spillway_triton_gpu_memory_used_bytes", "gpu", "GPU-1"): 1024,
        ("spillway_triton_gpu_energy_joules_total", "gpu", "GPU-1"): 12.5,
    }


def test_what_is_old_is_stale_and_has_no_series() -> None:
    clock = HandClock()
    found = figures(clock)
    found.learn("gpu", triton.read(TOLD.encode()))
    clock.now_s += 15.0
    assert len(values(found)) > 1
    clock.now_s += 0.1
    assert values(found) == {(STALE, "gpu"): 1}


def test_a_server_that_was_never_read_is_stale() -> None:
    assert values(figures(HandClock(), "a", "b")) == {(STALE, "a"): 1, (STALE, "b"): 1}


def test_nothing_of_a_server_grows_without_end() -> None:
    found = figures(HandClock())
    text = "\n".join(
        f'nv_inference_count{{model="m{n}",version="1"}} 1' for n in range(2 * MOST_VALUES)
    )
    found.learn("gpu", triton.read(text.encode()))
    told = values(found)
    assert len(told) == MOST_VALUES + 2
    assert told["spillway_triton_inferences_total", "gpu", OTHER, "1"] == MOST_VALUES


def test_what_a_model_says_of_itself_is_left_out() -> None:
    metrics = Metrics()
    metrics.triton.expect("gpu", 5.0)
    metrics.triton.learn("gpu", triton.read(TOLD.encode()))
    assert b"secret" not in metrics.render()
    assert b"nv_" not in metrics.render()


@pytest.mark.parametrize("text", [b"nv_inference_count{x 1", b"nv_inference_count many", b"\xff"])
def test_nonsense_is_refused_as_a_whole(text: bytes) -> None:
    with pytest.raises(ValueError, match="text format"):
        triton.read(text)


def test_no_two_figures_have_one_name() -> None:
    names = [figure.name for figure in FIGURES.values()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("spillway_triton_") for name in names)


class Server:
    """A server that tells metrics, or what it is given to tell."""

    def __init__(self) -> None:
        self.body = TOLD.encode()
        self.status = b"200 OK"
        self.silent = False
        self.paths: list[bytes] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.paths.append(head.split(b" ")[1])
            if not self.silent:
                length = b"content-length: %d" % len(self.body)
                writer.write(b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (self.status, length, self.body))
                await writer.drain()
            await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()


def folding(url: str, metrics: Metrics, period_s: float = 0.3) -> MetricsRelay:
    settings = EndpointSettings.model_validate(
        {"kind": "triton", "zone": "onprem", "grpc": "127.0.0.1:1", "metrics_url": url}
    )
    return MetricsRelay({"gpu": settings}, lambda name: None, metrics.triton, metrics, period_s)


def after_reading(server: Server, path: str = "/metrics", period_s: float = 0.3) -> Metrics:
    async def main() -> Metrics:
        metrics = Metrics()
        async with server.listening() as port:
            await folding(f"http://127.0.0.1:{port}{path}", metrics, period_s).read("gpu")
        return metrics

    return asyncio.run(main())


def is_stale(metrics: Metrics) -> bool:
    return metrics.registry.get_sample_value(STALE, {"endpoint": "gpu"}) == 1


@pytest.mark.parametrize(("path", "asked"), [("", b"/metrics"), ("/own/path", b"/own/path")])
def test_a_server_is_read_where_the_settings_say(path: str, asked: bytes) -> None:
    server = Server()
    metrics = after_reading(server, path)
    assert server.paths == [asked]
    assert not is_stale(metrics)
    assert b'spillway_triton_gpu_utilization_ratio{endpoint="gpu",gpu="GPU-1"} 0.5' in (
        metrics.render()
    )


@pytest.mark.parametrize("what", ["silent", "too long", "an error", "nonsense", "no text"])
def test_a_server_that_tells_nothing_useful_is_stale_and_no_bug(what: str) -> None:
    server = Server()
    server.silent = what == "silent"
    server.status = b"500 No" if what == "an error" else b"200 OK"
    bodies = {
        "too long": TOLD.encode() + b"\n# " + b"x" * 5_000_000,
        "nonsense": b"nv_inference_count{{{ 7",
        "no text": b"nv_\xff\xfe",
    }
    server.body = bodies.get(what, server.body)
    metrics = after_reading(server)
    assert is_stale(metrics)
    assert not metrics.registry.get_sample_value(
        "spillway_unexpected_errors_total", {"where": "triton_metrics"}
    )


def test_the_real_tritons_figures_are_in_the_metrics_of_a_running_gateway(
    gateway: LiveGateway,
) -> None:
    def told() -> dict[tuple[str, str], float]:
        return {
            (sample.name, sample.labels.get("model", "")): sample.value
            for family in text_string_to_metric_families(gateway.metrics())
            for sample in family.samples
            if sample.labels.get("endpoint") == "local"
        }

    # Its canary at the start, as soon as it has been read once more.
    wait_until(lambda: told().get(("spillway_triton_executions_total", "minilm"), 0) >= 1, 10.0)
    assert told()[STALE, ""] == 0
    assert told()["spillway_triton_pending_requests", "minilm"] == 0
    assert told()["spillway_triton_compute_seconds_total", "minilm"] > 0
