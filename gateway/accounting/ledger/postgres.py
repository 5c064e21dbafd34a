"""The ledger in PostgreSQL: for gateways on several machines, which then share their budgets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from gateway.accounting.ledger.database import LedgerDown, LedgerError, Row, Value
from gateway.accounting.ledger.watchdog import AnswerWatchdog

_CONNECT_S = 3
_STATEMENT_MS = 3500
_LOCK = 0x5B111A
"""Of all writers of one database, in the place of SQLite's one writer: leases are granted after all
that was granted before has been seen."""


class PostgresDatabase:
    serial_key = "BIGSERIAL PRIMARY KEY"
    documents = (
        "jsonb_array_elements(commits.entries::jsonb) WITH ORDINALITY AS found (value, place)"
    )
    place = "found.place"
    shared = True

    def __init__(self, dsn: str) -> None:
        """Raises LedgerError, which does not repeat `dsn`: it may hold a password."""
        try:
            import psycopg  # comes with an extra, and most gateways never need it
        except ImportError:
            raise LedgerError(
                "ledger.postgres needs a driver: pip install 'spillway-gateway[postgres]'"
            ) from None
        self._driver: Any = psycopg
        self._dsn = dsn
        self._watchdog = AnswerWatchdog()
        try:
            self._connection = self._connected()
        except psycopg.ProgrammingError:  # its words quote what it was given
            self._watchdog.close()
            raise LedgerError(
                "ledger.postgres is not a connection string of PostgreSQL, such as "
                "postgresql://user@host/database"
            ) from None
        except psycopg.Error as exc:
            self._watchdog.close()
            raise LedgerError(
                f"the ledger's PostgreSQL cannot be reached ({_error_text(exc)}): "
                "see ledger.postgres"
            ) from None

    def _connected(self) -> Any:
        """The server ends a statement that takes too long; the watchdog ends the connection to a
        server that does not answer at all."""
        connection = self._driver.connect(
            self._dsn,
            autocommit=True,
            connect_timeout=_CONNECT_S,
            application_name="spillway",
            options=f"-c statement_timeout={_STATEMENT_MS} -c lock_timeout={_STATEMENT_MS}",
        )
        self._watchdog.follow(connection.fileno())
        return connection

    def element(self, at: int, kind: str) -> str:
        return f"(found.value ->> {at})::{kind}"

    @contextmanager
    def writing(self, lasting: bool = True) -> Iterator[None]:
        self._mend()
        self.write("BEGIN")
        try:
            self.write(f"SET LOCAL synchronous_commit = {'on' if lasting else 'off'}")
            self.read("SELECT pg_advisory_xact_lock(?)", [_LOCK])
            yield
            self.write("COMMIT")
        except BaseException:
            with suppress(LedgerDown):
                self.write("ROLLBACK")
            raise

    def _mend(self) -> None:
        """A connection that broke is replaced before the next transaction."""
        if self._connection.closed or self._connection.broken:
            self._connection.close()
            with self._translated():
                self._connection = self._connected()

    def read(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        with self._translated():
            rows: list[Row] = self._connection.execute(_marked(sql), values).fetchall()
            return rows

    def write(self, sql: str, values: Sequence[Value] = ()) -> None:
        with self._translated():
            self._connection.execute(_marked(sql), values)

    def write_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        with self._translated(), self._connection.cursor() as cursor:
            cursor.executemany(_marked(sql), rows)

    def has_table(self, name: str) -> bool:
        return self.read("SELECT to_regclass(?)::text", [name])[0][0] is not None

    def follow(self, postgres: str) -> None:
        self._dsn = postgres

    def close(self) -> None:
        self._watchdog.close()
        self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with self._watchdog:
                yield
        except self._driver.Error as exc:
            if self._watchdog.timed_out:
                raise LedgerDown(
                    f"PostgreSQL: no answer for {self._watchdog.answer_s:g} s"
                ) from None
            raise LedgerDown(f"PostgreSQL: {_error_text(exc)}") from None


def _marked(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()


def _error_text(exc: Exception) -> str:
    return str(exc).strip().partition("\n")[0]
