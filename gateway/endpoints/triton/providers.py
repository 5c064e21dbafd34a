"""What the models of a server run on: they say it themselves, in Triton's metrics.

A model of ONNX Runtime falls back to the CPU in silence where a GPU's library is missing. Those of
models/ look at what their session really has, and tell (`gateway/models/served/ort_session.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

METRIC = "spillway_model_provider"
ON_CPU = "CPUExecutionProvider"
_PROVIDER = re.compile(r"[A-Za-z]{1,32}ExecutionProvider")  # it becomes a label


@dataclass(frozen=True, slots=True, order=True)
class Provided:
    """One version of a model, and what it runs on."""

    model: str
    version: str
    provider: str
    graph: str
    threads: int


def read(metrics: str) -> tuple[Provided, ...]:
    """Of the text of a Prometheus endpoint. What cannot be read is left out."""
    lines = [line for line in metrics.splitlines() if line.startswith(METRIC + "{")]
    providers = []
    for line in lines:
        try:
            families = list(text_string_to_metric_families(line + "\n"))
            # guard: E1.provider-gone without s.value == 1
            providers += [_provided(s.labels) for f in families for s in f.samples if s.value == 1]
        except (ValueError, KeyError):
            continue
    return tuple(sorted(providers))


def _provided(labels: dict[str, str]) -> Provided:
    if not _PROVIDER.fullmatch(labels["provider"]):  # guard: E1.provider-name
        raise ValueError("no provider of ONNX Runtime")
    return Provided(
        model=labels["model"],
        version=labels["version"],
        provider=labels["provider"],
        graph=labels["graph"],
        threads=int(labels["threads"]),
    )
