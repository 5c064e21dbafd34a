"""The ledger of the process: opened, joined to the budgets, and written until the end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from gateway.accounting.ledger.database import LedgerDown, LedgerError
from gateway.accounting.ledger.ledger import Ledger, LedgerThread
from gateway.accounting.ledger.opening import opened
from gateway.accounting.ledger.store import LedgerStore
from gateway.accounting.ledger_watch import LedgerWatch
from gateway.accounting.metrics import Metrics
from gateway.accounting.spill import SpillControl
from gateway.config import ConfigError, Settings
from gateway.core import ambient
from gateway.core.deadline import Clock
from gateway.core.tasks import running


def open_store(settings: Settings) -> LedgerStore:
    """Raises ConfigError."""
    dsn = settings.ledger.postgres
    try:
        return opened(settings.ledger_path, dsn.get_secret_value() if dsn else None, ambient.wall_s)
    except LedgerError as exc:
        raise ConfigError(f"ledger: {exc}") from None


def new_ledger(
    store: LedgerStore, settings: Settings, spill: SpillControl, metrics: Metrics, clock: Clock
) -> Ledger:
    """What spills spend is on record in it, and its leases bound what they may spend."""
    budgets = spill.budgets
    ledger = Ledger(
        store, budgets.limits, budgets, LedgerWatch(metrics), clock,
        LedgerThread(), settings.limits.max_latency_budget_ms / 1000, settings.ledger.keep_days,
    )  # fmt: skip
    spill.leases = ledger.leases
    return ledger


@contextlib.asynccontextmanager
async def written(ledger: Ledger) -> AsyncIterator[None]:
    """Raises ConfigError where it cannot be."""
    try:
        await ledger.start()
    except LedgerDown as down:
        raise ConfigError(f"ledger: {down}") from None
    try:
        async with running(ledger.run(), "ledger"):
            yield
    finally:
        await ledger.aclose()
