"""Recorded decisions as a workload, and what the recorded run did with each call.

When calls came, how large they were, what they were and what budget they had is as recorded. A line
that is no decision record is counted and left out: a log that was cut in the middle of a line still
tells of all the others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gateway.core.types import is_onprem
from gateway.simulate.workload import (
    RESTRICTED_PENALTY,
    Floats,
    Mode,
    TraceError,
    TrafficTrace,
    Workload,
    build,
    reckoned,
)

ONPREM, CLOUD, NOWHERE = "onprem", "cloud", "nowhere"
PLACES: Final = (ONPREM, CLOUD, NOWHERE)
_PROMPT_SHARE = 0.7  # records keep a call's tokens as one number; this part is taken for its prompt
_SERVED: Final = ("served", "streaming", "sent")
_LAST_PRIORITY: Final = 9
_WORK: Final = (0.05, 50.0)  # as the live gateway bounds it


@dataclass(frozen=True, slots=True)
class Skipped:
    """Lines that are not simulated."""

    malformed: int = 0
    first: str = ""  # of these: where it stands and what is wrong with it
    rejected: int = 0  # calls that were their callers' fault: no policy would have served them
    other_models: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the recorded run did; one entry per call of the workload."""

    place: NDArray[np.str_]  # where it was answered
    met: NDArray[np.bool_]
    cloud_usd: Floats  # of all its attempts


@dataclass(frozen=True, slots=True)
class Replayed:
    calls: Workload
    recorded: Recorded
    skipped: Skipped


@dataclass(frozen=True, slots=True)
class _Line:
    arrived_s: float
    budget_s: float
    tokens: float
    restricted: bool
    stays: bool
    input_bytes: float  # of tensors; 0 of documents, which have tokens
    priority: int
    model: str
    outcome: str
    took_s: float
    attempts: tuple[tuple[str, str, float], ...]  # zone, result, price in US dollars

    @property
    def place(self) -> str:
        """Of a call whose end was not recorded, where it was sent."""
        served = [zone for zone, result, _ in self.attempts if result in _SERVED]
        return served[-1] if self.outcome in _SERVED and served else NOWHERE

    @property
    def met(self) -> bool:
        return self.outcome == "served" and self.took_s <= self.budget_s

    @property
    def cloud_usd(self) -> float:
        return sum(usd for zone, _, usd in self.attempts if zone == CLOUD)


def read_records(
    path: Path,
    mode: Mode,
    seed: int,
    load: float | None = None,
    servers: int = 0,
    model: str | None = None,
) -> Replayed:
    """The recorded budgets and classes take the place of the drawn ones; what the records do not
    say (urgency, what the cloud would have taken) is drawn as for a trace. Without a load the calls
    come when they came."""
    lines, skipped = _read(path, model)
    if len(lines) < 2 or lines[-1].arrived_s == lines[0].arrived_s:
        first = f" ({skipped.first})" if skipped.first else ""
        raise TraceError(f"{path}: needs calls that arrived at two different times at least{first}")
    arrived_s = np.array([r.arrived_s for r in lines])
    tokens = np.array([r.tokens for r in lines])
    trace = TrafficTrace(path.name, arrived_s, tokens * _PROMPT_SHARE, tokens * (1 - _PROMPT_SHARE))
    calls = _sized(build(trace, mode, load or 1.0, seed, servers), lines)
    restricted = np.array([r.restricted for r in lines])
    penalty = calls.penalty / np.where(calls.restricted, RESTRICTED_PENALTY, 1.0)
    calls = replace(
        calls,
        arrive_s=_compressed(calls, arrived_s, load),
        restricted=restricted,
        stays=np.array([r.stays for r in lines]),
        priority=np.array([r.priority for r in lines]),
        budget_s=np.array([r.budget_s for r in lines]),
        penalty=penalty * np.where(restricted, RESTRICTED_PENALTY, 1.0),
    )
    recorded = Recorded(
        place=np.array([r.place for r in lines]),
        met=np.array([r.met for r in lines]),
        cloud_usd=np.array([r.cloud_usd for r in lines]),
    )
    return Replayed(reckoned(_worth(calls, recorded)), recorded, skipped)


def _sized(calls: Workload, lines: list[_Line]) -> Workload:
    """Tensors are as much work as they have bytes."""
    size = np.array([r.input_bytes for r in lines])
    if (size == 0).any():
        return calls
    work = np.clip(size / size.mean(), *_WORK)
    return replace(calls, work=work, gpu_s=calls.mode.least_gpu_s(work))


def _compressed(calls: Workload, arrived_s: Floats, load: float | None) -> Floats:
    since_s = arrived_s - arrived_s[0]
    if load is None:
        return np.asarray(since_s)
    span_s = calls.gpu_s.sum() / (load * calls.mode.servers)
    return np.asarray(since_s * (span_s / since_s[-1]))


