"""Which database the ledger is in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gateway.accounting.ledger import owner, schema
from gateway.accounting.ledger.database import LedgerDatabase, LedgerDown, LedgerError
from gateway.accounting.ledger.postgres import PostgresDatabase
from gateway.accounting.ledger.sqlite import SqliteDatabase
from gateway.accounting.ledger.store import LedgerStore


def opened(path: Path, postgres: str | None, wall_s: Callable[[], float]) -> LedgerStore:
    """To write to. Raises LedgerError."""
    try:
        return LedgerStore(_database(path, postgres), owner.this_process(), wall_s)
    except LedgerDown as down:
        raise LedgerError(f"the ledger cannot be opened: {down}") from None


def to_read(path: Path, postgres: str | None) -> LedgerDatabase:
    """For reports, of a ledger that is there. Raises LedgerError."""
    if postgres is None and not path.exists():
        raise LedgerError(
            f"there is no ledger {path}: it is written by `spillway serve`; --config names the "
            "settings that say where"
        )
    database = _database(path, postgres, read_only=True)
    try:
        schema.check(database)
    except LedgerDown as down:
        database.close()
        raise LedgerError(f"the ledger cannot be read: {down}") from None
    except LedgerError:
        database.close()
        raise
    return database


def reachable(path: Path, postgres: str | None) -> None:
    """Whether a gateway could open it; nothing is written, and no file is made. Raises LedgerError
    or LedgerDown."""
    if postgres is None and not path.exists():
        return
    database = _database(path, postgres, read_only=True)
    try:
        schema.check_not_newer(database)
    finally:
        database.close()


def _database(path: Path, postgres: str | None, read_only: bool = False) -> LedgerDatabase:
    if postgres is None:
        return SqliteDatabase(path, read_only)
    return PostgresDatabase(postgres)
