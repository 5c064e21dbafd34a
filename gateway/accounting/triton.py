"""What Triton servers tell in their own metrics, under names of ours: GPUs, queues and batches of
the premises stand beside the gateway's figures in one `/metrics`.

A server's text is read by a closed table of names; whatever else it says is left out. What is old
is left out too, and said to be stale: a figure that stands still looks like a server that does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from gateway.accounting.series import Bounded, Cap
from gateway.core.deadline import Clock

_MODEL: Final = ("model", "version")
_GPU: Final = ("gpu_uuid",)
_MICRO: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric of Triton's: what it is called here, and what it is multiplied by."""

    name: str
    says: str
    type: str
    labels: tuple[str, ...] = _MODEL  # Triton's
    factor: float = 1.0


FIGURES: Final = {
    "nv_inference_request_success": Figure(
        "spillway_triton_request_successes", "Requests that it answered.", "counter"
    ),
    "nv_inference_request_failure": Figure(
        "spillway_triton_request_failures", "Requests that failed there.", "counter",
        (*_MODEL, "reason"),
    ),
    "nv_inference_count": Figure(
        "spillway_triton_inferences", "Inferences; a batch of n is n of them.", "counter"
    ),
    "nv_inference_exec_count": Figure("spillway_triton_executions", "Batches executed.", "counter"),
    "nv_inference_request_duration_us": Figure(
        "spillway_triton_request_seconds", "Sum over requests.", "counter", factor=_MICRO
    ),
    "nv_inference_queue_duration_us": Figure(
        "spillway_triton_queue_seconds", "Sum over requests of their time in its own queue.",
        "counter", factor=_MICRO,
    ),
    "nv_inference_compute_input_duration_us": Figure(
        "spillway_triton_compute_input_seconds", "Sum of preparing inputs.", "counter",
        factor=_MICRO,
    ),
    "nv_inference_compute_infer_duration_us": Figure(
        "spillway_triton_compute_seconds", "Sum of executing.", "counter", factor=_MICRO
    ),
    "nv_inference_compute_output_duration_us": Figure(
        "spillway_triton_compute_output_seconds", "Sum of taking outputs.", "counter",
        factor=_MICRO,
    ),
    "nv_inference_pending_request_count": Figure(
        "spillway_triton_pending_requests", "Requests in its own queue.", "gauge"
    ),
    "nv_cache_num_hits_per_model": Figure(
        "spillway_triton_cache_hits", "Answers from its response cache.", "counter"
    ),
    "nv_cache_num_misses_per_model": Figure(
        "spillway_triton_cache_misses", "Requests that its cache did not have.", "counter"
    ),
    "nv_gpu_utilization": Figure(
        "spillway_triton_gpu_utilization_ratio", "How busy the GPU is.", "gauge", _GPU
    ),
    "nv_gpu_memory_used_bytes": Figure(
        "spillway_triton_gpu_memory_used_bytes", "GPU memory in use.", "gauge", _GPU
    ),
    "nv_gpu_memory_total_bytes": Figure(
        "spillway_triton_gpu_memory_total_bytes", "GPU memory.", "gauge", _GPU
    ),
    "nv_gpu_power_usage": Figure(
        "spillway_triton_gpu_power_watts", "What the GPU draws.", "gauge", _GPU
    ),
    "nv_gpu_power_limit": Figure(
        "spillway_triton_gpu_power_limit_watts", "The most that it may draw.", "gauge", _GPU
    ),
    "nv_energy_consumption": Figure(
        "spillway_triton_gpu_energy_joules", "Energy since the server started.", "counter", _GPU
    ),
    "nv_cpu_utilization": Figure(
        "spillway_triton_cpu_utilization_ratio", "How busy its machine's CPUs are.", "gauge", ()
    ),
}  # fmt: skip
"""By Triton's name."""

OURS: Final = {"gpu_uuid": "gpu"}
"""Labels that have another name here."""

STALE: Final = "spillway_triton_metrics_stale"
_WANTED: Final = re.compile(rf"^(?:{'|'.join(FIGURES)})[{{ ].*$", re.MULTILINE)
_MISSED: Final = 3  # readings in a row

Reported = tuple[Figure, tuple[str, ...], float]
"""A figure, the values of its labels, and its value."""


def read(text: bytes) -> list[Reported]:
    """What a server's `/metrics` says that we know of. Raises ValueError for what is none."""
    try:
        lines = "\n".join(match.group() for match in _WANTED.finditer(text.decode()))
        families = [*text_string_to_metric_families(lines + "\n")]
    except ValueError:
        raise ValueError("not the text format of Prometheus") from None
    figures: list[Reported] = []
    for sample in itertools.chain.from_iterable(family.samples for family in families):
        figure = FIGURES.get(sample.name)
        if figure is not None:
            values = tuple(sample.labels.get(label, "") for label in figure.labels)
            figures.append((figure, values, sample.value * figure.factor))
    return figures


class TritonFigures(Bounded):
    """The last reading of every server, as long as it is fresh."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stale_s: dict[str, float] = {}
        self._read: dict[str, tuple[float, list[Reported]]] = {}
        self._caps = {figure.name: Cap() for figure in FIGURES.values()}

    def expect(self, endpoint: str, period_s: float) -> None:
        """That server is read every so often."""
        self._stale_s[endpoint] = _MISSED * period_s

    def forget(self, endpoint: str) -> None:
        """That server is read no more."""
        self._stale_s.pop(endpoint, None)
        self._read.pop(endpoint, None)

    def learn(self, endpoint: str, figures: list[Reported]) -> None:
        self._read[endpoint] = (self._clock(), figures)

    def fresh(self, endpoint: str) -> list[Reported] | None:
        """None: too old, or nothing yet."""
        at_s, figures = self._read.get(endpoint, (float("-inf"), []))
        # guard: T2.stale-series -> return figures
        return figures if self._clock() - at_s <= self._stale_s.get(endpoint, 0.0) else None

    def describe(self) -> Iterable[Metric]:
        return [*(_family(figure) for figure in FIGURES.values()), _stale_family()]

    def collect(self) -> Iterator[Metric]:
        sums: dict[str, dict[tuple[str, ...], float]] = {}
        stale = _stale_family()
        for endpoint in self._stale_s:
            figures = self.fresh(endpoint)
            stale.add_metric([endpoint], figures is None)
            for figure, values, value in figures or ():
                series = self._caps[figure.name].admitted((endpoint, *values))
                by_labels = sums.setdefault(figure.name, {})
                # guard: T2.summed-series -> by_labels[series] = value
                by_labels[series] = (
                    by_labels.get(series, 0.0) + value
                )  # those under `other` are one series
        yield stale
        for figure in FIGURES.values():
            if figure.name in sums:
                family = _family(figure)
                for series, value in sums[figure.name].items():
                    family.add_metric(series, value)
                yield family


def labels(figure: Figure) -> tuple[str, ...]:
    return ("endpoint", *(OURS.get(label, label) for label in figure.labels))


def _family(figure: Figure) -> CounterMetricFamily | GaugeMetricFamily:
    kind = CounterMetricFamily if figure.type == "counter" else GaugeMetricFamily
    return kind(figure.name, f"Triton's own: {figure.says}", labels=labels(figure))


def _stale_family() -> GaugeMetricFamily:
    says = "1 while a server's own metrics are old or missing; then there are none of it here."
    return GaugeMetricFamily(STALE, says, labels=["endpoint"])
