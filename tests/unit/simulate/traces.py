"""Traces made here, with bursts, so that tests need no file from elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gateway.simulate.workload import TrafficTrace


def bursty(calls: int = 1500, seed: int = 1) -> TrafficTrace:
    """Poisson arrivals whose rate doubles and halves every hundred calls."""
    rng = np.random.default_rng(seed)
    rate = np.where(np.arange(calls) // 100 % 2 == 0, 2.0, 0.5)
    return TrafficTrace(
        "bursty.csv",
        np.cumsum(rng.exponential(1.0, calls) / rate),
        np.ceil(rng.lognormal(6.0, 1.0, calls)),
        np.ceil(rng.lognormal(5.0, 1.0, calls)),
    )


def write(trace: TrafficTrace, path: Path) -> Path:
    rows = zip(trace.seconds, trace.tokens_in, trace.tokens_out, strict=True)
    text = "seconds,input,output\n" + "".join(f"{s:.6f},{i:.0f},{o:.0f}\n" for s, i, o in rows)
    path.write_text(text, encoding="utf-8")
    return path
