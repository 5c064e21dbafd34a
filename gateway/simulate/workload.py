"""An arrival trace made into calls: work, price, budget, class, and what the cloud would take."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PENALTIES: Final = (10.0, 5.0, 3.0)  # of a missed budget by urgency tier, in mean cloud calls
RESTRICTED_PENALTY: Final = 2.0  # times
_RTT_SPREAD, _SERVE_SPREAD = 0.35, 0.4
_SAMPLES = 200_000  # of the cloud's latency, for P(cloud latency > budget)


class TraceError(Exception):
    """A trace cannot be used; says why and where."""


@dataclass(frozen=True, slots=True)
class Mode:
    """Servers that take `fixed_s + per_work_s * work` for a batch, and the budgets they face."""

    name: str
    servers: int
    max_batch: int
    fixed_s: float
    per_work_s: float
    budgets_s: tuple[float, float, float]
    slot_s: float  # of the bound
    cloud_s: float  # median service time of the cloud
    cloud_by_work: bool
    rtt_s: float = 0.09  # median, to the cloud and back
    alone: bool = False  # calls end one by one, each in one of `max_batch` places of a server

    def least_gpu_s(self, work: Floats) -> Floats:
        """Of a server's time, in the best case: a call's share of a full batch."""
        if self.alone:
            return (self.fixed_s + self.per_work_s * work) / self.max_batch
        return self.fixed_s / self.max_batch + self.per_work_s * work


MODES: Final[Mapping[str, Mode]] = {
    "ms": Mode("ms", 1, 16, 0.008, 0.002, (0.1, 0.3, 0.8), 0.01, 0.06, False),
    "s": Mode("s", 2, 8, 0.6, 0.15, (3.0, 10.0, 30.0), 0.5, 1.2, True),
}


@dataclass(frozen=True, slots=True)
class CallMix:
    restricted: float = 0.3
    tiers: tuple[float, float, float] = (0.2, 0.4, 0.4)


@dataclass(frozen=True, slots=True)
class TrafficTrace:
    name: str  # its file's name, part of the seed
    seconds: Floats
    tokens_in: Floats
    tokens_out: Floats

    def part(self, start: float, end: float) -> TrafficTrace:
        n = len(self.seconds)
        cut = slice(int(start * n), int(end * n))
        return TrafficTrace(self.name, self.seconds[cut], self.tokens_in[cut], self.tokens_out[cut])


@dataclass(frozen=True, slots=True)
class Workload:
    """One entry per call, in the order of arrival."""

    mode: Mode
    servers: int
    arrive_s: Floats
    work: Floats
    gpu_s: Floats  # the least GPU time of a call: its share of a full batch
    tokens: Floats
    price: Floats  # in mean cloud calls, as every cost here
    expected_price: Floats  # what the decision takes it for, before the answer is there
    budget_s: Floats
    tier: NDArray[np.int64]
    restricted: NDArray[np.bool_]
    penalty: Floats
    cloud_s: Floats
    alternative: Floats  # the expected cost of not serving it on the premises
    priority: NDArray[np.int64]
    stays: NDArray[np.bool_]  # clear, and yet it may not leave: its caller or its key says so
    leaves: bool = True  # there is a cloud, and calls may go there
    unit_usd: float = 0.002  # the mean cloud call

    def __len__(self) -> int:
        return len(self.arrive_s)


def read_trace(path: Path) -> TrafficTrace:
    """CSV with a heading: seconds, input tokens, output tokens."""
    rows: list[tuple[float, float, float]] = []
    try:
        with path.open(encoding="utf-8") as lines:
            next(lines, None)
            for number, line in enumerate(lines, 2):
                if line.strip():
                    rows.append(_row(line, path, number))
    except OSError as exc:
        raise TraceError(f"{path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise TraceError(f"{path}: not a text file") from exc
    if len(rows) < 2:
        raise TraceError(f"{path}: a trace needs at least two arrivals under its heading")
    columns = np.array(rows)
    back = np.flatnonzero(np.diff(columns[:, 0]) < 0)
    if len(back):
        raise TraceError(f"{path}: arrival {back[0] + 2} is earlier than the one before it")
    if columns[-1, 0] == columns[0, 0]:
        raise TraceError(f"{path}: all calls arrive at the same instant")
    return TrafficTrace(path.name, columns[:, 0], columns[:, 1], columns[:, 2])


def _row(line: str, path: Path, number: int) -> tuple[float, float, float]:
    cells = line.split(",")
    try:
        seconds, tokens_in, tokens_out = map(float, cells)
    except ValueError:
        raise TraceError(
            f"{path}:{number}: not three numbers (seconds, input tokens, output tokens)"
        ) from None
    if not np.isfinite((seconds, tokens_in, tokens_out)).all() or min(tokens_in, tokens_out) < 0:
        raise TraceError(f"{path}:{number}: tokens and seconds are finite, tokens not negative")
    return seconds, tokens_in, tokens_out


def build(
    trace: TrafficTrace,
    mode: Mode,
    load: float,
    seed: int,
    servers: int = 0,
    mix: CallMix | None = None,
) -> Workload:
    """Time is compressed until the calls' least GPU time is `load` times the capacity of the mode's
    servers; `servers` then takes another number of them for the same arrivals."""
    mix = mix or CallMix()
    rng = np.random.default_rng(zlib.crc32(f"{trace.name}/{seed}".encode()))
    n = len(trace.seconds)
    work, price = _work(trace, mode), _price(trace)
    gpu_s = mode.least_gpu_s(work)
    since_s = trace.seconds - trace.seconds[0]
    arrive_s = since_s * (gpu_s.sum() / (load * mode.servers)) / since_s[-1]
    tier = rng.choice(3, n, p=mix.tiers)
    restricted = rng.random(n) < mix.restricted
    budget_s = np.array(mode.budgets_s)[tier]
    penalty = np.array(PENALTIES)[tier] * np.where(restricted, RESTRICTED_PENALTY, 1.0)
    rtt_s = rng.lognormal(np.log(mode.rtt_s), _RTT_SPREAD, n)
    serve_s = rng.lognormal(np.log(mode.cloud_s), _SERVE_SPREAD, n)
    cloud_s = rtt_s + serve_s * (work if mode.cloud_by_work else 1.0)
    return reckoned(Workload(
        mode=mode, servers=servers or mode.servers, arrive_s=arrive_s, work=work, gpu_s=gpu_s,
        tokens=trace.tokens_in + trace.tokens_out, price=price, expected_price=price,
        budget_s=budget_s, tier=tier, restricted=restricted, penalty=penalty, cloud_s=cloud_s,
        alternative=penalty, priority=np.zeros(n, dtype=np.int64),
        stays=np.zeros(n, dtype=np.bool_),
    ))  # fmt: skip


def reckoned(calls: Workload) -> Workload:
    """With what it costs not to serve each of them on the premises."""
    return replace(calls, alternative=alternatives(calls))


def alternatives(calls: Workload) -> Floats:
    latencies = cloud_latencies(calls.mode, calls.work)
    late = 1.0 - np.searchsorted(latencies, calls.budget_s, side="right") / len(latencies)
    cloud_cost = np.minimum(calls.price + calls.penalty * late, calls.penalty)
    stays = calls.restricted | calls.stays | (not calls.leaves)
    return np.where(stays, calls.penalty, cloud_cost)


def _work(trace: TrafficTrace, mode: Mode) -> Floats:
    if mode.cloud_by_work:
        tokens = trace.tokens_in * 0.1 + trace.tokens_out
        work = np.clip(0.3 + 0.7 * tokens / _mean(tokens), 0.2, 4)
    else:
        work = np.clip(0.7 + 0.3 * trace.tokens_in / _mean(trace.tokens_in), 0.5, 3)
    return np.asarray(work / work.mean())


def _price(trace: TrafficTrace) -> Floats:
    tokens = trace.tokens_in + 3 * trace.tokens_out
    price = 0.5 + 0.5 * np.clip(tokens / _mean(tokens), 0, 5)
    return np.asarray(price / price.mean())


def _mean(tokens: Floats) -> float:
    return float(tokens.mean()) or 1.0


def cloud_latencies(mode: Mode, work: Floats) -> Floats:
    """A sorted sample of what the cloud takes over all calls."""
    rng = np.random.default_rng(7)
    rtt_s = rng.lognormal(np.log(mode.rtt_s), _RTT_SPREAD, _SAMPLES)
    serve_s = rng.lognormal(np.log(mode.cloud_s), _SERVE_SPREAD, _SAMPLES)
    return np.sort(rtt_s + serve_s * (rng.choice(work, _SAMPLES) if mode.cloud_by_work else 1.0))
