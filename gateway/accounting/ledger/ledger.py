"""The ledger as the loop sees it: entries are handed over and written soon, many at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from gateway.accounting.ledger import owner
from gateway.accounting.ledger.database import LedgerDown
from gateway.accounting.ledger.entry import Entry
from gateway.accounting.ledger.leases import VALID_S, Leases
from gateway.accounting.ledger.limits import BudgetLimits
from gateway.accounting.ledger.store import LeaseGrant, LeaseRequest, LedgerStore, PriorSpend
from gateway.core.deadline import Clock
from gateway.core.deferred_error import DeferredError

log = logging.getLogger(__name__)

T = TypeVar("T")
Run = Callable[[Callable[[], T]], Awaitable[T]]

COMMIT_S = 0.1  # between two commits; what is younger is lost when the process is killed
_KEEP_S = 5.0  # between two looks at leases, and at what other processes have spent
_FORGET_S = 3600.0
_MOST_WAITING = 200_000
"""Entries that wait while the database is out, some 100 MB: hours of calls on the premises."""
_MOST_AT_ONCE = 5000


class Watcher(Protocol):
    """Is told how the ledger fares: the metrics."""

    def up(self, up: bool) -> None: ...
    def waiting(self, entries: int) -> None: ...
    def lost(self, entries: int) -> None: ...
    def committed(self, entries: int) -> None: ...


class LedgerView(Protocol):
    """What decisions read: the budgets in memory."""

    def restore(self, already: PriorSpend) -> None: ...
    def others_spent(self, tenant: str, nano_usd: int) -> None: ...


class LedgerThread:
    """Runs what blocks, one thing after the other, in the order in which it was asked for."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ledger")

    async def __call__(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        self._pool.shutdown()


class InlineRunner:
    """Runs it here and now: for a simulation, whose ledger is in memory."""

    async def __call__(self, work: Callable[[], T]) -> T:
        return work()

    def close(self) -> None:
        return None


class Ledger:
    """`post` never waits and never raises. What it was given is on disk after `flush`."""

    def __init__(
        self,
        store: LedgerStore,
        limits: Mapping[str, BudgetLimits],
        view: LedgerView,
        watcher: Watcher,
        clock: Clock,
        run: LedgerThread | InlineRunner,
        longest_call_s: float,
        keep_days: int,
    ) -> None:
        self._store, self._view, self._watcher = store, view, watcher
        self._clock, self._run = clock, run
        self._lease_s = VALID_S + longest_call_s
        self._keep_days = keep_days
        self.leases = Leases(limits, self._lease, clock)
        self._new: list[Entry] = []
        self._batch: Sequence[Entry] = ()  # being committed, or to be once more
        self._number = 0
        self._committing = asyncio.Lock()
        self._last_id = 0
        self._renewed_s = self._forgot_s = float("-inf")

    def post(self, entry: Entry) -> None:
        if len(self._new) >= _MOST_WAITING:
            self._watcher.lost(1)
            return
        self._new.append(entry)

    async def start(self) -> None:
        """Take up what was spent before. Raises LedgerDown."""
        gone = [o for o in await self._run(self._store.owners) if owner.is_gone(o)]
        await self._run(lambda: self._store.drop_leases(gone))  # guard: B1.orphan-leases
        already = await self._run(self._store.already)
        self._last_id = already.last_id
        self._view.restore(already)  # guard: B1.restart-spend
        self._answered(True)

    async def run(self) -> None:
        """Until it is cancelled. What is then left is for `aclose`."""
        while True:
            await asyncio.sleep(COMMIT_S)
            await self._attend()

    async def _attend(self) -> None:
        try:
            await self._commit_all()
            now_s = self._clock()
            if now_s - self._renewed_s >= _KEEP_S:
                self._renewed_s = now_s
                await self._keep()
            if now_s - self._forgot_s >= _FORGET_S:
                self._forgot_s = now_s
                await self._run(lambda: self._store.forget(self._keep_days))
            # guard: B1.ledger-room
            if self.leases.down:  # which nothing may have been written since
                await self._run(self._store.check_room)
        except LedgerDown as down:
            self._failed(down)
        except Exception:
            log.exception("the ledger met a bug; the cloud is closed until it is written again")
            self._answered(False)
        else:
            self._answered(True)

    async def flush(self) -> None:
        """All that was posted is on disk. Raises LedgerDown."""
        await self._commit_all()

    async def aclose(self) -> None:
        failed: DeferredError | None = None
        try:
            await self.flush()  # guard: B3.final-flush
            async with self.leases.asking():
                left = self.leases.everything()
                await self._run(lambda: self._store.keep_leases(left, self._lease_s))
        except LedgerDown as down:
            log.error("the ledger is not whole, %d entries are lost: %s", self._unwritten, down)
            self._watcher.lost(self._unwritten)
        except BaseException as exc:  # noqa: BLE001 - raised below, whatever it is
            failed = DeferredError(exc)
        await self._run(self._store.close)
        self._run.close()
        if failed is not None:
            raise failed.again()

    @property
    def _unwritten(self) -> int:
        return len(self._batch) + len(self._new)

    async def _commit_all(self) -> None:
        """What has been posted by now. What comes meanwhile is for the next time: while calls come
        there would be no end of it, and each commit would have few entries."""
        async with self._committing:
            left = self._unwritten
            while left > 0:
                if not self._batch:
                    self._batch, self._new = (
                        self._new[:_MOST_AT_ONCE],
                        self._new[_MOST_AT_ONCE:],
                    )
                    self._number += 1
                # guard: B3.unwritten-entries -> batch, number, self._batch = (self._batch,
                #   self._number, ())
                batch, number = self._batch, self._number
                spent = await self._run(lambda: self._store.commit(number, batch))  # noqa: B023 - awaited
                left -= len(batch)
                self._batch = ()
                self.leases.committed(spent)
                self._watcher.committed(len(batch))
            self._watcher.waiting(self._unwritten)

    async def _lease(
        self, requests: Sequence[Sequence[LeaseRequest]], free: Mapping[str, int]
    ) -> LeaseGrant:
        try:
            return await self._run(lambda: self._store.lease(requests, free, self._lease_s))
        except LedgerDown as down:
            self._failed(down)
            raise

    async def _keep(self) -> None:
        leases = self.leases
        async with leases.asking():
            surplus, since_s = leases.surplus(), self._clock()
            leased = await self._run(lambda: self._store.keep_leases(surplus, self._lease_s))
            leases.held_on(leased, since_s)
        last_id = self._last_id
        self._last_id, spent = await self._run(lambda: self._store.others_since(last_id))
        for tenant, nano_usd in spent.items():
            self._view.others_spent(tenant, nano_usd)  # guard: B1.peer-spend

    def _failed(self, down: LedgerDown) -> None:
        if not self.leases.down:
            log.error("the ledger cannot be written, nothing goes to the cloud: %s", down)
        self._answered(False)

    def _answered(self, up: bool) -> None:
        if up and self.leases.down:
            log.warning("the ledger is written again")
        self.leases.down = not up
        self._watcher.up(up)
        self._watcher.waiting(self._unwritten)
