"""Questions to the ledger, from a command and from the operator's route alike."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway.accounting.ledger.opening import to_read
from gateway.accounting.ledger.report import (
    GpuPrice,
    ReportQuery,
    Saved,
    SpendReport,
    as_json,
    report,
)
from gateway.config import Settings
from gateway.core import ambient


class LedgerReader:
    def __init__(self, path: Path, postgres: str | None, prices: Mapping[str, GpuPrice]) -> None:
        self._path, self._postgres, self._prices = path, postgres, prices

    @classmethod
    def from_settings(cls, settings: Settings) -> LedgerReader:
        dsn = settings.ledger.postgres
        return cls(
            settings.ledger_path, dsn.get_secret_value() if dsn else None, _gpu_prices(settings)
        )

    def report(self, question: ReportQuery) -> SpendReport:
        """Blocking. Raises BadQuestion, LedgerError or LedgerDown."""
        database = to_read(self._path, self._postgres)
        try:
            return report(database, question, self._prices, ambient.wall_s())
        finally:
            database.close()

    async def saved_today(self) -> Saved:
        """What the clear calls that on-prem servers answered today (UTC) saved. Raises LedgerError
        or LedgerDown."""
        today = datetime.fromtimestamp(ambient.wall_s(), UTC).date()
        question = ReportQuery(first=today, last=today)
        return (await asyncio.to_thread(self.report, question)).saved

    async def document(self, question: ReportQuery) -> dict[str, Any]:
        """The report as JSON values, read beside the loop."""
        return as_json(await asyncio.to_thread(self.report, question))


def _gpu_prices(settings: Settings) -> dict[str, GpuPrice]:
    """Of the on-prem endpoints, by the calendar: in use or not."""
    hour_usd = settings.costs.gpu_hour_usd
    return {
        name: GpuPrice(e.gpus, hour_usd if e.gpu_usd_per_hour is None else e.gpu_usd_per_hour)
        for name, e in settings.endpoints.items()
        if e.zone.onprem
    }
