"""What finding out who calls, admission, limits and settling cost the processor, for each call.

    python -m loadtests.bench.settle [--json] [--per-s 7000] [--directory /var/tmp]

`together` is all of it, with the audit and the ledger on a disk and their threads counted: 64 calls
at once as fast as they go, and so many a second as they come by lot. What the same tasks cost
without it is taken off. The parts are measured alone. Microseconds of the processor a call, the
median of rounds in turns; `waited` is what an answer waits for its record, `grouped` the records of
a commit.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import uvloop

from gateway.accounting.audit.journal.journal import Journal, JournalOptions
from gateway.accounting.audit.writer.writer import AuditWriter
from gateway.accounting.ledger.ledger import Ledger, LedgerThread
from gateway.accounting.ledger.opening import opened
from gateway.accounting.live.decisions import Decisions
from gateway.accounting.metrics import Metrics
from gateway.auth import Callers
from gateway.config import KeySettings, LimitSettings
from gateway.core import ambient
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import (
    EVERYWHERE,
    Attempt,
    Classification,
    Cost,
    Decision,
    DocumentCall,
    Endpoint,
    InferenceRequest,
    Outcome,
    Quota,
    Sensitivity,
    Usage,
    WireProtocol,
    Zone,
)
from gateway.pipeline.accounts import Accounts
from gateway.pipeline.admission import Admission
from gateway.pipeline.call_account import CallAccount
from gateway.pipeline.rate_limits import RateLimits

_CALLERS = 64
_BUDGET_S = 36_000.0
_SECRET = "sk-test-0123456789"
_FOUND = Classification("", Sensitivity.CLEAR, "clear", {}, 0.000035, True)
_DECISION = Decision(
    (), "onprem_room", EVERYWHERE, (), predicted_s={"local": 0.0012345, "away": 0.8}
)
_GPU = Endpoint("gpu", Zone.ONPREM, "triton")
_SERVED = Attempt(
    "local", Zone.ONPREM, EVERYWHERE, "served", 0.0000123, 0.0012345, 0.0,
    Cost(0, Usage(400, 2), 0, 1_234_567, 1_000_000),
)  # fmt: skip
_PER_MINUTE = 1e12


def _traceparent() -> str:
    return f"00-{ambient.random_hex(16)}-{ambient.random_hex(8)}-00"


class _Quiet:
    """Who is told of the ledger."""

    def up(self, up: bool) -> None: ...
    def waiting(self, entries: int) -> None: ...
    def lost(self, entries: int) -> None: ...
    def committed(self, entries: int) -> None: ...
    def restore(self, already: object) -> None: ...
    def others_spent(self, tenant: str, nano_usd: int) -> None: ...


class _Nowhere:
    def check(self) -> None: ...
    def append(self, record: Any) -> None: ...
    def note(self, record: Any) -> None: ...


@dataclass(slots=True)
class Size:
    models: int = 1
    tenants: int = 1
    quotas: bool = False


@dataclass
class Desk:
    """What a call meets before and after it is served."""

    size: Size
    metrics: Metrics = field(default_factory=Metrics)
    log: Any = field(default_factory=_Nowhere)
    ledger: Ledger | None = None

    def __post_init__(self) -> None:
        names = (f"key{n}" for n in range(max(1, self.size.tenants - 1)))
        keys = {n: KeySettings.model_validate({"key": f"sk-{n}", "tenant": n}) for n in names}
        keys["test"] = KeySettings.model_validate({"key": _SECRET, "tenant": "t0"})
        self.callers = Callers(keys)
        self.admission, self.limits = Admission(LimitSettings()), RateLimits(ambient.monotonic_s)
        policy = "0123456789ab"
        self.accounts = Accounts(self.log, self.metrics, ambient.monotonic_s, policy, self.ledger)
        self.requests = [self._request(n) for n in range(10_000)]

    def _request(self, n: int) -> InferenceRequest:
        now_s, tenant = ambient.monotonic_s(), f"t{n % self.size.tenants}"
        quota = Quota(f"key {tenant}", "key", tenant, _PER_MINUTE, _PER_MINUTE, 10_000)
        return InferenceRequest(
            ambient.new_id(),
            WireProtocol.OPENAI,
            tenant,
            f"m{n * 7919 % self.size.models}",
            DocumentCall(CHAT, {"messages": [{"role": "user", "content": "x" * 2000}]}),
            Deadline(now_s + _BUDGET_S, ambient.monotonic_s),
            traceparent=_traceparent(),
            received_s=now_s,
            quotas=(quota,) if self.size.quotas else (),
        )

    def arrives(self, n: int) -> None:
        ambient.new_id()
        _traceparent()
        self.callers.identify(f"Bearer {_SECRET}")

    def enters(self, n: int) -> Any:
        request = self.requests[n % len(self.requests)]
        account = CallAccount(self.accounts, request)
        account.releases.append(self.admission.enter(request))
        self.log.check()
        share = self.limits.enter(request)
        account.releases.append(lambda: share.settle(account.total_tokens, bool(account.attempts)))
        if request.quotas:
            share.headers()
        return account

    async def call(self, n: int) -> None:
        self.arrives(n)
        account = self.enters(n)
        account.classification = _FOUND
        account.decision = _DECISION
        told = account.starts(_GPU, _DECISION.zones, 0.0, "")
        account.attempted(_SERVED)
        account.total_tokens = 402
        if told is not None and not told.done():
            await account.on_record(told)
        account.settle(Outcome.SERVED, "onprem_room")


@dataclass(slots=True)
class Waits:
    took_s: list[float] = field(default_factory=list)

    def ms(self) -> list[float]:
        found = sorted(self.took_s)
        return [round(found[int(len(found) * at)] * 1e3, 2) for at in (0.5, 0.99)]


Call = Callable[[int], Any]


async def _at_once(call: Call, calls: int, waits: Waits) -> None:
    numbers = iter(range(calls))

    async def caller() -> None:
        for n in numbers:
            began_s = time.perf_counter()
            await call(n)
            waits.took_s.append(time.perf_counter() - began_s)

    await asyncio.gather(*(caller() for _ in range(_CALLERS)))


async def _as_they_come(call: Call, calls: int, waits: Waits, per_s: float) -> None:
    """By lot, in steps of a millisecond: the loop's timers know none that are shorter."""
    lots, tasks = Random(1), set[asyncio.Task[None]]()

    async def one(n: int) -> None:
        began_s = time.perf_counter()
        await call(n)
        waits.took_s.append(time.perf_counter() - began_s)

    began_s, at_s, n = time.perf_counter(), 0.0, 0
    while n < calls:
        now_s = time.perf_counter() - began_s
        while at_s <= now_s and n < calls:
            task = asyncio.create_task(one(n))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            at_s, n = at_s + lots.expovariate(per_s), n + 1
        await asyncio.sleep(0.001)
    while tasks:
        await asyncio.wait(tasks)


