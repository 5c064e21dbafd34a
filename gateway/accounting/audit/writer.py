"""Makes records durable, many at once.

The loop gathers records while the disk is busy, and seals them into the chain as one group when it
is free: one write for all of them, durable when it returns. What blocks is done by a thread, one
job at a time (`writer_thread`); all else, and all state, is the loop's. Sealed here, records cost
little: a thread that took them one by one would need the interpreter's lock for that, and take it
from the calls. Alone, a record goes out at once. Records that come in company are gathered for a
moment, because what a commit costs (a thread that wakes, a sync) costs the same for one as for a
hundred. Each record has a ticket; the answer goes out when the ticket says that the record is
durable. What nobody waits for has no ticket, and goes with the next group, or by itself a moment
later.

While the disk fails, `block` keeps every answer back and takes no more calls; `spool` goes on for
as long as the spool has room. What could not be recorded is counted, and told by a `gap` record as
soon as one can be written again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from gateway.accounting.audit.journal import Journal
from gateway.accounting.audit.writer_thread import CommitGroup, JournalUpkeep, WriterThread
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import Durable, RecordUnwritable
from gateway.core import ambient
from gateway.protocols import strictjson

log = logging.getLogger(__name__)

_MOST_IN_ONE = 1024  # records in one write
_NOTED_S = 0.01  # what nobody waits for has until then to go with others
_GATHERED_S = 0.002  # from one commit to the next, where that is likely to bring in
_WORTH = 3  # records or more
_MOST_WAITING = 65_536  # records; with a disk that hangs, refusals alone could fill the memory
_RETRY_S = 0.5
_LONGEST_RETRY = 64  # times that: how long a disk that fails again and again counts as failing
_RELAPSE = 120  # times that: failing again so soon doubles the wait
_TENDED_S = 0.05  # how long what else is to be looked after may wait while there are records
_PATIENCE_S = 10.0  # with a disk that hangs, at the end


class AuditWriter:
    """For the loop alone. The journal is the keeper's while that has a job, and the loop's else."""

    def __init__(
        self, journal: Journal, metrics: Metrics, checkpoint_s: float, retry_s: float = _RETRY_S
    ) -> None:
        self.journal = journal
        self._metrics = metrics
        self._checkpoint_s = checkpoint_s
        self._retry_s = retry_s
        self._keeper: WriterThread | None = None
        self._busy = False  # the keeper has a job
        self._records: list[bytes] = []  # that no group has yet
        self._tickets: list[Durable] = []
        self._groups: deque[tuple[list[bytes], list[Durable]]] = deque()  # full ones that wait
        self._grouped = 0  # records in those
        self._out = 0  # and in the one that is with the keeper
        self._soon = False  # a group is about to go
        self._noted = False  # or is so in a moment
        self._handed_s = 0.0  # when the last group went
        self._next_s = 0.0  # when the next one may
        self._failing: str | None = None  # what the disk said last
        self._since_s = 0.0
        self._dwell_s = retry_s  # for which it counts as failing at the least
        self._recovered_s = -math.inf
        self._trouble = ""  # the last that was told of all else
        self._lost = 0  # records that no gap record has told of
        self._spooled = False
        self._checkpoint_due_s = 0.0
        self._tended_s = 0.0  # when all else was looked after last
        self._tend_s = math.inf  # and is next
        self._tends: asyncio.TimerHandle | None = None
        self._idle: asyncio.Future[None] | None = None  # at the end: nothing is left to be done

    def start(self, opening: Callable[[], Mapping[str, Any]]) -> None:
        """Raises AuditError."""
        self._loop = asyncio.get_running_loop()
        self._ticket = self._loop.create_future
        self.journal.open()
        if self.journal.new_key:
            log.warning(
                "a new key signs the audit; keep its public half where this machine cannot "
                "change it: %s",
                str(self.journal.key.public),  # what is no text is masked in a log
            )
        self.journal.started(opening())
        self.journal.checkpoint()
        self._checkpoint_due_s = ambient.monotonic_s() + self._checkpoint_s
        self._publish()
        self._keeper = WriterThread(self.journal, self._loop, self._on_durable, self._tended)
        self._tend_by(self._checkpoint_due_s)

    async def aclose(self) -> None:
        """Everything that was handed over is durable, or was told that it is not."""
        if self._keeper is None or self._idle is not None:
            return
        self._idle = self._loop.create_future()
        self._go_on()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._idle
        except TimeoutError:
            log.error("the audit's disk hangs; what waits for it may not be on record")
            return
        await self._keeper.aclose()
        if self._tends is not None:
            self._tends.cancel()
        try:
            self.journal.close()
        except OSError as exc:
            log.error("the end of the audit could not be recorded: %s", exc.strerror)
        if left := self.journal.spooled:
            log.error("%d records are not on the audit's disk, but in the spool alone", left)

    # Records come

    @property
    def failing(self) -> bool:
        return self._failing is not None

    def check(self) -> None:
        """Raises RecordUnwritable while nothing can be recorded."""
        if self._failing is not None:  # guard: B4.writer-closed
            raise self._unwritable()

    def append(self, record: Mapping[str, Any]) -> Durable:
        """Raises RecordUnwritable."""
        if self._failing is not None or len(self._records) >= _MOST_IN_ONE:
            self._make_room()
        ticket: Durable = self._ticket()
        self._records.append(strictjson.dumps(record))
        self._tickets.append(ticket)
        if not self._busy and not self._soon:
            self._hand_over_soon()
        return ticket

    def note(self, record: Mapping[str, Any]) -> None:
        """Of what nobody waits for. Raises RecordUnwritable."""
        if self._failing is not None or len(self._records) >= _MOST_IN_ONE:
            self._make_room()
        self._records.append(strictjson.dumps(record))
        if not self._noted and not self._busy and not self._soon:
            self._hand_over_later()

    def _make_room(self) -> None:
        """Raises RecordUnwritable where there is none."""
        waiting = self._out + self._grouped + len(self._records)
        if self._failing is not None or waiting >= _MOST_WAITING:
            self._lost += 1
            raise self._unwritable()
        self._group()

    def _group(self) -> None:
        """What is here by now goes together."""
        if self._records:
            self._groups.append((self._records, self._tickets))
            self._grouped += len(self._records)
            self._records, self._tickets = [], []

    def _unwritable(self) -> RecordUnwritable:
        why = self._failing or "the disk does not keep up"
        return RecordUnwritable(f"the audit cannot be written: {why}", retry_after_s=1.0)

    # Groups go

    def _hand_over_soon(self) -> None:
        """With whatever else comes in this turn of the loop; or a moment later, in company."""
        self._soon = True
        if self._next_s and (wait_s := self._next_s - ambient.monotonic_s()) > 0:
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
        if not self._groups:
            self._group()
        if self._groups:
            records, tickets = self._groups.popleft()
            count = len(records)
            self._grouped -= count
            try:
                group = CommitGroup(self.journal.seal(records), count, tickets)
            except Exception as exc:  # noqa: BLE001 - a bug must leave no caller waiting
                self._fails(exc, count)
                self._settle(tickets, self._unwritable())
                return
            self._out = count
            self._do(group)
            self._handed(count)

    def _handed(self, count: int) -> None:
        now_s = ambient.monotonic_s()
        worth = count > 1 and count * _GATHERED_S >= _WORTH * (now_s - self._handed_s)
        self._handed_s, self._next_s = now_s, now_s + _GATHERED_S if worth else 0.0

    def _do(self, job: CommitGroup | JournalUpkeep) -> None:
        assert self._keeper is not None
        self._busy = True
        self._keeper.do(job)

    def _on_durable(self, group: CommitGroup) -> None:
        self._busy = False
        self._out = 0
        self._metrics.audit_commit_seconds.observe(group.took_s)
        if group.failed is None:
            self._metrics.audit_records.inc(group.count)
            self._tend_by(0.0 if self.journal.full else self._tended_s + _TENDED_S)
            self._settle(group.tickets, None)
        else:
            self._fails(group.failed, group.count)
            # guard: B4.waiter-failure -> self._settle(group.tickets, None)
            self._settle(group.tickets, self._unwritable())
        self._go_on()

    def _settle(self, tickets: list[Durable], failed: RecordUnwritable | None) -> None:
        for ticket in tickets:
            if not ticket.done():
                ticket.set_result(failed)

    def _fails(self, exc: Exception, records: int) -> None:
        self._lost += records
        self._metrics.record_failures.inc(records)
        why = _error_text(exc)
        if self._failing is None:
            self._since_s = ambient.wall_s()
            self._dwell_s = self._next_dwell_s()
            # guard: B4.disk-alarm
            log.error("the audit cannot be written: %s. No call is answered until it can", why)
        self._failing = why
        self._metrics.audit_failing.set(True)
        self._tend_again(self._dwell_s)

    def _next_dwell_s(self) -> float:
        """S1: a disk that fails now and then does not come and go with every try."""
        if ambient.monotonic_s() - self._recovered_s >= _RELAPSE * self._retry_s:
            return self._retry_s
        # guard: B4.retry-backoff -> return self._retry_s
        return min(2 * self._dwell_s, _LONGEST_RETRY * self._retry_s)

    def _go_on(self) -> None:
        """With what is next, now that the keeper has no job."""
        if self._busy:
            return
        if self._idle is not None:
            self._go_to_the_end(self._idle)
        elif ambient.monotonic_s() >= self._tend_s:
            self._tend()
        elif self._groups:
            self._hand_over()
        elif self._tickets:
            if not self._soon:
                self._hand_over_soon()
        elif self._records and not self._noted:
            self._hand_over_later()

    def _go_to_the_end(self, idle: asyncio.Future[None]) -> None:
        while not self._busy and (self._groups or self._records):  # guard: B4.final-flush
            self._hand_over()
        if not self._busy and not idle.done():
            idle.set_result(None)

    # All else

    def _tend_by(self, when_s: float) -> None:
        if when_s < self._tend_s:
            self._tend_s = when_s
            if self._tends is not None:
                self._tends.cancel()
            wait_s = max(0.0, when_s - ambient.monotonic_s())
            self._tends = self._loop.call_later(wait_s, self._tend_in_time)

    def _tend_again(self, wait_s: float) -> None:
        self._tend_s = math.inf
        self._tend_by(ambient.monotonic_s() + wait_s)

    def _tend_in_time(self) -> None:
        self._tend_s = 0.0
        self._go_on()

    def _tend(self) -> None:
        now_s = ambient.monotonic_s()
        gap: dict[str, Any] | None = None
        if self._failing is not None:
            since_s = round(self._since_s, 3)
            gap = {"since": since_s, "records": self._lost, "why": self._failing}
        signs = now_s >= self._checkpoint_due_s and self.journal.size > self.journal.signed
        self._do(JournalUpkeep(gap, signs))

    def _tended(self, work: JournalUpkeep) -> None:
        self._busy = False
        now_s = self._tended_s = ambient.monotonic_s()
        if work.gap is not None and work.reported:
            self._recovered(work.gap["records"])
        trouble = "" if work.failed is None else _error_text(work.failed)
        if trouble and trouble != self._trouble:
            log.error("the audit is not as it should be: %s", trouble)
        self._trouble = trouble
        if trouble:
            self._checkpoint_due_s = now_s + self._retry_s
        elif work.signs:
            self._checkpoint_due_s = now_s + self._checkpoint_s
        self._report_spool()
        self._publish()
        self._tend_again(self._wait_s(now_s))
        self._go_on()

    def _wait_s(self, now_s: float) -> float:
        """Until all else is looked after again, where no record comes."""
        if self._failing is not None or self.journal.spooled:
            return self._retry_s
        if self.journal.size <= self.journal.signed:
            return self._checkpoint_s
        return max(0.0, self._checkpoint_due_s - now_s)

    def _recovered(self, lost: int) -> None:
        self._lost -= lost
        self._failing = None
        self._recovered_s = ambient.monotonic_s()
        log.warning("the audit can be written again; %d records could not be kept", lost)

    def _report_spool(self) -> None:
        before, self._spooled = self._spooled, bool(self.journal.spooled)
        if self._spooled and not before:
            # guard: B4.spool-alarm
            log.error("the audit's disk takes no records; they go into the spool")
        elif before and not self._spooled:
            log.warning("the audit is on its own disk again, with all that was spooled")

    def _publish(self) -> None:
        metrics, journal = self._metrics, self.journal
        metrics.audit_failing.set(self._failing is not None)
        metrics.audit_spooled.set(journal.spooled)
        metrics.audit_size.set(journal.size)
        metrics.audit_signed.set(journal.signed)


def _error_text(exc: Exception) -> str:
    """Of a bug only what it is: its words could quote a record."""
    return (exc.strerror if isinstance(exc, OSError) else None) or type(exc).__name__
