"""Budgets over the ledger: exact, over every process, and over every end of one (B1, B3, O5)."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.accounting.ledger.database import integer
from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.ledger.report import ReportQuery, report
from gateway.accounting.pricing import nano
from gateway.core.deadline import Deadline
from gateway.core.errors import SpillClosed
from tests.unit.ledger.budgeted import Budgeted, budgeted, entry
from tests.unit.ledger.conftest import Where
from tests.unit.ledger.postgres_server import Server

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent.parent
KILLS, AT_ONCE = 9, 3


def total_of(where: Where) -> int:
    database = where.database()
    found = integer(database.read("SELECT SUM(nano_usd) FROM attempts")[0][0])
    assert found == integer(database.read("SELECT SUM(nano_usd) FROM days")[0][0])
    database.close()
    return found


async def all_at_once(it: Budgeted, calls: int, tenant: str = "ward") -> int:
    return sum(await asyncio.gather(*(it.spend(tenant) for _ in range(calls))))


async def test_of_200_calls_at_once_a_budget_for_20_admits_20(place: Where) -> None:
    async with budgeted(place.path, place.dsn, BudgetLimits.usd(total=20)) as it:
        assert await all_at_once(it, 200) == 20
        assert await all_at_once(it, 200) == 0
    assert total_of(place) == nano(20.0)


async def test_each_tenant_has_a_budget_of_its_own_beside_everybodys(place: Where) -> None:
    own = {"ward": BudgetLimits.usd(month=3), "lab": BudgetLimits.usd(day=50)}
    async with budgeted(place.path, place.dsn, BudgetLimits.usd(total=10), own) as it:
        assert await all_at_once(it, 20, "ward") == 3
        assert await all_at_once(it, 20, "lab") == 7
        assert await all_at_once(it, 20, "nobody in particular") == 0


async def test_what_was_not_spent_in_the_end_is_free_again(place: Where) -> None:
    """Of each exit: the reservation is of what it can cost, the settlement of what it did."""

    async with budgeted(place.path, place.dsn, BudgetLimits.usd(total=2)) as it:
        for _ in range(30):
            reserved = await it.reserve("ward", nano(2.0), Deadline.after(5.0))
            reserved.settle(0)
        assert await all_at_once(it, 5) == 2


async def test_a_call_that_leaves_while_it_waits_for_its_lease_holds_nothing(place: Where) -> None:
    async with budgeted(place.path, place.dsn, BudgetLimits.usd(total=20)) as it:
        waiting = [asyncio.create_task(it.spend()) for _ in range(50)]
        await waiting[0]  # the second now asks for all others
        for _ in range(3):
            await asyncio.sleep(0)
        for task in waiting[2:]:
            task.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        left = 20 - sum(e is True for e in ended)
        assert it.spill.budgets.reserved() == 0
        assert await all_at_once(it, 200) == left


def test_a_restart_knows_what_was_spent(place: Where) -> None:
    async def spend(usd: float, calls: int) -> tuple[int, str]:
        async with budgeted(place.path, place.dsn, BudgetLimits.usd(day=usd)) as it:
            closed = it.spill.closed("ward")
            return await all_at_once(it, calls), closed

    assert asyncio.run(spend(20, 15)) == (15, "")
    assert asyncio.run(spend(20, 200)) == (5, "")
    assert asyncio.run(spend(20, 200)) == (0, "spill_budget"), "and decisions read it at once"


def test_two_processes_share_one_budget(place: Where) -> None:
    both = [_started(place, "20", "200") for _ in range(2)]
    for process in both:
        assert _line(process) == "ready"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    admitted = [int(_line(process)) for process in both]
    for process in both:
        assert process.wait(30) == 0
    assert 15 <= sum(admitted) <= 20, "what one has leased and not used yet, the other has not got"
    assert total_of(place) == nano(float(sum(admitted)))


async def test_nothing_that_was_committed_is_lost_by_kills(place: Where) -> None:
    """Of several at once; and what they had leased and not spent is free again."""
    kept, each = 0, nano(0.001)
    for at in range(KILLS // AT_ONCE):
        writing = [_started(place) for _ in range(AT_ONCE)]
        told = 0
        for process in writing:
            told += max(int(_line(process)) for _ in range(1 + at % 3))
        for process in writing:
            process.kill()
            process.wait(30)
            _close(process)
        before, kept = kept, total_of(place)
        assert kept >= before + told * each
        assert kept % each == 0

    async with budgeted(place.path, place.dsn, BudgetLimits.usd(total=kept / 1e9 + 1.0)) as it:
        assert await all_at_once(it, 2) == 1


async def test_the_report_adds_up_to_what_the_budgets_have(place: Where) -> None:
    async with budgeted(place.path, place.dsn, BudgetLimits.usd(total=20)) as it:
        await asyncio.gather(*(it.spend(f"t{n % 3}", 0.3) for n in range(30)))
    database = place.database()
    found = report(database, ReportQuery(by="tenant"), {}, entry().at_s)
    database.close()
    assert found.whole.cloud == total_of(place) == nano(0.3) * 30
    assert [g.attempts for g in found.groups] == [10, 10, 10]


async def _outage(it: Budgeted, stop: Callable[[], None], start: Callable[[], None]) -> None:
    """Nothing leaves while it lasts, and nothing that was posted is lost."""
    running = asyncio.create_task(it.ledger.run())
    assert await it.spend()
    await it.ledger.flush()
    await asyncio.to_thread(stop)
    try:
        for _ in range(500):
            it.ledger.post(entry(usd=0.001))
        await _until(lambda: not it.told.is_up)
        assert it.spill.closed("ward") == "ledger_down"
        with pytest.raises(SpillClosed) as told:
            await it.reserve("ward", 1, Deadline.after(5.0))
        assert told.value.reason == "ledger_down"
        await _until(lambda: it.told.unwritten[-1] == 500)  # it may have gone out before these
    finally:
        await asyncio.to_thread(start)
    await _until(lambda: it.told.is_up)
    await it.ledger.flush()
    assert it.told.entries == 501
    assert it.told.lost_entries == 0
    assert await it.spend()
    running.cancel()
    await asyncio.wait((running,))


async def test_while_the_disk_is_full_nothing_leaves_and_nothing_is_lost(tmp_path: Path) -> None:
    async with budgeted(tmp_path / "ledger.db", None, BudgetLimits.usd(total=20)) as it:
        database = it.store._database

        def most_pages(count: int) -> None:
            database.read(f"PRAGMA max_page_count = {count}")

        await _outage(it, lambda: most_pages(1), lambda: most_pages(1 << 30))


def test_a_disk_with_room_for_little_keeps_the_cloud_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """S1: else it opens with every look at which nothing has to be written, and closes again."""

    async def main() -> None:
        async with budgeted(tmp_path / "ledger.db", None, BudgetLimits.usd(total=20)) as it:
            database = it.store._database
            assert await it.spend()
            await it.ledger.flush()
            (count,), *_ = database.read("PRAGMA page_count")
            assert isinstance(count, int)
            database.read(f"PRAGMA max_page_count = {count}")
            while not it.spill.closed("ward"):
                for _ in range(200):
                    it.ledger.post(entry(usd=0.001))
                await it.ledger._attend()
            database.read(f"PRAGMA max_page_count = {count + 12}")
            for _ in range(6):  # what waits is written, and there is room for little else
                await it.ledger._attend()
                assert it.spill.closed("ward") == "ledger_down"
            database.read(f"PRAGMA max_page_count = {1 << 30}")
            await it.ledger._attend()
            assert it.spill.closed("ward") == ""
            assert await it.spend()
            rows = database.read("SELECT count(*) FROM leases WHERE nano_usd = 0")
            assert rows == [(0,)]

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert sum("nothing goes to the cloud" in line for line in caplog.messages) == 1
    assert sum("is written again" in line for line in caplog.messages) == 1


async def test_while_the_database_is_out_nothing_leaves_and_nothing_is_lost(
    postgres: Server, tmp_path: Path
) -> None:
    dsn = postgres.fresh()
    async with budgeted(tmp_path / "unused", dsn, BudgetLimits.usd(total=20)) as it:
        await _outage(it, postgres.stop, postgres.start)


async def test_what_another_process_spends_closes_the_cloud_here_too(place: Where) -> None:
    """Decisions read memory, which is told of it; at the door the leases know at once."""

    limits = BudgetLimits.usd(total=5)
    async with (
        budgeted(place.path, place.dsn, limits) as one,
        budgeted(place.path, place.dsn, limits) as other,
    ):
        assert await all_at_once(one, 5) == 5
        await one.ledger.flush()
        assert not await other.spend()
        assert other.spill.closed("ward") == ""
        running = asyncio.create_task(other.ledger.run())
        await _until(lambda: other.spill.closed("ward") == "spill_budget")
        running.cancel()
        await asyncio.wait((running,))


async def _until(it_is: Callable[[], bool]) -> None:
    """The ledger looks after itself in real time, as its thread and its database live in it."""
    for _ in range(2000):
        if it_is():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


def _started(place: Where, *rest: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.ledger.budgeted", str(place.path), place.dsn or "",
         *rest],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _close(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
