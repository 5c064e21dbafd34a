"""Measures peers in turns: all of them in each round, so that a noisy minute is everybody's."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from loadtests.echo import AT_ONCE
from loadtests.load import arrivals
from loadtests.load.generator import run
from loadtests.load.messages import RecordedCall, Shape
from loadtests.load.plan import Plan
from loadtests.load.result import Result
from loadtests.peers import Running

PHASES = (
    "mixed",
    "chat",
    "findings",
    "open",
    "single",
    "streams",
    "burst",
    "first_byte",
    "v2",
    "grpc",
)
"""`mixed`: 16 connections without a pause, chats of which no two are alike, other ones in each
round. `chat`: the same with one message of plain words. `findings`: as `chat`, with a card's number
in each prompt, for those who look for such. `open`: 500 calls/s whatever comes back; left out for
who can do less. `single`: one connection. `streams`: 32 streams at once, whose chunks come one by
one; `burst`: the same, but each chunk is sent as soon as the one before was; `first_byte`: 20 of
the former a second; 4, and one a second, for who does less than 200 calls/s. `v2`, `grpc`: tensors
through the gateway, 16 at once."""

OPEN_PER_S = 500.0
_SLOW_PER_S = 200.0
_HEADROOM = 1.25  # over OPEN_PER_S; what can do less is not asked for it
_WARM_UP = 0.4  # of the seconds that are measured
_TIMEOUT_S = 20.0
_STREAMED = ("streams", "burst", "first_byte")
_CARD = "My card is 4111 1111 1111 1111. "


@dataclass(slots=True)
class Measured:
    """Of one peer: for each figure the values of all rounds."""

    figures: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)
    last: dict[str, Result] = field(default_factory=dict)  # of each phase

    def add(self, phase: str, result: Result, figures: Mapping[str, float | None]) -> None:
        self.last[phase] = result
        for name, value in figures.items():
            if value is not None:
                self.figures.setdefault(name, []).append(value)
        for how, count in result.failed.items():
            key = f"{phase}: {how}"
            self.failed[key] = self.failed.get(key, 0) + count
            self.samples.setdefault(key, result.samples.get(how, ""))

    def median(self, name: str) -> float | None:
        values = self.figures.get(name)
        return statistics.median(values) if values else None


@dataclass(frozen=True, slots=True)
class Effort:
    rounds: int = 3
    seconds: float = 5.0
    phases: Sequence[str] = PHASES
    first_s: float = 3.0  # before all rounds: what is slow at first
    calls: Sequence[RecordedCall] = ()

    def calls_of(self, number: int) -> Sequence[RecordedCall]:
        """The round's part of them, so that no round meets what an earlier one left in a cache."""
        size = len(self.calls) // self.rounds
        return self.calls[number * size : (number + 1) * size]


async def measure(
    peers: Mapping[str, Running], effort: Effort, tell: Callable[[str], None]
) -> dict[str, Measured]:
    """By name, in the order given."""
    measured = {name: Measured() for name in peers}
    for name, running in peers.items():
        # Modules, caches, compilers of a runtime.
        await run(replace(_chat(running), window_s=0.0, warm_up_s=effort.first_s))
        tell(f"warmed up {name}")
    for number in range(effort.rounds):
        for phase in effort.phases:
            for name, running in peers.items():
                most = measured[name].median("rps")
                plan = _plan(phase, running, effort.seconds, number, most)
                if plan is None:
                    continue
                if phase == "mixed":
                    if not (calls := effort.calls_of(number)):
                        continue
                    plan = replace(plan, shape=replace(plan.shape, calls=calls))
                result = await run(plan)
                if phase == "mixed" and result.sent > len(plan.shape.calls):
                    tell(f"{name} was sent {result.sent} calls: more than the round has")
                measured[name].add(phase, result, _figures(phase, result))
                tell(f"round {number + 1}, {phase}, {name}: {_brief(result)}")
    return measured


def _chat(at: Running) -> Plan:
    plan = _plan("chat", at, 1.0, 0)
    assert plan is not None, "every peer speaks it"
    return plan


def _plan(
    phase: str, at: Running, seconds: float, number: int, most_per_s: float | None = None
) -> Plan | None:
    """None where the peer does not speak that, or cannot do as much (`most_per_s` calls)."""
    most = float("inf") if most_per_s is None else most_per_s
    if phase == "open" and most < OPEN_PER_S * _HEADROOM:
        return None
    slow = most < _SLOW_PER_S
    chance = random.Random(number)
    kind = {"v2": "v2-binary", "grpc": "grpc", **dict.fromkeys(_STREAMED, "stream")}
    url = {"v2": at.v2_url, "grpc": at.grpc_target}.get(phase, at.chat_url)
    model = {"v2": at.v2_model, "grpc": at.grpc_model}.get(phase, at.chat_model)
    if phase == "findings":
        if at.findings_model is None:
            return None
        model = at.findings_model
    if url is None:
        return None
    shape = Shape(
        kind=kind.get(phase, "chat"),
        model=model,
        text={"findings": _CARD, "burst": AT_ONCE}.get(phase, ""),
        path=None if phase in ("v2", "grpc") else at.chat_path,
        headers=at.headers,
        seed=chance.randrange(1 << 30),
    )
    rate = {"open": OPEN_PER_S, "first_byte": 1.0 if slow else 20.0}.get(phase)
    return Plan(
        url=url,
        shape=shape,
        label=phase,
        load="" if rate is None else f"{rate:g}/s",
        connections=_connections(phase, slow) if rate is None else 512,
        arrivals=None if rate is None else arrivals.poisson(rate, chance),
        window_s=seconds,
        warm_up_s=max(0.3, seconds * _WARM_UP),
        timeout_s=_TIMEOUT_S,
        pids=at.pids,
    )


def _connections(phase: str, slow: bool) -> int:
    return 1 if phase == "single" else (4 if slow else 32) if phase in _STREAMED else 16


def _figures(phase: str, result: Result) -> dict[str, float | None]:
    """None for what a run without an answer in its window does not tell."""
    per_s = result.per_s or None
    p50_ms = result.latency.quantile_s(0.5) * 1e3 if result.answered else None
    if phase == "chat":
        return {"cpu_ms": result.cpu_ms, "rps": per_s, "generator": result.generator_share}
    if phase == "open":
        return {"p50_ms": p50_ms, "p99_ms": result.quantile_of_sent_s(0.99) * 1e3}
    if phase == "single":
        return {"single_p50_ms": p50_ms}
    if phase == "streams":
        return {"stream_cpu_ms": result.cpu_ms, "streams_per_s": per_s}
    if phase == "burst":
        return {"burst_cpu_ms": result.cpu_ms, "bursts_per_s": per_s}
    if phase == "first_byte":
        first_ms = result.first_byte.quantile_s(0.5) * 1e3
        return {"first_byte_ms": first_ms if result.answered else None}
    return {f"{phase}_cpu_ms": result.cpu_ms, f"{phase}_rps": per_s}


def _brief(result: Result) -> str:
    failed = f", failed {dict(result.failed)}" if result.failed else ""
    cost = "" if result.cpu_ms is None else f", {result.cpu_ms:.3f} ms of processor"
    p50_ms = result.latency.quantile_s(0.5) * 1e3
    busy = f", generator {result.generator_share:.0%}"
    return f"{result.per_s:.0f}/s{cost}, p50 {p50_ms:.2f} ms{busy}{failed}"
