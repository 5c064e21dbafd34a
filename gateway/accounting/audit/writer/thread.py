"""The thread that does for the audit's writer what blocks: one job at a time, told of on the loop.

It holds the interpreter's lock for as little as it can: a group comes to it sealed, to be written.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

from gateway.accounting.audit.journal.journal import Journal, Sealed
from gateway.accounting.records import Durable
from gateway.core import ambient


class CommitGroup:
    """Records that are made durable together, and the tickets of those that are waited for."""

    __slots__ = ("count", "failed", "sealed", "tickets", "took_s")

    def __init__(self, sealed: Sealed, count: int, tickets: list[Durable]) -> None:
        self.sealed = sealed
        self.count = count  # of records
        self.tickets = tickets
        self.took_s = 0.0
        self.failed: Exception | None = None  # none of the records is durable then


class JournalUpkeep:
    """All else that the journal needs: a gap record, another segment, a checkpoint."""

    __slots__ = ("failed", "gap", "reported", "signs")

    def __init__(self, gap: dict[str, Any] | None, signs: bool) -> None:
        self.gap = gap
        self.signs = signs
        self.reported = False  # of the gap
        self.failed: Exception | None = None


class WriterThread:
    def __init__(
        self,
        journal: Journal,
        loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[CommitGroup], None],
        tended: Callable[[JournalUpkeep], None],
    ) -> None:
        self._journal = journal
        self._loop = loop
        self._on_durable = on_durable
        self._tended = tended
        self._jobs: queue.SimpleQueue[CommitGroup | JournalUpkeep | None] = queue.SimpleQueue()
        self.do: Callable[[CommitGroup | JournalUpkeep], None] = self._jobs.put
        """Takes a job. The journal is this thread's until `on_durable` or `tended` reports it."""
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    async def aclose(self) -> None:
        """With no job left."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if isinstance(job, CommitGroup):
                self._keep(job)
                self._notify(self._on_durable, job)
            else:
                self._tend(job)
                self._notify(self._tended, job)

    def _notify(self, on_done: Callable[[Any], None], job: CommitGroup | JournalUpkeep) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits
            self._loop.call_soon_threadsafe(on_done, job)

    def _keep(self, group: CommitGroup) -> None:
        began_s = ambient.monotonic_s()
        try:
            self._journal.keep(group.sealed)
        except Exception as exc:  # noqa: BLE001 - a bug here must not end the thread, and all calls
            group.failed = exc
        group.took_s = ambient.monotonic_s() - began_s

    def _tend(self, work: JournalUpkeep) -> None:
        journal = self._journal
        try:
            if work.gap is not None:
                with contextlib.suppress(OSError):  # not yet
                    journal.note_gap(work.gap)
                    work.reported = True
            journal.tend()
            if work.signs and journal.size > journal.signed:
                journal.checkpoint()
        except Exception as exc:  # noqa: BLE001 - a background loop
            work.failed = exc
