"""Flows, latencies and budgets of the last moments, from the figures of single calls. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gateway.accounting.live.decisions import CallFigures, Path, SecondCounts

FLOW_S = 10.0
LATENCY_S = 60.0
TIMELINE_S = 120
_STEP_S = 2
_SOURCES = 6  # tenants or protocols that are drawn apart
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_STEPS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000)


def flow(seconds: Iterable[SecondCounts], now_s: float, started_s: float) -> dict[str, Any]:
    """Calls a second from whom, of which class, to which zone and endpoint."""
    since = int(now_s - FLOW_S)
    counts: Counter[Path] = Counter()
    for second in seconds:
        if second.at_s > since:
            counts.update(second.paths)
    over_s = min(FLOW_S, max(1.0, now_s - started_s))
    find_source = _sources(counts)
    paths: Counter[tuple[str, ...]] = Counter()
    for path, calls in counts.items():
        paths[find_source(path), *path[2:]] += calls
    return {
        "window_s": round(over_s, 1),
        "paths": [
            {"source": source, "sensitivity": kind, "zone": zone, "endpoint": endpoint,
             "calls": calls, "per_s": round(calls / over_s, 2)}
            for (source, kind, zone, endpoint), calls in sorted(paths.items())
        ],
    }  # fmt: skip


def _sources(counts: Mapping[Path, int]) -> Callable[[Path], str]:
    """By tenant where there are several, else by protocol."""
    tenants: Counter[str] = Counter()
    for path, calls in counts.items():
        tenants[path[0]] += calls
    if len(tenants) < 2:
        return lambda path: path[1]
    shown = {tenant for tenant, _ in tenants.most_common(_SOURCES)}
    return lambda path: path[0] if path[0] in shown else "others"


def timeline(seconds: Iterable[SecondCounts], now_s: float) -> dict[str, Any]:
    """Calls by where they went, in steps, oldest first; the last step is still filling."""
    steps = TIMELINE_S // _STEP_S
    counts = {zone: [0] * steps for zone in ("onprem", "cloud", "none")}
    last = int(now_s) // _STEP_S
    for second in seconds:
        at = steps - 1 - (last - second.at_s // _STEP_S)
        if at >= 0:
            for zone, calls in second.zones.items():
                counts[zone][at] += calls
    return {"step_s": _STEP_S, **counts}


def latency(recent: Sequence[CallFigures], now_s: float) -> dict[str, Any]:
    """Percentiles by zone beside the budgets of the same calls, and how many were in time."""
    took: dict[str, list[float]] = defaultdict(list)
    budgets: list[float] = []
    met = 0
    for f in recent:
        if f.took_s is not None and f.zone != "none":
            took[f.zone].append(f.took_s)
            budgets.append(f.budget_s)
            met += f.took_s <= f.budget_s
    return {
        "zones": {zone: _quantiles(values) for zone, values in sorted(took.items())},
        "budgets": {
            **_quantiles(budgets),
            "least": None if not budgets else _ms(min(budgets)),
            "steps_ms": _STEPS_MS,
            "calls": _histogram(budgets),
        },
        "window_s": round(max(1.0, now_s - recent[0].at_s)) if recent else 0,
        "in_time": met,
        "answered": len(budgets),
    }


def _quantiles(values: list[float]) -> dict[str, Any]:
    values.sort()
    quantiles = {
        name: None if not values else _ms(values[min(len(values) - 1, int(q * len(values)))])
        for name, q in _QUANTILES.items()
    }
    return {"n": len(values), **quantiles}


def _histogram(values_s: Iterable[float]) -> list[int]:
    """Calls by the first step that their budget does not exceed; the last is for what is over."""
    counts = [0] * (len(_STEPS_MS) + 1)
    for value in values_s:
        counts[bisect_right(_STEPS_MS, value * 1000 - 1e-6)] += 1
    return counts


def tight_budget_s(recent: Iterable[CallFigures], model: str) -> float | None:
    """The latency budget that one in ten clear calls of a model stays under: with those spilling
    begins."""
    budgets_s = sorted(f.budget_s for f in recent if f.model == model and f.sensitivity == "clear")
    return budgets_s[len(budgets_s) // 10] if budgets_s else None


def _ms(seconds: float) -> float:
    ms = seconds * 1000
    return round(ms) if ms >= 10 else round(ms, 2)
