"""How the ledger fares, in metrics."""

from __future__ import annotations

from gateway.accounting.metrics import Metrics


class LedgerWatch:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def up(self, up: bool) -> None:
        self._metrics.ledger_up.set(up)

    def waiting(self, entries: int) -> None:
        self._metrics.ledger_waiting.set(entries)

    def lost(self, entries: int) -> None:
        self._metrics.ledger_lost.inc(entries)

    def committed(self, entries: int) -> None:
        self._metrics.ledger_entries.inc(entries)
