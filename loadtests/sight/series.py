"""What one count costs: a metric of ours beside the client library's own, and all of one call.

`python -m loadtests.sight.series`
"""

from __future__ import annotations

import timeit
from statistics import median

import prometheus_client as client

from gateway.accounting.series import MOST_VALUES, Counter, MetricsRegistry

_TIMES = 50_000


def main() -> None:
    ours = Counter("x", "X.", ["model", "zone"], registry=MetricsRegistry())
    theirs = client.Counter("x", "X.", ["model", "zone"], registry=client.CollectorRegistry())
    full = Counter("x", "X.", ["model", "zone"], registry=MetricsRegistry())
    for number in range(MOST_VALUES):
        full.labels(f"m{number}", "onprem")
    figures = {
        "the library's": _us(lambda: theirs.labels("m", "onprem").inc()),
        "ours": _us(lambda: ours.labels("m", "onprem").inc()),
        "ours, one of a thousand": _us(lambda: full.labels("m7", "onprem").inc()),
        "ours, over the cap": _us(lambda: full.labels("m", "onprem").inc()),
    }
    usual = figures["the library's"]
    for name, us in figures.items():
        print(f"{name:24} {us:5.2f} us, {us / usual:.2f} times")


def _us(work: object) -> float:
    assert callable(work)
    return median(timeit.repeat(work, number=_TIMES, repeat=7)) / _TIMES * 1e6


if __name__ == "__main__":
    main()
