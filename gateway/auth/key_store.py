"""The file of issued keys: SQLite, so that commands and gateways can have it open at once.

A key's record has its digest, never the key. Revoked and expired keys stay, as they are asked for
when one has been stolen. A change is on the disk when the command that made it returns.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
  id TEXT PRIMARY KEY,
  digest BLOB NOT NULL,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  scope TEXT NOT NULL,
  created REAL NOT NULL,
  expires REAL,
  revoked REAL,
  replaces TEXT
) STRICT
"""
_CHANGES = """
CREATE TABLE IF NOT EXISTS changes (
  number INTEGER PRIMARY KEY,
  at REAL NOT NULL,
  action TEXT NOT NULL,
  key TEXT NOT NULL,
  tenant TEXT NOT NULL,
  by TEXT NOT NULL
) STRICT
"""
_COLUMNS = "id, digest, tenant, name, scope, created, expires, revoked, replaces"
_BUSY_S = 5.0


class KeyStoreUnreadable(Exception):
    """The message says which file and what to do; it goes to the operator."""


class NoSuchKey(Exception):
    """There is no such key, or it is not in use any more."""


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """Times are seconds since 1970."""

    id: str
    digest: bytes
    tenant: str
    name: str  # what people call it
    scope: str  # ScopeSettings as JSON
    created: float
    expires: float | None = None
    revoked: float | None = None
    replaces: str | None = None  # the id of the key that it was rotated from

    def why_not(self, now_s: float) -> str | None:
        """Why it is not in use; None while it is."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now_s >= self.expires else None


@dataclass(frozen=True, slots=True)
class KeyChange:
    """What was done to a key; kept with the keys, so that gateways can put it into their audits."""

    number: int
    at_s: float  # since 1970
    action: str  # key_create, key_rotate or key_revoke
    key: str  # its id
    tenant: str
    by: str  # the user who ran the command


class KeyStore:
    """For commands: opens the file, makes it where there is none."""

    def __init__(self, path: Path, by: str = "") -> None:
        self._by = by
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            self._file = _connected(path, "rw", _BUSY_S)
            with _translated(path):
                self._file.execute(_SCHEMA)
                self._file.execute(_CHANGES)
        except OSError as exc:
            raise KeyStoreUnreadable(f"{path}: cannot be opened: {exc.strerror}") from None
        self._path = path

    def close(self) -> None:
        self._file.close()

    def add(self, record: KeyRecord) -> None:
        with self._change():
            self._insert(record)
            self._note("key_create", record.id, record.created)

    def all(self) -> list[KeyRecord]:
        """In the order in which they were made."""
        with _translated(self._path):
            return _read(self._file)

    def revoke(self, key_id: str, now_s: float) -> None:
        """Raises NoSuchKey."""
        with self._change():
            self._must_change(
                "UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL", now_s, key_id
            )
            self._note("key_revoke", key_id, now_s)  # guard: B7.key-history

    def rotate(self, key_id: str, record: KeyRecord, until_s: float) -> None:
        """The new key, and the end of the old one, in one step. Raises NoSuchKey."""
        with self._change():
            self._insert(record)
            self._must_change(
                "UPDATE keys SET expires = min(coalesce(expires, ?1), ?1) "
                "WHERE id = ?2 AND revoked IS NULL", until_s, key_id,
            )  # fmt: skip
            self._note("key_rotate", key_id, record.created)
            self._note("key_create", record.id, record.created)

    def _note(self, action: str, key_id: str, at_s: float) -> None:
        self._file.execute(
            "INSERT INTO changes (at, action, key, tenant, by) "
            "SELECT ?, ?, id, tenant, ? FROM keys WHERE id = ?",
            (at_s, action, self._by, key_id),
        )

    def _must_change(self, statement: str, *values: object) -> None:
        if self._file.execute(statement, values).rowcount != 1:
            raise NoSuchKey

    def _insert(self, r: KeyRecord) -> None:
        self._file.execute(
            f"INSERT INTO keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (r.id, r.digest, r.tenant, r.name, r.scope, r.created, r.expires, r.revoked,
             r.replaces),
        )  # fmt: skip

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        with _translated(self._path):
            self._file.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
            self._file.execute("COMMIT")


class KeyReader:
    """For a gateway: looks whether there is something new. Blocking; called in a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._in_use = threading.Lock()  # a look may go on while the gateway stops
        self._file: sqlite3.Connection | None = None
        self._version: tuple[int, int, int] | None = None  # device, inode, SQLite's data_version

    def changed(self) -> list[KeyRecord] | None:
        """All records; None when nothing has changed since the last look. Raises
        KeyStoreUnreadable."""
        with self._in_use:
            try:
                return self._read_changes()
            except KeyStoreUnreadable:
                self._close()
                raise

    def _read_changes(self) -> list[KeyRecord] | None:
        try:
            there = os.stat(self._path)
        except OSError as exc:
            raise KeyStoreUnreadable(
                f"{self._path}: cannot be read: {exc.strerror}; `spillway keys create` makes it"
            ) from None
        if self._version is not None and self._version[:2] != (there.st_dev, there.st_ino):
            # guard: B6.store-identity
            self._close()  # another file has taken its place
        with _translated(self._path):
            if self._file is None:
                self._file = _connected(self._path, "ro", 1.0)
            (version,) = self._file.execute("PRAGMA data_version").fetchone()
            stamp = there.st_dev, there.st_ino, version
            if stamp == self._version:
                return None
            records = _read(self._file)
        self._version = stamp
        return records

    def changes(self, since_s: float) -> list[KeyChange]:
        """Those since then, in their order; none where nothing has changed since the last look.
        Raises KeyStoreUnreadable."""
        with self._in_use:
            try:
                if self._read_changes() is None:
                    return []
                assert self._file is not None
                with _translated(self._path):
                    return _changes(self._file, since_s)
            except KeyStoreUnreadable:
                self._close()
                raise

    def close(self) -> None:
        with self._in_use:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._version = None


def _connected(path: Path, mode: str, busy_s: float) -> sqlite3.Connection:
    with _translated(path):
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=busy_s,
            isolation_level=None, check_same_thread=False,
        )  # fmt: skip


def _read(file: sqlite3.Connection) -> list[KeyRecord]:
    rows = file.execute(f"SELECT {_COLUMNS} FROM keys ORDER BY created, id").fetchall()
    return [KeyRecord(*row) for row in rows]


def _changes(file: sqlite3.Connection, since_s: float) -> list[KeyChange]:
    has_changes = file.execute("SELECT 1 FROM sqlite_master WHERE name = 'changes'").fetchone()
    if has_changes is None:  # no command of this version has opened it yet
        return []
    rows = file.execute(
        "SELECT number, at, action, key, tenant, by FROM changes WHERE at >= ? ORDER BY number",
        (since_s,),
    )
    return [KeyChange(*row) for row in rows]


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise KeyStoreUnreadable(f"{path}: is no file of keys that can be used: {exc}") from None
