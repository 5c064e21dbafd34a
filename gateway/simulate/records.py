"""Recorded decisions as a workload: when calls came, how large they were, and what they were."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gateway.simulate.workload import (
    RESTRICTED_PENALTY,
    Mode,
    Trace,
    TraceError,
    Workload,
    build,
    cloud_latencies,
)

_PROMPT_SHARE = 0.7  # records keep a call's tokens as one number; this part is taken for its prompt


@dataclass(frozen=True, slots=True)
class _Recorded:
    arrived_s: float
    budget_s: float
    tokens: float
    restricted: bool


def read_records(
    path: Path, mode: Mode, seed: int, load: float | None = None, servers: int = 0
) -> Workload:
    """The recorded budgets and classes take the place of the drawn ones; what the records do not
    say (urgency, what the cloud would have taken) is drawn as for a trace. Without a load the calls
    come when they came."""
    found = _read(path)
    if len(found) < 2 or found[-1].arrived_s == found[0].arrived_s:
        raise TraceError(f"{path}: needs calls that arrived at two different times at least")
    arrived_s = np.array([r.arrived_s for r in found])
    tokens = np.array([r.tokens for r in found])
    trace = Trace(path.name, arrived_s, tokens * _PROMPT_SHARE, tokens * (1 - _PROMPT_SHARE))
    calls = build(trace, mode, load or 1.0, seed, servers)
    arrive_s = calls.arrive_s if load is not None else arrived_s - arrived_s[0]
    restricted = np.array([r.restricted for r in found])
    budget_s = np.array([r.budget_s for r in found])
    penalty = calls.penalty / np.where(calls.restricted, RESTRICTED_PENALTY, 1.0)
    penalty = penalty * np.where(restricted, RESTRICTED_PENALTY, 1.0)
    latencies = cloud_latencies(mode, calls.work)
    late = 1.0 - np.searchsorted(latencies, budget_s, side="right") / len(latencies)
    alternative = np.where(restricted, penalty, np.minimum(calls.price + penalty * late, penalty))
    return replace(
        calls, arrive_s=arrive_s, restricted=restricted, budget_s=budget_s, penalty=penalty,
        alternative=alternative,
    )  # fmt: skip


def _read(path: Path) -> list[_Recorded]:
    found: list[_Recorded] = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    found += _call(line, f"{path}:{number}")
    except OSError as exc:
        raise TraceError(f"{path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise TraceError(f"{path}: not a text file") from exc
    return sorted(found, key=lambda r: r.arrived_s)


def _call(line: str, where: str) -> list[_Recorded]:
    try:
        record: Any = json.loads(line)
        if record["kind"] != "call":
            return []
        time_s, took_s = float(record["time"]), float(record.get("took_s") or 0.0)
        budget_s = float(record["budget_s"])
        tokens = float(record.get("total_tokens") or 0.0)
        restricted = record.get("sensitivity") != "clear"
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise TraceError(f"{where}: not a decision record ({type(exc).__name__}: {exc})") from None
    if not all(map(math.isfinite, (time_s, took_s, budget_s, tokens))) or budget_s <= 0:
        raise TraceError(f"{where}: a record's times and tokens are finite, its budget above 0")
    return [_Recorded(time_s - took_s, budget_s, tokens, restricted)]
