"""What the ledger adds to a call: `python -m loadtests.ledger`.

The whole pipeline over scripted endpoints, so that next to nothing else costs anything; the ledger
is on a disk, as when serving, and its thread's CPU time counts. Calls alternate between a gateway
with and one without, in rounds; the median of the rounds' ratios is told.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gateway.accounting.ledger.ledger import Ledger, LedgerThread
from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.ledger.opening import opened
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.core import ambient
from tests.unit.harness import Plan, Rig, Setup, cloud, request
from tests.unit.ledger.budgeted import Told

_AT_ONCE = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    for tenants, calling in ((1, 1), (10_000, 20), (10_000, 10_000)):
        with tempfile.TemporaryDirectory() as folder:
            load = _Load(args.calls, args.rounds, tenants, calling)
            added, ratio = asyncio.run(_measured(Path(folder), load))
        print(
            f"{tenants} tenants with budgets, {calling} of them call: "
            f"{added:.1f} us of CPU a call more, {ratio:.3f} x"
        )


@dataclass(frozen=True, slots=True)
class _Load:
    calls: int
    rounds: int
    tenants: int
    calling: int


async def _measured(folder: Path, load: _Load) -> tuple[float, float]:
    """Microseconds of CPU that a call costs more, and the ratio."""
    plain = Rig(cloud(Plan(open_s=0.0)))
    of_tenants = {
        f"t{n}": BudgetLimits.usd(day=1e6, month=1e6, total=1e6) for n in range(load.tenants)
    }
    budgets = SpillBudgets(
        BudgetLimits.usd(total=1e9), of_tenants, ambient.monotonic_s, ambient.wall_s
    )
    spill = SpillControl(SpillStop(None, ambient.monotonic_s), budgets)
    rig = Rig(cloud(Plan(open_s=0.0)), setup=Setup(spill=spill))
    store = opened(folder / "ledger.db", None, ambient.wall_s)
    ledger = Ledger(
        store, budgets.limits, budgets, Told(), ambient.monotonic_s, LedgerThread(), 60.0, 400
    )
    rig.accounts.ledger, spill.leases = ledger, ledger.leases
    await ledger.start()
    running = asyncio.create_task(ledger.run())
    found: list[tuple[float, float]] = []
    for _ in range(load.rounds + 1):
        without = await _cpu_s(plain, load)
        found.append((without, await _cpu_s(rig, load)))
    running.cancel()
    await asyncio.wait((running,))
    await ledger.aclose()
    added = statistics.median((b - a) / load.calls * 1e6 for a, b in found[1:])
    return added, statistics.median(b / a for a, b in found[1:])


async def _cpu_s(rig: Rig, load: _Load) -> float:
    since_s = time.process_time()
    for at in range(0, load.calls, _AT_ONCE):
        some = (
            rig.call(request("clear", tenant=f"t{n * 7919 % load.calling}", budget_s=30.0))
            for n in range(at, at + _AT_ONCE)
        )
        ended = await asyncio.gather(*some)
        assert all(e.error is None for e in ended), next(e.error for e in ended if e.error)
    await asyncio.sleep(0.3)  # for the thread to have written the last of them
    return time.process_time() - since_s


if __name__ == "__main__":
    main()
