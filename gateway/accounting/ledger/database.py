"""What the store needs of a database, and how databases fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

Value = str | int | float | None
Row = tuple[Value, ...]


class LedgerError(Exception):
    """The ledger cannot be opened. Says what is wrong with it and what to do."""


class LedgerDown(Exception):
    """An operation failed; the next one may work. What was to be written is not."""


class LedgerDatabase(Protocol):
    """One connection, used by one thread at a time. All of it raises LedgerDown."""

    serial_key: str  # how a column that numbers the rows is declared
    documents: str  # the elements of `commits.entries` as rows, in a FROM
    place: str  # of such a row, its number

    def element(self, at: int, kind: str) -> str:
        """Of such a row, one of its own elements."""
        ...

    @property
    def shared(self) -> bool:
        """Whether several processes may write to it."""
        ...

    def writing(self, lasting: bool = True) -> AbstractContextManager[None]:
        """A transaction. No other process writes meanwhile; it is undone when it raises. When it
        ends all see it, and what is `lasting` is on disk."""
        ...

    def read(self, sql: str, values: Sequence[Value] = ()) -> list[Row]: ...
    def write(self, sql: str, values: Sequence[Value] = ()) -> None: ...
    def write_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None: ...
    def has_table(self, name: str) -> bool: ...

    def follow(self, postgres: str) -> None:
        """Connect by this string from the next connection on, if it is a PostgreSQL."""
        ...

    def close(self) -> None: ...


def integer(value: Value) -> int:
    """Sums come as Decimal from one database and as None from empty tables."""
    return 0 if value is None else int(value)
