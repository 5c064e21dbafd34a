"""A real PostgreSQL for the tests: a cluster in a temporary folder, on a Unix socket alone."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")
_ANOTHER = "nobody"
"""Who runs it where the tests run as root, which PostgreSQL refuses to be."""


def _programs() -> Path | None:
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    every = sorted(p for place in _PLACES for p in Path("/").glob(place.lstrip("/")))
    return next((p for p in reversed(every) if (p / "initdb").exists()), None)


def missing() -> str:
    """Why it cannot run here; empty when it can."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed: pip install 'spillway-gateway[postgres]'"
    return "" if _programs() else "there is no PostgreSQL here (initdb)"


class Server:
    def __init__(self, folder: Path) -> None:
        programs = _programs()
        assert programs is not None
        self._programs, self._data = programs, folder / "data"
        self._socket = folder / "socket"
        self._user = pwd.getpwnam(_ANOTHER) if os.geteuid() == 0 else None
        self._socket.mkdir()
        if self._user is not None:
            for path in (folder, self._socket):
                os.chown(path, self._user.pw_uid, self._user.pw_gid)
        self._run("initdb", "-D", str(self._data), "-U", "test", "-A", "trust", "--no-sync")
        self.start()

    @property
    def dsn(self) -> str:
        return f"host={self._socket} user=test dbname=postgres"

    def start(self) -> None:
        options = f"-c listen_addresses='' -k {self._socket} -c fsync=off -c max_connections=40"
        self._control("start", "-o", options, "-l", str(self._data / "log"))

    def stop(self) -> None:
        """At once, as a machine that dies."""
        self._control("stop", "-m", "immediate")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """As a host that is gone: nothing is closed, and nobody answers."""
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        stopped = [first]
        try:
            os.kill(first, signal.SIGSTOP)  # before its children are listed: it starts no more
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
            for child in map(int, children):
                with suppress(ProcessLookupError):  # one may end by itself
                    os.kill(child, signal.SIGSTOP)
                    stopped.append(child)
            yield
        finally:
            for process in stopped:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def fresh(self) -> str:
        """A database of its own for one test."""
        import psycopg  # of an extra

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            row = connection.execute("SELECT count(*) FROM pg_database").fetchone()
            name = f"ledger{row[0] if row else 0}"
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.dsn.replace("dbname=postgres", f"dbname={name}")

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-s", *words)

    def _run(self, program: str, *words: str) -> None:
        command: Sequence[str] = (str(self._programs / program), *words)
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, timeout=60, cwd="/",
            user=None if self._user is None else self._user.pw_uid,
            group=None if self._user is None else self._user.pw_gid,
        )  # fmt: skip


@contextmanager
def running() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = Server(Path(folder))
        try:
            yield server
        finally:
            server.stop()