def _worth(calls: Workload, recorded: Recorded) -> Workload:
    """The mean cloud call of the records is worth what was paid for it."""
    paid = recorded.cloud_usd[(recorded.place == CLOUD) & (recorded.cloud_usd > 0)]
    return replace(calls, unit_usd=float(paid.mean())) if len(paid) else calls


def _read(path: Path, model: str | None) -> tuple[list[_Line], Skipped]:
    lines: dict[str, _Line] = {}
    skipped = Skipped()
    try:
        for number, line in enumerate(_lines(path), 1):
            try:
                skipped = _take(line, number, lines, skipped, model)
            except _NoRecord as exc:
                first = skipped.first or f"line {number}: {exc}"
                skipped = replace(skipped, malformed=skipped.malformed + 1, first=first)
    except OSError as exc:
        raise TraceError(f"{path}: {exc.strerror}") from exc
    return sorted(lines.values(), key=lambda r: r.arrived_s), skipped


def _lines(path: Path) -> Iterator[str]:
    """Of a file, or of the whole audit that a directory holds."""
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else (path,):
        with file.open(encoding="utf-8", errors="replace") as lines:
            yield from lines


class _NoRecord(Exception):
    """A line is not what a gateway writes."""


def _take(
    line: str, number: int, lines: dict[str, _Line], skipped: Skipped, model: str | None
) -> Skipped:
    if not line.strip():
        return skipped
    record = _parsed(line)
    key = f"{record.get('id') or number} {record.get('number', '')}"  # ids may come twice
    if record["kind"] == "end" and key in lines:
        lines[key] = ended = _ended(lines[key], record)
        if ended.outcome == "rejected":
            del lines[key]
            return replace(skipped, rejected=skipped.rejected + 1)
    if record["kind"] != "call":
        return skipped
    call = _call(record)
    if call.outcome == "rejected":
        return replace(skipped, rejected=skipped.rejected + 1)
    if model is not None and call.model != model:
        return replace(skipped, other_models=skipped.other_models + 1)
    lines[f"{key}, line {number}" if key in lines else key] = call
    return skipped


def _parsed(line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise _NoRecord("not JSON") from None
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise _NoRecord("no object with a kind")
    return record


def _call(record: dict[str, Any]) -> _Line:
    took_s = _number(record, "took_s")
    budget_s = _number(record, "budget_s")
    if budget_s <= 0:
        raise _NoRecord("a budget is above 0")
    priority = _number(record, "priority", 0.0)
    if priority > _LAST_PRIORITY:
        raise _NoRecord("a priority is a digit")
    allowed = record.get("allowed")
    return _Line(
        arrived_s=_number(record, "time") - took_s,
        budget_s=budget_s,
        tokens=_number(record, "total_tokens", 0.0),
        restricted=record.get("sensitivity") != "clear" and not record.get("admitted"),
        stays=isinstance(allowed, list) and all(is_onprem(str(zone)) for zone in allowed),
        input_bytes=_number(record, "input_bytes", 0.0),
        priority=int(priority),
        model=str(record.get("model")),
        outcome=str(record.get("outcome")),
        took_s=took_s,
        attempts=_attempts(record),
    )


def _ended(call: _Line, record: dict[str, Any]) -> _Line:
    return replace(
        call,
        outcome=str(record.get("outcome")),
        took_s=_number(record, "took_s"),
        tokens=_number(record, "total_tokens", call.tokens),
        attempts=_attempts(record) or call.attempts,
    )


def _attempts(record: dict[str, Any]) -> tuple[tuple[str, str, float], ...]:
    attempts = record.get("attempts") or []
    if not isinstance(attempts, list) or not all(isinstance(a, dict) for a in attempts):
        raise _NoRecord("attempts are a list of objects")
    tried = []
    for attempt in attempts:
        zone = attempt.get("zone")
        if not isinstance(zone, str) or not zone:
            raise _NoRecord("an attempt has a zone")
        usd = _number(attempt, "price_usd", 0.0)
        tried.append((ONPREM if is_onprem(zone) else CLOUD, str(attempt.get("result")), usd))
    return tuple(tried)


def _number(record: dict[str, Any], key: str, default: float | None = None) -> float:
    """Not negative. `default` where it is null or missing."""
    value = record.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _NoRecord(f"{key} is not a number")
    try:
        number_value = float(value)
    except OverflowError:
        number_value = math.inf
    if not math.isfinite(number_value) or number_value < 0:
        raise _NoRecord(f"{key} is not a finite number of 0 or more")
    return number_value
