"""Makes records durable, many at once.

The loop gathers records while the disk is busy, and seals them into the chain as one group when it
is free: one write for all of them, durable when it returns. What blocks is done by a thread, one
job at a time; all else, and all state, is the loop's. Sealed here, records cost little: a thread
that took them one by one would need the interpreter's lock for that, and take it from the calls.
Alone, a record goes out at once. Each record has a ticket; the answer goes out when the ticket says
that the record is durable. What nobody waits for has no ticket, and goes with the next group, or by
itself a moment later.

While the disk fails, `block` keeps every answer back and takes no more calls; `spool` goes on for
as long as the spool has room. What could not be recorded is counted, and told by a `gap` record as
soon as one can be written again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from gateway.accounting.audit.journal.journal import Journal
from gateway.accounting.audit.writer.failure import DiskFailure, error_text
from gateway.accounting.audit.writer.gauges import JournalGauges
from gateway.accounting.audit.writer.pace import CommitPace
from gateway.accounting.audit.writer.pending import MOST_IN_ONE, PendingRecords
from gateway.accounting.audit.writer.thread import CommitGroup, JournalUpkeep, WriterThread
from gateway.accounting.audit.writer.upkeep import UpkeepTimer
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import Durable, RecordUnwritable
from gateway.core import ambient
from gateway.protocols import strictjson

log = logging.getLogger(__name__)

_NOTED_S = 0.01  # what nobody waits for has until then to go with others
_MOST_WAITING = 65_536  # records; with a disk that hangs, refusals alone could fill the memory
_RETRY_S = 0.5
_TENDED_S = 0.05  # how long what else is to be looked after may wait while there are records
_PATIENCE_S = 10.0  # with a disk that hangs, at the end


class AuditWriter:
    """For the loop alone. The journal is the thread's while that has a job, and the loop's else."""

    def __init__(
        self, journal: Journal, metrics: Metrics, checkpoint_s: float, retry_s: float = _RETRY_S
    ) -> None:
        self.journal = journal
        self._metrics = metrics
        self._checkpoint_s = checkpoint_s
        self._retry_s = retry_s
        self._committer: WriterThread | None = None
        self._busy = False  # the thread has a job
        self._pending = PendingRecords()
        self._pace = CommitPace()
        self._failure = DiskFailure(metrics, retry_s)
        self._gauges = JournalGauges(journal, metrics)
        self._out = 0  # records in the group that the thread has
        self._soon = False  # a group is about to go
        self._noted = False  # or is so in a moment
        self._trouble = ""  # the last that was told of all else
        self._checkpoint_due_s = 0.0
        self._tended_s = 0.0  # when all else was looked after last
        self._idle: asyncio.Future[None] | None = None  # at the end: nothing is left to be done

    def start(self, opening: Callable[[], Mapping[str, Any]]) -> None:
        """Raises AuditError."""
        self._loop = asyncio.get_running_loop()
        self._ticket = self._loop.create_future
        self._upkeep = UpkeepTimer(self._loop, self._go_on)
        self.journal.open()
        if self.journal.signer.new_key:
            log.warning(
                "a new key signs the audit; keep its public half where this machine cannot "
                "change it: %s",
                str(self.journal.signer.public),  # what is no text is masked in a log
            )
        self.journal.started(opening())
        self.journal.checkpoint()
        self._checkpoint_due_s = ambient.monotonic_s() + self._checkpoint_s
        self._gauges.publish(self.failing)
        self._committer = WriterThread(self.journal, self._loop, self._on_durable, self._tended)
        self._upkeep.by(self._checkpoint_due_s)

    async def aclose(self) -> None:
        """Everything that was handed over is durable, or was told that it is not."""
        if self._committer is None or self._idle is not None:
            return
        self._idle = self._loop.create_future()
        self._go_on()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._idle
        except TimeoutError:
            log.error("the audit's disk hangs; what waits for it may not be on record")
            return
        await self._committer.aclose()
        self._upkeep.cancel()
        try:
            self.journal.close()
        except OSError as exc:
            log.error("the end of the audit could not be recorded: %s", exc.strerror)
        if left := self.journal.spooled:
            log.error("%d records are not on the audit's disk, but in the spool alone", left)

    # Records come

    @property
    def failing(self) -> bool:
        return self._failure.why is not None

    def check(self) -> None:
        """Raises RecordUnwritable while nothing can be recorded."""
        if self._failure.why is not None:  # guard: B4.writer-closed
            raise self._failure.error()

    def append(self, record: Mapping[str, Any]) -> Durable:
        """Raises RecordUnwritable."""
        pending = self._pending
        if self._failure.why is not None or len(pending.records) >= MOST_IN_ONE:
            self._make_room()
        ticket: Durable = self._ticket()
        pending.records.append(strictjson.dumps(record))
        pending.tickets.append(ticket)
        if not self._busy and not self._soon:
            self._hand_over_soon()
        return ticket

    def note(self, record: Mapping[str, Any]) -> None:
        """Of what nobody waits for. Raises RecordUnwritable."""
        pending = self._pending
        if self._failure.why is not None or len(pending.records) >= MOST_IN_ONE:
            self._make_room()
        pending.records.append(strictjson.dumps(record))
        if not self._noted and not self._busy and not self._soon:
            self._hand_over_later()

    def _make_room(self) -> None:
        """Raises RecordUnwritable where there is none."""
        if self._failure.why is not None or self._out + self._pending.count >= _MOST_WAITING:
            raise self._failure.refused()
        self._pending.close_group()

    # Groups go

    def _hand_over_soon(self) -> None:
        """With whatever else comes in this turn of the loop; or a moment later, in company."""
        self._soon = True
        if wait_s := self._pace.wait_s():
            self._loop.call_later(wait_s, self._hand_over)
        else:
            self._loop.call_soon(self._hand_over)

    def _hand_over_later(self) -> None:
        self._noted = True
        self._loop.call_later(_NOTED_S, self._hand_over_noted)

    def _hand_over_noted(self) -> None:
        self._noted = False
        if not self._soon:
            self._hand_over()

    def _hand_over(self) -> None:
        self._soon = False
        if self._busy:  # what is here goes when that is done
            return
        if (taken := self._pending.take()) is None:
            return
        records, tickets = taken
        count = len(records)
        try:
            group = CommitGroup(self.journal.seal(records), count, tickets)
        except Exception as exc:  # noqa: BLE001 - a bug must leave no caller waiting
            self._fails(exc, count)
            _settle(tickets, self._failure.error())
            return
        self._out = count
        self._do(group)
        self._pace.committed(count)

    def _do(self, job: CommitGroup | JournalUpkeep) -> None:
        assert self._committer is not None
        self._busy = True
        self._committer.do(job)

    def _on_durable(self, group: CommitGroup) -> None:
        self._busy = False
        self._out = 0
        self._metrics.audit_commit_seconds.observe(group.took_s)
        if group.failed is None:
            self._metrics.audit_records.inc(group.count)
            self._upkeep.by(0.0 if self.journal.full else self._tended_s + _TENDED_S)
            _settle(group.tickets, None)
        else:
            self._fails(group.failed, group.count)
            # guard: B4.waiter-failure -> _settle(group.tickets, None)
            _settle(group.tickets, self._failure.error())
        self._go_on()

    def _fails(self, exc: Exception, records: int) -> None:
        self._failure.fails(exc, records)
        self._upkeep.again(self._failure.dwell_s)

    def _go_on(self) -> None:
        """With what is next, now that the thread has no job."""
        if self._busy:
            return
        if self._idle is not None:
            # guard: B4.final-flush
            while not self._busy and self._pending.count:
                self._hand_over()
            if not self._busy and not self._idle.done():
                self._idle.set_result(None)
        elif self._upkeep.due:
            self._tend()
        elif self._pending.groups:
            self._hand_over()
        elif self._pending.tickets:
            if not self._soon:
                self._hand_over_soon()
        elif self._pending.records and not self._noted:
            self._hand_over_later()

    # All else

    def _tend(self) -> None:
        due = ambient.monotonic_s() >= self._checkpoint_due_s
        signs = due and self.journal.size > self.journal.signed
        self._do(JournalUpkeep(self._failure.gap(), signs))

    def _tended(self, work: JournalUpkeep) -> None:
        self._busy = False
        now_s = self._tended_s = ambient.monotonic_s()
        if work.gap is not None and work.reported:
            self._failure.recovered(work.gap["records"])
        trouble = "" if work.failed is None else error_text(work.failed)
        if trouble and trouble != self._trouble:
            log.error("the audit is not as it should be: %s", trouble)
        self._trouble = trouble
        if trouble:
            self._checkpoint_due_s = now_s + self._retry_s
        elif work.signs:
            self._checkpoint_due_s = now_s + self._checkpoint_s
        self._gauges.report_spool()
        self._gauges.publish(self.failing)
        self._upkeep.again(self._wait_s(now_s))
        self._go_on()

    def _wait_s(self, now_s: float) -> float:
        """Until all else is looked after again, where no record comes."""
        if self._failure.why is not None or self.journal.spooled:
            return self._retry_s
        if self.journal.size <= self.journal.signed:
            return self._checkpoint_s
        return max(0.0, self._checkpoint_due_s - now_s)


def _settle(tickets: list[Durable], failed: RecordUnwritable | None) -> None:
    for ticket in tickets:
        if not ticket.done():
            ticket.set_result(failed)
