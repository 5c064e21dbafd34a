"""What operators see of a journal."""

from __future__ import annotations

import logging

from gateway.accounting.audit.journal.journal import Journal
from gateway.accounting.metrics import Metrics

log = logging.getLogger(__name__)


class JournalGauges:
    def __init__(self, journal: Journal, metrics: Metrics) -> None:
        self._journal = journal
        self._metrics = metrics
        self._spooled = False

    def publish(self, failing: bool) -> None:
        metrics, journal = self._metrics, self._journal
        metrics.audit_failing.set(failing)
        metrics.audit_spooled.set(journal.spooled)
        metrics.audit_size.set(journal.size)
        metrics.audit_signed.set(journal.signed)

    def report_spool(self) -> None:
        """Log that records go into the spool, and that they do no longer."""
        before, self._spooled = self._spooled, bool(self._journal.spooled)
        if self._spooled and not before:
            # guard: B4.spool-alarm
            log.error("the audit's disk takes no records; they go into the spool")
        elif before and not self._spooled:
            log.warning("the audit is on its own disk again, with all that was spooled")
