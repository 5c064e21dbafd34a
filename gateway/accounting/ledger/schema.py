"""The tables, and how those of older versions become today's.

A version is a list of statements that is never changed once it was released; what changes comes as
one more. `{serial}` numbers the rows; `{elements}` are the fields of entries that are read out of
`{documents}`, and `{place}` their order.
"""

from __future__ import annotations

from gateway.accounting.ledger.database import LedgerDatabase, LedgerError, integer
from gateway.accounting.ledger.entry import COLUMNS

_ENTRIES = (
    """CREATE TABLE entries (
        id {serial},
        at_s DOUBLE PRECISION NOT NULL,
        owner TEXT NOT NULL,
        call TEXT NOT NULL,
        tenant TEXT NOT NULL,
        model TEXT NOT NULL,
        endpoint TEXT NOT NULL,
        zone TEXT NOT NULL,
        reason TEXT NOT NULL,
        result TEXT NOT NULL,
        restricted INTEGER NOT NULL,
        nano_usd BIGINT NOT NULL,
        input_tokens BIGINT NOT NULL,
        output_tokens BIGINT NOT NULL,
        cached_tokens BIGINT NOT NULL,
        moved_bytes BIGINT NOT NULL,
        gpu_ns BIGINT NOT NULL,
        cloud_nano_usd BIGINT,
        estimated INTEGER NOT NULL
    )""",
    "CREATE INDEX entries_by_time ON entries (at_s)",
    # Sums of entries, so that a report of a year reads some thousand rows and not some million.
    """CREATE TABLE days (
        day TEXT NOT NULL,
        tenant TEXT NOT NULL,
        model TEXT NOT NULL,
        endpoint TEXT NOT NULL,
        zone TEXT NOT NULL,
        reason TEXT NOT NULL,
        restricted INTEGER NOT NULL,
        attempts BIGINT NOT NULL,
        served BIGINT NOT NULL,
        nano_usd BIGINT NOT NULL,
        unserved_nano_usd BIGINT NOT NULL,
        estimated BIGINT NOT NULL,
        tokens BIGINT NOT NULL,
        moved_bytes BIGINT NOT NULL,
        gpu_ns BIGINT NOT NULL,
        compared BIGINT NOT NULL,
        compared_nano_usd BIGINT NOT NULL,
        compared_gpu_ns BIGINT NOT NULL,
        cloud_nano_usd BIGINT NOT NULL,
        PRIMARY KEY (day, tenant, model, endpoint, zone, reason, restricted)
    )""",
)
_BUDGETS = (
    # What was spent in the cloud: kind is step (of 15 minutes), month or total.
    """CREATE TABLE spent (
        scope TEXT NOT NULL,
        kind TEXT NOT NULL,
        at BIGINT NOT NULL,
        nano_usd BIGINT NOT NULL,
        PRIMARY KEY (scope, kind, at)
    )""",
    # What one process may spend of a budget without asking again.
    """CREATE TABLE leases (
        owner TEXT NOT NULL,
        scope TEXT NOT NULL,
        nano_usd BIGINT NOT NULL,
        expires_s DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (scope, owner)
    )""",
    # The last group of entries of each process: sent again, as after a connection that broke in
    # the middle of a commit, a group counts once.
    "CREATE TABLE batches (owner TEXT NOT NULL PRIMARY KEY, number BIGINT NOT NULL)",
)
_COMMITS = (
    # What one process wrote at once, in one quarter of an hour: the fields of its entries as JSON,
    # and what they spent in the cloud, by tenant. `entries` has what older versions wrote.
    """CREATE TABLE commits (
        id {serial},
        at_s DOUBLE PRECISION NOT NULL,
        owner TEXT NOT NULL,
        spent TEXT NOT NULL,
        entries TEXT NOT NULL
    )""",
    "CREATE INDEX commits_by_time ON commits (at_s)",
    # Single entries of both, for people and for tests.
    f"""CREATE VIEW attempts AS
        SELECT id, 0 AS place, owner, {", ".join(COLUMNS)} FROM entries
        UNION ALL SELECT commits.id, {{place}}, commits.owner, {{elements}}
        FROM commits, {{documents}}""",
)
VERSIONS: tuple[tuple[str, ...], ...] = (_ENTRIES, _BUDGETS, _COMMITS)
NEWEST = len(VERSIONS)


def schema_version(database: LedgerDatabase) -> int:
    if not database.has_table("ledger_version"):
        return 0
    return integer(database.read("SELECT MAX(version) FROM ledger_version")[0][0])


def check(database: LedgerDatabase) -> None:
    """Raises LedgerError unless reports can be read from it."""
    version = schema_version(database)
    if version < NEWEST:
        raise LedgerError(
            "the ledger is empty, or of an older version: start `spillway serve` on it once"
        )
    _refuse_newer(version)


def check_not_newer(database: LedgerDatabase) -> None:
    """Raises LedgerError for a ledger that a newer version has written."""
    _refuse_newer(schema_version(database))


def migrate(database: LedgerDatabase, upto: int = NEWEST) -> None:
    """Each version in a transaction of its own. Raises LedgerError for one that is newer."""
    with database.writing():
        database.write(
            "CREATE TABLE IF NOT EXISTS ledger_version (version INTEGER NOT NULL PRIMARY KEY)"
        )
    _refuse_newer(schema_version(database))
    for version in range(1, upto + 1):
        with database.writing():
            if schema_version(database) >= version:  # by another process, meanwhile
                continue
            columns = _schema_columns(database)
            for statement in VERSIONS[version - 1]:
                database.write(statement.format_map(columns))
            database.write("INSERT INTO ledger_version VALUES (?)", [version])


def _schema_columns(database: LedgerDatabase) -> dict[str, str]:
    elements = [
        database.element(at, kind) + f" AS {name}"
        for at, (name, kind) in enumerate(COLUMNS.items())
    ]
    return {
        "serial": database.serial_key,
        "elements": ", ".join(elements),
        "documents": database.documents,
        "place": database.place,
    }


def _refuse_newer(version: int) -> None:
    if version > NEWEST:
        raise LedgerError(
            f"the ledger is of version {version} and this gateway knows {NEWEST}: run the newer "
            "gateway, or name another ledger"
        )
