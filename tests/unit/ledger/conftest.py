"""Each test that asks for `place` runs twice: over SQLite and over a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.accounting.ledger.database import LedgerDatabase
from gateway.accounting.ledger.opening import opened, to_read
from gateway.accounting.ledger.store import LedgerStore
from tests.unit.ledger import postgres_server
from tests.unit.ledger.entries import WallClock


@dataclass(frozen=True, slots=True)
class Where:
    """Where one ledger is, as settings say it."""

    path: Path
    dsn: str | None
    clock: WallClock

    def store(self) -> LedgerStore:
        return opened(self.path, self.dsn, self.clock)

    def database(self) -> LedgerDatabase:
        return to_read(self.path, self.dsn)


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Server]:
    if why := postgres_server.missing():
        pytest.skip(why)
    with postgres_server.running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    dsn = None
    if request.param == "postgres":
        dsn = request.getfixturevalue("postgres").fresh()
    return Where(tmp_path / "ledger.db", dsn, WallClock())
