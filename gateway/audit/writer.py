"""The thread that makes records durable, many at once.

Whatever waits when the disk is free goes out with one write and one fdatasync: alone, a call waits
for one of them; under load hundreds share it. The loop hands over a record and gets a ticket; the
answer goes out when the ticket says that the record is durable.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway import ambient, strictjson
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import RecordUnwritable
from gateway.audit.journal import Journal

log = logging.getLogger(__name__)

Ticket = asyncio.Future[RecordUnwritable | None]

_MOST_IN_ONE = 1024  # records in one write
_MOST_WAITING = 65_536  # records; with a disk that hangs, refusals alone could fill the memory
_RETRY_S = 0.5
_PATIENCE_S = 10.0  # with a disk that hangs, at the end


@dataclass(frozen=True, slots=True)
class _Entry:
    record: bytes
    ticket: Ticket


class AuditWriter:
    """`append` and `check` are for the loop; all else happens in the thread."""

    def __init__(
        self, journal: Journal, metrics: Metrics, checkpoint_s: float, retry_s: float = _RETRY_S
    ) -> None:
        self.journal = journal
        self._metrics = metrics
        self._checkpoint_s = checkpoint_s
        self._retry_s = retry_s
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failing: str | None = None  # what the disk said last
        self._since_s = 0.0
        self._waiting = 0
        self._refused = 0  # records, counted on the loop
        self._failed = 0  # records, counted in the thread
        self._admitted = 0  # of both, what gap records have told
        self._spooled = False
        self._closing = False
        self._checkpoint_due_s = 0.0

    def start(self, opening: Callable[[], Mapping[str, Any]]) -> None:
        """Raises AuditError."""
        self._loop = asyncio.get_running_loop()
        self.journal.open()
        self.journal.started(opening())
        self.journal.checkpoint()
        self._checkpoint_due_s = ambient.monotonic_s() + self._checkpoint_s
        self._publish()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    async def aclose(self) -> None:
        """Everything that was handed over is durable, or was told that it is not."""
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        self._queue.put(None)
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

    def append(self, record: Mapping[str, Any]) -> Ticket:
        """Raises RecordUnwritable."""
        if self._failing is not None or self._waiting >= _MOST_WAITING:
            self._refused += 1
            raise self._unwritable()
        ticket: Ticket = self._loop.create_future()
        self._waiting += 1
        self._queue.put(_Entry(strictjson.dumps(record), ticket))
        return ticket

    def _unwritable(self) -> RecordUnwritable:
        why = self._failing or "the disk does not keep up"
        return RecordUnwritable(f"the audit cannot be written: {why}", retry_after_s=1.0)

    def _told(self, batch: Sequence[_Entry], failed: RecordUnwritable | None) -> None:
        self._waiting -= len(batch)
        if failed is not None:
            self._metrics.record_failures.inc(len(batch))
        for entry in batch:
            if not entry.ticket.done():
                entry.ticket.set_result(failed)

    # In the thread

    def _run(self) -> None:
        while not self._closing:
            batch = self._take()
            if batch:
                self._commit(batch)
            self._tend()

    def _take(self) -> list[_Entry]:
        """What waits, or nothing once it is time to look after other things."""
        batch: list[_Entry] = []
        wait_s = self._wait_s()
        with contextlib.suppress(queue.Empty):
            while len(batch) < _MOST_IN_ONE:
                entry = self._queue.get_nowait() if batch else self._queue.get(timeout=wait_s)
                if entry is None:
                    self._closing = True
                    break
                batch.append(entry)
        return batch

    def _wait_s(self) -> float:
        if self._failing is not None or self.journal.spooled:
            return self._retry_s
        if self.journal.size <= self.journal.signed:
            return self._checkpoint_s
        return max(0.0, self._checkpoint_due_s - ambient.monotonic_s())

    def _commit(self, batch: Sequence[_Entry]) -> None:
        failed: RecordUnwritable | None = None
        started_s = ambient.monotonic_s()
        try:
            self.journal.commit([entry.record for entry in batch])
        except Exception as exc:  # noqa: BLE001 - a bug here must not end the thread, and all calls
            self._fails(exc)
            self._failed += len(batch)
            failed = self._unwritable()
        self._metrics.audit_commit_seconds.observe(ambient.monotonic_s() - started_s)
        self._metrics.audit_records.inc(0 if failed else len(batch))
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits
            self._loop.call_soon_threadsafe(self._told, batch, failed)

    def _fails(self, exc: Exception) -> None:
        why = _said(exc)
        if self._failing is None:
            self._since_s = ambient.wall_s()
            log.error("the audit cannot be written: %s. No call is answered until it can", why)
        self._failing = why

    def _tend(self) -> None:
        try:
            if self._failing is not None:
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
