"""What the page says of money, with a ledger and without one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.ledger.opening import opened
from gateway.accounting.ledger.reading import LedgerReader
from gateway.accounting.ledger.report import ReportQuery
from gateway.accounting.pricing import nano
from gateway.accounting.spill import SpillBudgets
from gateway.core import ambient
from gateway.server.console.spend import BudgetSpend, LedgerSpend
from tests.unit.ledger.entries import DAY_S, abroad, at_home
from tests.unit.spill.clock import HandClock


def spent(clock: HandClock, usd: float) -> SpillBudgets:
    budgets = SpillBudgets(BudgetLimits.usd(day=5.0), {}, clock)
    for settled in (nano(usd), None):
        reserved = budgets.reserve("ward", nano(0.5))
        assert reserved is not None
        if settled is not None:
            reserved.settle(settled)
    return budgets


def test_without_a_ledger_it_is_what_the_budgets_count() -> None:
    told = BudgetSpend(spent(HandClock(), 1.0)).status()
    assert (told.spent_usd, told.reserved_usd, told.budget_usd) == (1.0, 0.5, 5.0)
    assert (told.all_cloud_usd, told.saved_usd, told.source) == (None, None, "budgets")


def test_with_one_the_clear_calls_of_today_are_added_at_the_clouds_price(tmp_path: Path) -> None:
    now_s, path = ambient.wall_s(), tmp_path / "ledger.db"
    today = datetime.fromtimestamp(now_s, UTC).date()
    store = opened(path, None, ambient.wall_s)
    store.commit(
        1,
        [
            at_home(0.1, cloud_nano_usd=nano(2.0), at_s=now_s),
            at_home(0.1, cloud_nano_usd=nano(7.0), at_s=now_s, restricted=True),
            at_home(0.1, cloud_nano_usd=nano(7.0), at_s=now_s - 2 * DAY_S),
            abroad(1.0, at_s=now_s),
        ],
    )
    store.close()
    clock, tasks = HandClock(), list[asyncio.Task[None]]()

    def spawn(work: Coroutine[Any, Any, None]) -> None:
        tasks.append(asyncio.get_running_loop().create_task(work))

    reader = LedgerReader(path, None, {})

    async def main() -> None:
        spend = LedgerSpend(spent(clock, 1.0), reader.saved_today, spawn, clock)
        first = spend.status()
        assert (first.spent_usd, first.all_cloud_usd, first.source) == (1.0, None, "ledger")
        spend.status()
        await asyncio.gather(*tasks)
        assert len(tasks) == 1  # however often somebody looks
        assert spend.status().all_cloud_usd == 3.0
        reported = await reader.document(ReportQuery(first=today, last=today))
        assert spend.status().saved_usd == reported["saved"]["usd"] == 1.9  # its GPU cost 0.1
        path.write_bytes(b"no database")
        clock.pass_s(10.0)
        spend.status()
        await asyncio.gather(*tasks)
        assert len(tasks) == 2
        assert spend.status().saved_usd is None
        assert spend.status().all_cloud_usd is None  # what is not known is not made up

    asyncio.run(main())
