"""The thread that makes records durable, many at once.

The loop gathers records while the disk is busy, and hands them over as one group when it is free:
one write for all of them, durable when it returns. Alone, a record goes out at once. Records that
come in company are gathered for a moment, because what a commit costs (a thread that wakes, a sync)
costs the same for one as for a hundred. Each record has a ticket; the answer goes out when the
ticket says that the record is durable. What nobody waits for has no ticket, and goes with the next
group, or by itself a moment later.

While the disk fails, `block` keeps every answer back and takes no more calls; `spool` goes on for
as long as the spool has room. What could not be recorded is counted, and told by a `gap` record as
soon as one can be written again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from gateway import ambient, strictjson
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import Durable, RecordUnwritable
from gateway.audit.journal import Journal

log = logging.getLogger(__name__)

_MOST_IN_ONE = 1024  # records in one write
_NOTED_S = 0.01  # what nobody waits for has until then to go with others
_GATHERED_S = 0.002  # from one commit to the next, where that is likely to bring in
_WORTH = 3  # records or more
_MOST_WAITING = 65_536  # records; with a disk that hangs, refusals alone could fill the memory
_RETRY_S = 0.5
_TENDED_S = 0.05  # how long what else is to be looked after may wait while there are records
_PATIENCE_S = 10.0  # with a disk that hangs, at the end


_Group = tuple[list[bytes], list[Durable]]
"""Records that are made durable together, and the tickets of those that are waited for."""


class AuditWriter:
    """`append` and `check` are for the loop; all else happens in the thread."""

    def __init__(
        self, journal: Journal, metrics: Metrics, checkpoint_s: float, retry_s: float = _RETRY_S
    ) -> None:
        self.journal = journal
        self._metrics = metrics
        self._checkpoint_s = checkpoint_s
        self._retry_s = retry_s
        self._groups: queue.SimpleQueue[_Group | None] = queue.SimpleQueue()
        self._records: list[bytes] = []  # that no group has yet
        self._tickets: list[Durable] = []
        self._out = 0  # groups that are with the thread
        self._out_records = 0  # in those
        self._soon = False  # a group is about to go to it
        self._noted = False  # or is so in a moment
        self._handed_s = 0.0  # when the last group went
        self._next_s = 0.0  # when the next one may
        self._writing: threading.Thread | None = None
        self._failing: str | None = None  # what the disk said last
        self._since_s = 0.0
        self._try_again_s = 0.0  # a page may have room for a gap's record and for no call's
        self._refused = 0  # records, counted on the loop
        self._failed = 0  # records, counted in the thread
        self._admitted = 0  # of both, what gap records have told
        self._spooled = False
        self._closing = False
        self._checkpoint_due_s = 0.0
        self._tend_s = 0.0  # when all else is looked after next
        self._untended = False  # there were records since

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
        self._writing = threading.Thread(target=self._run, name="audit", daemon=True)
        self._writing.start()

    async def aclose(self) -> None:
        """Everything that was handed over is durable, or was told that it is not."""
        if self._writing is None:
            return
        thread, self._writing = self._writing, None
        self._hand_over()
        self._groups.put(None)
        await asyncio.to_thread(thread.join, _PATIENCE_S)
        if thread.is_alive():
            log.error("the audit's disk hangs; what waits for it may not be on record")
            return
        await asyncio.sleep(0)  # the last tickets
        try:
            self.journal.close()
        except OSError as exc:
            log.error("the end of the audit could not be recorded: %s", exc.strerror)
        if left := self.journal.spooled:
            log.error("%d records are not on the audit's disk, but in the spool alone", left)

    # On the loop

    @property
    def failing(self) -> bool:
        return self._failing is not None

    def check(self) -> None:
        """Raises RecordUnwritable while nothing can be recorded."""
        if self._failing is not None:
            raise self._unwritable()

    def append(self, record: Mapping[str, Any]) -> Durable:
        """Raises RecordUnwritable."""
        if self._failing is not None or len(self._records) >= _MOST_IN_ONE:
            self._make_room()
        ticket: Durable = self._ticket()
        self._records.append(strictjson.dumps(record))
        self._tickets.append(ticket)
        if not self._out and not self._soon:
            self._hand_over_soon()
        return ticket

    def note(self, record: Mapping[str, Any]) -> None:
        """Of what nobody waits for. Raises RecordUnwritable."""
        if self._failing is not None or len(self._records) >= _MOST_IN_ONE:
            self._make_room()
        self._records.append(strictjson.dumps(record))
        if not self._noted and not self._out and not self._soon:
            self._hand_over_later()

    def _make_room(self) -> None:
        """Raises RecordUnwritable where there is none."""
        waiting = self._out_records + len(self._records)
        if self._failing is not None or waiting >= _MOST_WAITING:
            self._refused += 1
            raise self._unwritable()
        self._hand_over()

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
        if not self._out and not self._soon:
            self._hand_over()

    def _hand_over(self) -> None:
        self._soon = False
        records, tickets = self._records, self._tickets
        if not records:  # they went at the end, or to make room
            return
        self._records, self._tickets = [], []
        count = len(records)
        self._out += 1
        self._out_records += count
        self._groups.put((records, tickets))
        now_s = ambient.monotonic_s()
        worth = count > 1 and count * _GATHERED_S >= _WORTH * (now_s - self._handed_s)
        self._handed_s, self._next_s = now_s, now_s + _GATHERED_S if worth else 0.0

    def _unwritable(self) -> RecordUnwritable:
        why = self._failing or "the disk does not keep up"
        return RecordUnwritable(f"the audit cannot be written: {why}", retry_after_s=1.0)

    def _told(self, group: _Group, failed: RecordUnwritable | None) -> None:
        records, tickets = group
        if failed is not None:
            self._metrics.record_failures.inc(len(records))
        for ticket in tickets:
            if not ticket.done():
                ticket.set_result(failed)
        self._out -= 1
        self._out_records -= len(records)
        if self._tickets:
            if not self._out and not self._soon:
                self._hand_over_soon()
        elif self._records and not self._noted:
            self._hand_over_later()

    # In the thread

    def _run(self) -> None:
        while not self._closing:
            group = self._take()
            now_s = ambient.monotonic_s()
            if group is not None:
                now_s = self._commit(group, now_s)
                self._untended = True
            if group is None or now_s >= self._tend_s or self._failing or self.journal.full:
                self._tend_s, self._untended = now_s + _TENDED_S, False
                self._tend()

    def _take(self) -> _Group | None:
        """What waits, or nothing once it is time to look after other things."""
        try:
            group = self._groups.get(timeout=self._wait_s())
        except queue.Empty:
            return None
        self._closing = group is None
        return group

    def _wait_s(self) -> float:
        if self._untended:
            return _TENDED_S
        if self._failing is not None or self.journal.spooled:
            return self._retry_s
        if self.journal.size <= self.journal.signed:
            return self._checkpoint_s
        return max(0.0, self._checkpoint_due_s - ambient.monotonic_s())

    def _commit(self, group: _Group, now_s: float) -> float:
        """When it is over."""
        records, _ = group
        failed: RecordUnwritable | None = None
        try:
            self.journal.commit(records)
        except Exception as exc:  # noqa: BLE001 - a bug here must not end the thread, and all calls
            self._fails(exc)
            self._failed += len(records)
            failed = self._unwritable()
        over_s = ambient.monotonic_s()
        self._metrics.audit_commit_seconds.observe(over_s - now_s)
        if failed is None:
            self._metrics.audit_records.inc(len(records))
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits
            self._loop.call_soon_threadsafe(self._told, group, failed)
        return over_s

    def _fails(self, exc: Exception) -> None:
        why = _said(exc)
        if self._failing is None:
            self._since_s = ambient.wall_s()
            log.error("the audit cannot be written: %s. No call is answered until it can", why)
        self._failing = why
        self._try_again_s = ambient.monotonic_s() + self._retry_s

    def _tend(self) -> None:
        try:
            if self._failing is not None and ambient.monotonic_s() >= self._try_again_s:
                self._recover()
            self.journal.tend()
            if self.journal.size > self.journal.signed and self._due():
                self.journal.checkpoint()
        except Exception as exc:  # noqa: BLE001 - a background loop
            log.error("the audit is not as it should be: %s", _said(exc))
            self._checkpoint_due_s = ambient.monotonic_s() + self._retry_s
        self._tell_of_spool()
        self._publish()

    def _tell_of_spool(self) -> None:
        before, self._spooled = self._spooled, bool(self.journal.spooled)
        if self._spooled and not before:
            log.error("the audit's disk takes no records; they go into the spool")
        elif before and not self._spooled:
            log.warning("the audit is on its own disk again, with all that was spooled")

    def _due(self) -> bool:
        now_s = ambient.monotonic_s()
        if now_s < self._checkpoint_due_s:
            return False
        self._checkpoint_due_s = now_s + self._checkpoint_s
        return True

    def _recover(self) -> None:
        lost = self._refused + self._failed - self._admitted
        try:
            since_s = round(self._since_s, 3)
            self.journal.note("gap", since=since_s, records=lost, why=self._failing)
        except OSError:
            self._try_again_s = ambient.monotonic_s() + self._retry_s
            return
        self._admitted += lost
        self._failing = None
        log.warning("the audit can be written again; %d records could not be kept", lost)

    def _publish(self) -> None:
        metrics, journal = self._metrics, self.journal
        metrics.audit_failing.set(self._failing is not None)
        metrics.audit_spooled.set(journal.spooled)
        metrics.audit_size.set(journal.size)
        metrics.audit_signed.set(journal.signed)


def _said(exc: Exception) -> str:
    """Of a bug only what it is: its words could quote a record."""
    return (exc.strerror if isinstance(exc, OSError) else None) or type(exc).__name__