async def _nothing(n: int) -> None:
    await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def _on_disk(size: Size, folder: Path) -> AsyncIterator[Desk]:
    metrics = Metrics()
    writer = AuditWriter(
        Journal(JournalOptions(folder / "audit", "bench")), metrics, checkpoint_s=1.0
    )
    writer.start(dict)
    store, quiet = opened(folder / "ledger.db", None, ambient.wall_s), _Quiet()
    ledger = Ledger(store, {}, quiet, quiet, ambient.monotonic_s, LedgerThread(), 60.0, 400)
    await ledger.start()
    running = asyncio.create_task(ledger.run())
    try:
        yield _watched(Desk(size, metrics, writer, ledger))
    finally:
        running.cancel()
        await asyncio.wait((running,))
        await ledger.aclose()
        await writer.aclose()


async def _together(where: Path | None, size: Size, rounds: int, per_s: float) -> dict[str, Any]:
    """`per_s` 0: as fast as they go."""
    calls = 5000

    async def run(call: Call, calls: int, waits: Waits) -> None:
        await (_as_they_come(call, calls, waits, per_s) if per_s else _at_once(call, calls, waits))

    with tempfile.TemporaryDirectory(dir=where) as scratch:
        async with _on_disk(size, Path(scratch)) as desk:
            await run(desk.call, 500, Waits())
            found, waits, commits = [], Waits(), _commits(desk.metrics)
            for _ in range(rounds):
                idle_s = await _cpu_s(run(_nothing, calls, Waits()))
                busy_s = await _cpu_s(_written(desk, run(desk.call, calls, waits)))
                found.append((busy_s - idle_s) / calls * 1e6)
            commits = _commits(desk.metrics) - commits
            return {
                "us": round(statistics.median(found), 1),
                "waited_ms": waits.ms(),
                "grouped": round(rounds * calls / commits, 1),
            }


async def _written(desk: Desk, work: Any) -> None:
    await work
    assert desk.ledger is not None
    await desk.ledger.flush()


