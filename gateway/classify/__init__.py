"""Reading calls for personal data. The family here is `Scanner`: text in, findings out.

Everything fails local: what cannot be read, or is not read in time, is restricted (C1, C3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.core.types import Finding


class Scanner(Protocol):
    """Finds personal data in one text. The seam for a faster scanner and for names.

    A scanner runs in a worker process: it may block, and what it raises makes the call restricted.
    """

    def scan(self, text: str) -> list[Finding]: ...


Restricting = tuple[frozenset[str], float]
"""Entity types, and the score from which on a finding of one of them restricts."""


class Scans(Protocol):
    """Where scans run. `scan` answers with one list of findings per text, or raises a `NoScan`.

    A scan may stop at its first finding: of those that the scanner looks for, or, where only some
    of these restrict, of those that `restricts` does."""

    async def start(self) -> None: ...
    async def scan(
        self, texts: Sequence[str], budget_s: float, restricts: Restricting | None = None
    ) -> list[list[Finding]]: ...
    async def aclose(self) -> None: ...


class NoScan(Exception):
    """There is no finding to trust. `reason` is the reason code of the verdict; no content."""

    reason = "failed"


class ScanLate(NoScan):
    """The time budget passed first."""

    reason = "late"


class ScanFailed(NoScan):
    """The scanner raised, died, or answered nonsense."""


class ScannersBusy(NoScan):
    """Too many calls wait for a scan already."""

    reason = "busy"


class TooMany(NoScan):
    """More candidates than may be checked."""

    reason = "too_many"


class ScannerUnfit(Exception):
    """The scanner cannot be built, or misses a sample that it must find (C8). Stops start-up."""
