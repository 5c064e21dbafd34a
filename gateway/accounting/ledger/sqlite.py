"""The ledger in a file of SQLite: the default, for one machine.

Write-ahead logging, so that reports do not stop the writer; `synchronous = FULL`, so that what was
committed survives a power cut too. Every commit is a group of many entries, so it costs little.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gateway.accounting.ledger.database import LedgerDown, LedgerError, Row, Value

_BUSY_MS = 5000  # for another process that writes


class SqliteDatabase:
    serial_key = "INTEGER PRIMARY KEY AUTOINCREMENT"
    documents = "json_each(commits.entries) AS found"
    place = "found.key"

    def __init__(self, path: Path | None, read_only: bool = False) -> None:
        """`path` None: in memory, for as long as this object lives. Raises LedgerError."""
        self._where = ":memory:" if path is None else str(path)
        try:
            if path is not None and not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = self._opened(path, read_only)
            state = "ok" if read_only else self._checked()
        except OSError as exc:
            raise LedgerError(f"the ledger {path} cannot be opened: {exc.strerror}") from None
        except sqlite3.DatabaseError as exc:
            raise _unusable(path, exc) from None
        if state != "ok":  # guard: B3.damaged-ledger
            raise _damaged(path, state)

    def element(self, at: int, kind: str) -> str:
        return f"json_extract(found.value, '$[{at}]')"

    @property
    def shared(self) -> bool:
        """Not where the file system has no memory that processes share: one of the network."""
        return self.read("PRAGMA journal_mode")[0][0] == "wal"

    def _checked(self) -> str:
        return str(self._connection.execute("PRAGMA quick_check(1)").fetchone()[0])

    def _opened(self, path: Path | None, read_only: bool) -> sqlite3.Connection:
        where = f"{path.absolute().as_uri()}?mode=ro" if path and read_only else self._where
        connection = sqlite3.connect(
            where,
            uri=where.startswith("file:"),
            isolation_level=None,
            check_same_thread=False,  # one thread at a time, which need not be the same
            timeout=_BUSY_MS / 1000,
        )
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL")
        return connection

    @contextmanager
    def writing(self, lasting: bool = True) -> Iterator[None]:
        self.write(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")
        self.write("BEGIN IMMEDIATE")
        try:
            yield
            self.write("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self.write("ROLLBACK")
            raise

    def read(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        with _translated():
            return list(self._connection.execute(sql, values))

    def write(self, sql: str, values: Sequence[Value] = ()) -> None:
        with _translated():
            self._connection.execute(sql, values)

    def write_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        with _translated():
            self._connection.executemany(sql, rows)

    def has_table(self, name: str) -> bool:
        tables = self.read("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [name])
        return bool(tables)

    def follow(self, postgres: str) -> None:
        """A file has no password."""

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise LedgerDown(f"SQLite: {exc}") from None


def _unusable(path: Path | None, exc: sqlite3.DatabaseError) -> LedgerError:
    if isinstance(exc, sqlite3.OperationalError):
        return LedgerError(f"the ledger {path} cannot be opened: {exc}")
    return _damaged(path, str(exc))


def _damaged(path: Path | None, state: str) -> LedgerError:
    return LedgerError(
        f"the ledger {path} is damaged ({' '.join(state.split())}): put its last good copy in its "
        "place, or move it away to begin a new one; budgets then begin at nothing spent"
    )