def _commits(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value("spillway_audit_commit_seconds_count") or 0.0


async def _cpu_s(work: Any) -> float:
    since_s = time.process_time()
    await work
    return time.process_time() - since_s


# Parts


def _each_us(work: Callable[[int], object], times: int = 2000) -> float:
    since_s = time.thread_time()
    for n in range(times):
        work(n)
    return (time.thread_time() - since_s) / times * 1e6


def _settled(desk: Desk) -> Callable[[int], None]:
    def work(n: int) -> None:
        account = desk.enters(n)
        account.classification = _FOUND
        account.decision = _DECISION
        account.starts(_GPU, _DECISION.zones, 0.0, "")
        account.attempted(_SERVED)
        account.total_tokens = 402
        account.settle(Outcome.SERVED, "onprem_room")

    return work


def _watched(desk: Desk) -> Desk:
    measures = desk.accounts.measures
    measures.watch = Decisions(measures, ambient.monotonic_s).take
    return desk


def _parts(size: Size) -> dict[str, Callable[[], float]]:
    plain, watched = Desk(size), _watched(Desk(size))
    limited = Desk(Size(size.models, size.tenants, True))
    settled = _settled(plain)
    return {
        "ids": lambda: _each_us(lambda n: (ambient.new_id(), _traceparent())),
        "who calls": lambda: _each_us(lambda n: plain.callers.identify(f"Bearer {_SECRET}")),
        "account, metrics, record": lambda: _each_us(settled),
        "limits of a key": lambda: _each_us(_settled(limited)) - _each_us(settled),
        "the console's tap": lambda: _each_us(_settled(watched)) - _each_us(settled),
    }


def _alone(size: Size, rounds: int) -> dict[str, float]:
    parts = _parts(size)
    found: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(rounds + 1):
        for name, part in parts.items():
            found[name].append(part())
    return {name: round(statistics.median(us[1:]), 2) for name, us in found.items()}


async def _audit_us(where: Path | None, rounds: int) -> float:
    """Of a record, 64 at once, until it is durable."""
    records: list[Any] = []
    desk = Desk(Size())
    desk.accounts.log = type("Kept", (), {"check": lambda s: None,
                                          "append": lambda s, r: records.append(r),
                                          "note": lambda s, r: records.append(r)})()  # fmt: skip
    _settled(desk)(0)
    with tempfile.TemporaryDirectory(dir=where) as scratch:
        journal = Journal(JournalOptions(Path(scratch), "bench"))
        writer = AuditWriter(journal, Metrics(), checkpoint_s=1.0)
        writer.start(dict)

        async def call(n: int) -> None:
            await writer.append(records[0])

        found = []
        for _ in range(rounds):
            idle_s = await _cpu_s(_at_once(_nothing, 5000, Waits()))
            found.append(await _cpu_s(_at_once(call, 5000, Waits())) - idle_s)
        await writer.aclose()
    return round(statistics.median(found) / 5000 * 1e6, 2)


async def _ledger_us(where: Path | None, rounds: int) -> float:
    """Of an entry, 700 in a commit."""
    with tempfile.TemporaryDirectory(dir=where) as scratch:
        async with _on_disk(Size(tenants=50), Path(scratch)) as desk:
            plain, ledger = Desk(Size(tenants=50)), desk.ledger
            assert ledger is not None
            found = []

            async def seven_hundred(of: Desk) -> None:
                for n in range(700):
                    account = CallAccount(of.accounts, of.requests[n])
                    account.decision = _DECISION
                    account.attempted(_SERVED)
                    of.accounts.open_calls -= 1
                if of.ledger is not None:
                    await of.ledger.flush()

            for _ in range(5 * rounds):
                without_s = await _cpu_s(seven_hundred(plain))
                found.append(await _cpu_s(seven_hundred(desk)) - without_s)
    return round(statistics.median(found) / 700 * 1e6, 2)


def measured(where: Path | None, rounds: int, per_s: float) -> dict[str, Any]:
    return {
        f"together, {_CALLERS} at once": uvloop.run(_together(where, Size(), rounds, 0)),
        f"together, {per_s:.0f} a second": uvloop.run(_together(where, Size(), rounds, per_s)),
        "alone": {
            **_alone(Size(), 2 * rounds),
            "audit": uvloop.run(_audit_us(where, rounds)),
            "ledger": uvloop.run(_ledger_us(where, rounds)),
        },
        "1,000 models, 10,000 tenants, alone": _alone(Size(1000, 10_000), 2 * rounds),
    }


def _table(found: dict[str, Any]) -> Sequence[str]:
    lines = []
    for name, figures in found.items():
        if "us" in figures:
            waited, grouped = figures["waited_ms"], figures["grouped"]
            lines.append(f"{name}: {figures['us']} us, waited {waited} ms, grouped {grouped}")
        else:
            lines += [f"{name}:", *(f"  {part:28}{us:8.2f} us" for part, us in figures.items())]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m loadtests.bench.settle")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--per-s", type=float, default=7000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--directory", type=Path, help="on the disk to measure")
    given = parser.parse_args()
    found = measured(given.directory, given.rounds, given.per_s)
    print(json.dumps(found, indent=2) if given.json else "\n".join(_table(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
