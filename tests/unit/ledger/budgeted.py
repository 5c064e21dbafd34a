"""A process with a ledger and budgets: in a test, and as a program that is started many times.

`python -m tests.unit.ledger.budgeted PATH DSN USD CALLS` asks for CALLS of a dollar at once,
against a budget of USD for everybody, spends what it is given, and prints how many that were.
`python -m tests.unit.ledger.budgeted PATH DSN` writes for ever and prints each group's last number
when it is on disk, until it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.accounting.ledger.entry import Entry
from gateway.accounting.ledger.ledger import Ledger, LedgerThread
from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.ledger.opening import opened
from gateway.accounting.ledger.store import LedgerStore
from gateway.accounting.pricing import nano
from gateway.accounting.spill import Reservation, SpillBudgets, SpillControl, SpillStop
from gateway.core import ambient
from gateway.core.deadline import Deadline
from gateway.core.errors import SpillClosed
from tests.unit.ledger.entries import abroad

_PRICE_USD = 1.0
_PATIENT_S = 30.0  # these tests are about sums, on machines that may be busy


@dataclass(slots=True)
class Told:
    """What the metrics would show."""

    is_up: bool = False
    entries: int = 0
    lost_entries: int = 0
    unwritten: list[int] = field(default_factory=list)

    def up(self, up: bool) -> None:
        self.is_up = up

    def waiting(self, entries: int) -> None:
        self.unwritten.append(entries)

    def lost(self, entries: int) -> None:
        self.lost_entries += entries

    def committed(self, entries: int) -> None:
        self.entries += entries


@dataclass(slots=True)
class Budgeted:
    ledger: Ledger
    spill: SpillControl
    told: Told
    store: LedgerStore

    async def reserve(self, tenant: str, nano_usd: int, deadline: Deadline) -> Reservation:
        reserved = self.spill.reserve(tenant, nano_usd)
        await self.spill.lease(reserved, deadline)
        return reserved

    async def spend(self, tenant: str = "ward", usd: float = _PRICE_USD) -> bool:
        """Reserve, wait for an answer that takes a moment, settle: as an attempt does."""
        try:
            reserved = await self.reserve(tenant, nano(usd), Deadline.after(30.0))
        except SpillClosed:
            return False
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            reserved.settle(0)
            raise
        reserved.settle(nano(usd))
        self.ledger.post(entry(tenant, usd))
        return True


def entry(tenant: str = "ward", usd: float = _PRICE_USD, **other: object) -> Entry:
    return abroad(usd, tenant=tenant, at_s=ambient.wall_s(), **other)


@contextlib.asynccontextmanager
async def budgeted(
    path: Path,
    dsn: str | None,
    everybody: BudgetLimits,
    of_tenants: Mapping[str, BudgetLimits] | None = None,
) -> AsyncIterator[Budgeted]:
    budgets = SpillBudgets(everybody, of_tenants or {}, ambient.monotonic_s, ambient.wall_s)
    spill = SpillControl(SpillStop(None, ambient.monotonic_s), budgets, lease_wait_s=_PATIENT_S)
    told = Told()
    store = await asyncio.to_thread(opened, path, dsn, ambient.wall_s)
    ledger = Ledger(
        store, budgets.limits, budgets, told, ambient.monotonic_s, LedgerThread(), 60.0, 400
    )
    spill.leases = ledger.leases
    await ledger.start()
    try:
        yield Budgeted(ledger, spill, told, store)
    finally:
        await ledger.aclose()


async def _spend(path: Path, dsn: str | None, usd: float, calls: int) -> None:
    async with budgeted(path, dsn, BudgetLimits.usd(total=usd)) as it:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        given = await asyncio.gather(*(it.spend() for _ in range(calls)))
        await it.ledger.flush()
    print(sum(given), flush=True)


async def _write_for_ever(path: Path, dsn: str | None) -> None:
    async with budgeted(path, dsn, BudgetLimits.usd(total=1e6)) as it:
        written = 0
        while True:
            for _ in range(20):
                assert await it.spend(f"tenant{written % 7}", 0.001)
                written += 1
            await it.ledger.flush()
            print(written, flush=True)


def main(path: str, dsn: str, *rest: str) -> None:
    where = (Path(path), dsn or None)
    if rest:
        asyncio.run(_spend(*where, float(rest[0]), int(rest[1])))
    else:
        asyncio.run(_write_for_ever(*where))


if __name__ == "__main__":
    main(*sys.argv[1:])
