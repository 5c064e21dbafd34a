"""A disk that takes no records: since when, how many are missing, and when it counts as well."""

from __future__ import annotations

import logging
import math
from typing import Any

from gateway.accounting.metrics import Metrics
from gateway.accounting.records import RecordUnwritable
from gateway.core import ambient

log = logging.getLogger(__name__)

_LONGEST_RETRY = 64  # times the retry: how long a disk that fails again and again counts as failing
_RELAPSE = 120  # times that: failing again so soon doubles the wait


class DiskFailure:
    def __init__(self, metrics: Metrics, retry_s: float) -> None:
        self._metrics = metrics
        self._retry_s = retry_s
        self.why: str | None = None  # what the disk said last; None: it takes records
        self.dwell_s = retry_s  # for which it counts as failing at the least
        self._since_s = 0.0
        self._recovered_s = -math.inf
        self._lost = 0  # records that no gap record has told of

    def error(self) -> RecordUnwritable:
        why = self.why or "the disk does not keep up"
        return RecordUnwritable(f"the audit cannot be written: {why}", retry_after_s=1.0)

    def refused(self) -> RecordUnwritable:
        """A record that is not taken."""
        self._lost += 1
        return self.error()

    def fails(self, exc: Exception, records: int) -> None:
        """So many records are not durable."""
        self._lost += records
        self._metrics.record_failures.inc(records)
        why = error_text(exc)
        if self.why is None:
            self._since_s = ambient.wall_s()
            self.dwell_s = self._next_dwell_s()
            # guard: B4.disk-alarm
            log.error("the audit cannot be written: %s. No call is answered until it can", why)
        self.why = why
        self._metrics.audit_failing.set(True)

    def _next_dwell_s(self) -> float:
        """S1: a disk that fails now and then does not come and go with every try."""
        if ambient.monotonic_s() - self._recovered_s >= _RELAPSE * self._retry_s:
            return self._retry_s
        # guard: B4.retry-backoff -> return self._retry_s
        return min(2 * self.dwell_s, _LONGEST_RETRY * self._retry_s)

    def gap(self) -> dict[str, Any] | None:
        """The fields of the record that tells of it; None while the disk takes records."""
        if self.why is None:
            return None
        return {"since": round(self._since_s, 3), "records": self._lost, "why": self.why}

    def recovered(self, lost: int) -> None:
        """The gap of so many records is on record."""
        self._lost -= lost
        self.why = None
        self._recovered_s = ambient.monotonic_s()
        log.warning("the audit can be written again; %d records could not be kept", lost)


def error_text(exc: Exception) -> str:
    """Of a bug only what it is: its words could quote a record."""
    return (exc.strerror if isinstance(exc, OSError) else None) or type(exc).__name__
