"""A PostgreSQL that is gone without a word: noticed, survived, and used again when it is back."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from gateway.accounting.ledger.database import LedgerDown
from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.ledger.postgres import PostgresDatabase
from gateway.accounting.ledger.watchdog import AnswerWatchdog
from gateway.accounting.pricing import nano
from gateway.accounting.spill import SpillBudgets, SpillControl, SpillStop
from gateway.core import ambient
from gateway.core.deadline import Deadline
from gateway.core.errors import SpillClosed
from tests.unit.ledger.budgeted import budgeted, entry
from tests.unit.ledger.postgres_server import Server

pytestmark = pytest.mark.timeout(120)


def test_an_operation_on_a_frozen_server_ends_and_the_next_ones_work(
    postgres: Server, tmp_path: Path
) -> None:
    database = PostgresDatabase(postgres.fresh())
    database.write("CREATE TABLE numbers (number INT)")
    with postgres.frozen(), pytest.raises(LedgerDown, match="no answer for"):
        database.write("INSERT INTO numbers VALUES (?)", [1])
    with database.writing():
        database.write("INSERT INTO numbers VALUES (?)", [2])
    assert (2,) in database.read("SELECT number FROM numbers")
    database.close()


def test_a_frozen_server_cannot_be_connected_to_for_ever(postgres: Server) -> None:
    dsn = postgres.fresh()
    database = PostgresDatabase(dsn)
    with postgres.frozen():
        with pytest.raises(LedgerDown):
            database.read("SELECT 1")
        with pytest.raises(LedgerDown), database.writing():
            pass
    database.close()


def test_a_ledger_whose_server_freezes_closes_the_cloud_and_opens_it_again(
    postgres: Server, tmp_path: Path
) -> None:
    async def main() -> None:
        async with budgeted(tmp_path, postgres.fresh(), BudgetLimits.usd(total=1000)) as it:
            attending = asyncio.create_task(it.ledger.run())
            assert await it.spend()
            with postgres.frozen():
                it.ledger.post(entry())
                await until(lambda: not it.told.is_up)
                with pytest.raises(SpillClosed) as closed:
                    it.spill.reserve("ward", nano(1.0))
                assert closed.value.reason == "ledger_down"
            await until(lambda: it.told.is_up)
            assert await it.spend()
            await it.ledger.flush()
            assert it.told.lost_entries == 0
            attending.cancel()
            await asyncio.gather(attending, return_exceptions=True)

    asyncio.run(main())


async def until(happened: object) -> None:
    assert callable(happened)
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - a server and a thread, which tell nobody
            await asyncio.sleep(0.05)


class Unanswered:
    """A ledger that answers when it is let."""

    down = False

    def __init__(self) -> None:
        self.answers = asyncio.Event()

    def has(self, tenant: str, nano_usd: int) -> bool:
        return False

    async def take(self, tenant: str, nano_usd: int) -> str:
        await self.answers.wait()
        return ""

    def settle(self, tenant: str, reserved: int, spent: int) -> None:
        return None

    def allow(self, limits: object) -> None:
        return None


def test_a_call_waits_no_longer_for_a_lease_than_the_settings_say() -> None:
    async def main() -> None:
        clock = ambient.monotonic_s
        budgets = SpillBudgets(BudgetLimits.usd(total=10), {}, clock, ambient.wall_s)
        spill = SpillControl(SpillStop(None, clock), budgets)
        spill.leases = Unanswered()
        reserved = spill.reserve("ward", nano(1.0))
        assert not reserved.leased
        with pytest.raises(SpillClosed) as closed:
            async with asyncio.timeout(10):
                await spill.lease(reserved, Deadline.after(3600.0))
        assert closed.value.reason == "ledger_down"

    asyncio.run(main())


def test_an_answer_that_comes_too_late_for_one_call_is_there_for_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with budgeted(tmp_path / "ledger.db", None, BudgetLimits.usd(total=100)) as it:
            leaving = asyncio.create_task(it.ledger.leases.take("ward", nano(1.0)))
            await asyncio.sleep(0)  # it has asked
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
            async with it.ledger.leases.asking():  # its question has been answered
                pass
            assert it.ledger.leases.has("ward", nano(1.0))

    asyncio.run(main())


def test_a_watchdog_ends_an_overdue_operation_and_no_other() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)  # for a watchdog that does not end it
    now_s = 0.0
    watchdog = AnswerWatchdog(answer_s=5.0, clock=lambda: now_s)
    try:
        watchdog.follow(ours.fileno())
        with watchdog:
            theirs.sendall(b"x")
            assert ours.recv(1) == b"x"
        now_s = 10.0
        watchdog.check()  # nothing is under way that could be overdue
        theirs.sendall(b"y")
        assert ours.recv(1) == b"y"
        with watchdog:
            now_s = 20.0
            assert ours.recv(1) == b""  # shut down: nobody has sent anything
        assert watchdog.timed_out
    finally:
        watchdog.close()
        ours.close()
        theirs.close()
