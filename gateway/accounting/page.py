"""The page that Prometheus reads (text format 0.0.4), of the kinds of metric that there are here,
all of which have names of ours.

What the client library writes it with brings an HTTP server and an HTTP client, which take as long
to import as all the rest of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

_CREATED = "_created"
"""When a series began: to this format a gauge of its own."""


def page(registry: Collector) -> bytes:
    """What `prometheus_client.generate_latest` writes."""
    return "".join(line for family in registry.collect() for line in _family(family)).encode()


def _family(family: Metric) -> Iterator[str]:
    created = [one for one in family.samples if one.name == family.name + _CREATED]
    yield from _head(family, "_total" if family.type == "counter" else "", family.type)
    yield from (_line(one) for one in family.samples if one.name != family.name + _CREATED)
    if created:
        yield from _head(family, _CREATED, "gauge")
        yield from map(_line, created)


def _head(family: Metric, suffix: str, type_: str) -> Iterator[str]:
    says = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {family.name}{suffix} {says}\n"
    yield f"# TYPE {family.name}{suffix} {type_}\n"


def _line(sample: Sample) -> str:
    labels = ",".join(
        f'{name}="{_escaped(value)}"' for name, value in sorted(sample.labels.items())
    )
    shown: str = floatToGoString(sample.value)  # type: ignore[no-untyped-call]
    return f"{sample.name}{{{labels}}} {shown}\n" if labels else f"{sample.name} {shown}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
