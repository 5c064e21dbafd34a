"""What a run has measured. Every call that was sent is in it once: answered, or failed and how."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from loadtests.load.histogram import Histogram

# How a call failed that got no HTTP status (or gRPC code) of its own.
LOST = "lost"  # the connection ended before the answer did
TIMED_OUT = "timeout"
NO_CONNECTION = "no_connection"
CUT = "cut_stream"  # a stream that ended without its [DONE]
ERROR_IN_STREAM = "error_in_stream"


@dataclass(slots=True)
class Second:
    """What happened in one second of a run, by when calls were answered."""

    answered: int = 0
    failed: int = 0
    routes: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Result:
    """Times in seconds. `window_s` is what was measured; `answered_in_window` and `cpu_s` (of the
    system under test) are of it alone, everything else is of the calls meant to be sent in it."""

    label: str = ""
    load: str = ""  # what was asked, in words: 500/s, 16 connections
    window_s: float = 0.0
    warm_up: int = 0  # calls before the window; counted nowhere else
    sent: int = 0
    answered: int = 0
    answered_in_window: int = 0
    chunks: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)  # what the first of each failure said
    latency: Histogram = field(default_factory=Histogram)
    first_byte: Histogram = field(default_factory=Histogram)
    late: Histogram = field(default_factory=Histogram)  # of the generator, where it was starved
    cpu_s: float | None = None
    generator_share: float = 0.0  # of one core
    seconds: list[Second] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        return self.answered_in_window / self.window_s if self.window_s else 0.0

    @property
    def cpu_ms(self) -> float | None:
        """Of the system under test, for each call that it answered."""
        if self.cpu_s is None or not self.answered_in_window:
            return None
        return self.cpu_s / self.answered_in_window * 1e3

    def quantile_of_sent_s(self, q: float) -> float:
        """The quantile over all calls, where one that failed never ended: `inf` among those."""
        if not self.sent or q * self.sent > self.answered:
            return math.inf
        return self.latency.quantile_s(min(1.0, q * self.sent / self.answered))

    def as_json(self) -> dict[str, Any]:
        of_sent = self.quantile_of_sent_s(0.99)
        return {
            "label": self.label,
            "load": self.load,
            "window_s": round(self.window_s, 3),
            "warm_up": self.warm_up,
            "sent": self.sent,
            "answered": self.answered,
            "failed": dict(self.failed),
            "samples": self.samples,
            "per_s": round(self.per_s, 2),
            "chunks": self.chunks,
            "latency_ms": self.latency.summary_ms(),
            "p99_of_sent_ms": None if math.isinf(of_sent) else round(of_sent * 1e3, 4),
            "first_byte_ms": self.first_byte.summary_ms(),
            "cpu_ms": None if self.cpu_ms is None else round(self.cpu_ms, 4),
            "generator": {
                "cpu_share": round(self.generator_share, 3),
                "late_ms": self.late.summary_ms(),
            },
            "cdf": [[round(ms, 4), round(share, 6)] for ms, share in self.latency.cdf()],
            "seconds": [
                {"answered": s.answered, "failed": s.failed, "routes": dict(s.routes)}
                for s in self.seconds
            ],
        }
