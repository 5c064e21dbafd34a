"""The ledger's tables, as one process writes them. Blocking: never called on the loop."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from gateway.accounting.ledger import schema
from gateway.accounting.ledger.database import LedgerDatabase, Row, Value, integer
from gateway.accounting.ledger.entry import Entry
from gateway.accounting.ledger.limits import (
    EVERYBODY,
    STEP_S,
    STEPS,
    BudgetLimits,
    SpentAmounts,
    day_text,
    month_at,
    step_at,
)
from gateway.core.types import is_onprem
from gateway.protocols import strictjson

_ADD_COMMIT = "INSERT INTO commits (at_s, owner, spent, entries) VALUES (?, ?, ?, ?)"
_SUMS = (
    "attempts", "served", "nano_usd", "unserved_nano_usd", "estimated", "tokens", "moved_bytes",
    "gpu_ns", "compared", "compared_nano_usd", "compared_gpu_ns", "cloud_nano_usd",
)  # fmt: skip
_KEYS = ("day", "tenant", "model", "endpoint", "zone", "reason", "restricted")
_ADD_TO_DAY = (
    f"INSERT INTO days ({', '.join((*_KEYS, *_SUMS))})"
    f" VALUES ({', '.join('?' * len((*_KEYS, *_SUMS)))})"
    f" ON CONFLICT ({', '.join(_KEYS)}) DO UPDATE SET "
    + ", ".join(f"{s} = days.{s} + excluded.{s}" for s in _SUMS)
)
_ADD_SPENT = """INSERT INTO spent (scope, kind, at, nano_usd) VALUES (?, ?, ?, ?)
    ON CONFLICT (scope, kind, at) DO UPDATE SET nano_usd = spent.nano_usd + excluded.nano_usd"""
_AT_S: Final = itemgetter(0)
_REPORTED_BY: Final = itemgetter(
    *map(Entry._fields.index, ("tenant", "model", "endpoint", "zone", "reason", "restricted"))
)
_Key = tuple[int, str, str, str, str, str, int]
_Groups = Mapping[_Key, Sequence[Entry]]
"""Entries by their quarter of an hour (`step_at`), and by whatever is reported by."""
_SHARE = 8
"""Of what is left, the part that one process leases at once: two that end up with a slice that they
do not need keep no more than this from each other, and give it back when they notice."""


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """Of one scope's budget, for one call."""

    scope: str
    limits: BudgetLimits
    nano_usd: int


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """This process's leases on what was asked for; and of each that asked whose budget is too
    small, or nothing."""

    leased: Mapping[str, int]
    short: Sequence[str]


@dataclass(frozen=True, slots=True)
class PriorSpend:
    """What was spent before this process began, or by others since."""

    last_id: int
    steps: Mapping[str, Mapping[int, int]]  # scope -> quarter of an hour -> nano-dollars
    month: Mapping[str, int]
    total: Mapping[str, int]


_FILLER: Final = "." * 1000
_FILLERS: Final = 64
"""Rows that show that there is room. They are leases of nothing, which are over."""


class LedgerStore:
    def __init__(self, database: LedgerDatabase, owner: str, wall_s: Callable[[], float]) -> None:
        """Raises LedgerError or LedgerDown."""
        self._database, self._owner, self._wall_s = database, owner, wall_s
        self.follow = database.follow
        schema.migrate(database)

    @property
    def shared(self) -> bool:
        """Whether what one process writes all others see, and in time."""
        return self._database.shared

    # Entries

    def commit(self, number: int, entries: Sequence[Entry]) -> Mapping[str, int]:
        """All of them or none; once, however often it is called with this number. By scope, what
        comes off this process's leases for them."""
        database, groups = self._database, _grouped(entries)
        spent = _spent(groups)
        with database.writing():
            if self._last_batch() >= number:  # guard: B3.idempotent-group
                return spent
            database.write_many(_ADD_COMMIT, self._rows(entries, groups))
            database.write_many(_ADD_TO_DAY, _days(groups))  # guard: B3.daily-sums
            self._spend(groups)
            self._lower_leases(spent)  # guard: B1.lease-spend
            database.write(
                "INSERT INTO batches (owner, number) VALUES (?, ?)"
                " ON CONFLICT (owner) DO UPDATE SET number = excluded.number",
                [self._owner, number],
            )
        return spent

    def _rows(self, entries: Sequence[Entry], groups: _Groups) -> list[Row]:
        """One for each quarter of an hour, mostly one: a document of all that was posted in it."""
        by_step: dict[int, dict[str, int]] = {}  # what was spent abroad, by tenant
        for (step, tenant, *_), some in groups.items():
            spent = by_step.setdefault(step, {})
            if nano_usd := _cloud_attempts(some):
                spent[tenant] = spent.get(tenant, 0) + nano_usd
        rows: list[Row] = []
        for step, spent in sorted(by_step.items()):
            its = entries if len(by_step) == 1 else [e for e in entries if _step(e) == step]
            document = strictjson.dumps(list(map(tuple, its)))
            blob = strictjson.dumps(spent)
            rows.append((min(map(_AT_S, its)), self._owner, blob.decode(), document.decode()))
        return rows

    def _last_batch(self) -> int:
        batches = self._database.read("SELECT number FROM batches WHERE owner = ?", [self._owner])
        return integer(batches[0][0]) if batches else 0

    def _spend(self, groups: _Groups) -> None:
        """From the leases to what is spent for good."""
        totals: dict[tuple[str, str, int], int] = defaultdict(int)
        for (step, tenant, *_), some in groups.items():
            if nano_usd := _cloud_attempts(some):
                month = month_at(step * STEP_S)
                for scope in (EVERYBODY, tenant):
                    totals[scope, "step", step] += nano_usd
                    totals[scope, "month", month] += nano_usd
                    totals[scope, "total", 0] += nano_usd
        rows = [(*key, nano_usd) for key, nano_usd in sorted(totals.items())]
        self._database.write_many(_ADD_SPENT, rows)

    # Budgets

    def lease(
        self, requests: Sequence[Sequence[LeaseRequest]], free: Mapping[str, int], for_s: float
    ) -> LeaseGrant:
        """Each that asks gets all that it wants or nothing; first from what this process holds and
        has `free`. A process that dies with its leases needs none: they are not forced to disk."""
        with self._database.writing(lasting=False):
            now_s = self._wall_s()
            sharing = _Sharing(free, functools.partial(self._left, now_s=now_s))
            short = [sharing.short(wanted) for wanted in requests]
            self._database.write_many(
                "INSERT INTO leases (owner, scope, nano_usd, expires_s) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (scope, owner) DO UPDATE SET nano_usd = excluded.nano_usd"
                " + CASE WHEN leases.expires_s < ? THEN 0 ELSE leases.nano_usd END,"
                " expires_s = excluded.expires_s",
                [
                    (self._owner, scope, some, now_s + for_s, now_s)
                    for scope, some in sorted(sharing.granted.items())
                ],
            )
            scopes = sorted({it.scope for wanted in requests for it in wanted})
            return LeaseGrant({scope: self._own_lease(scope, now_s) for scope in scopes}, short)

    def _left(self, wanted: LeaseRequest, now_s: float) -> int:
        # guard: B1.spent-sum -> left = SpentAmounts().left(wanted.limits)
        left = self._spent(wanted.scope, now_s).left(wanted.limits)
        assert left is not None, "who has no limits asks for nothing"
        return left - self._leased(wanted.scope, now_s)  # guard: B1.lease-sum -> return left

    def keep_leases(self, surplus: Mapping[str, int], for_s: float) -> Mapping[str, int]:
        """Give back what is not needed; the rest is held on to, and returned."""
        with self._database.writing(lasting=False):
            now_s = self._wall_s()
            self._database.write("DELETE FROM leases WHERE expires_s < ?", [now_s])
            self._lower_leases(surplus)
            self._database.write(
                "DELETE FROM leases WHERE owner = ? AND nano_usd = 0", [self._owner]
            )
            self._database.write(
                "UPDATE leases SET expires_s = ? WHERE owner = ?", [now_s + for_s, self._owner]
            )
            rows = self._database.read(
                "SELECT scope, nano_usd FROM leases WHERE owner = ?", [self._owner]
            )
            return {str(scope): integer(some) for scope, some in rows}

    def check_room(self) -> None:
        """Raises LedgerDown unless 64 KiB can be written: a page may have room for a lease that is
        renewed, and for no entry."""
        rows = [(self._owner, f"{at} {_FILLER}") for at in range(_FILLERS)]
        with self._database.writing():
            self._database.write_many(
                "INSERT INTO leases (owner, scope, nano_usd, expires_s) VALUES (?, ?, 0, 0)", rows
            )
        with self._database.writing(lasting=False):
            self._database.write(
                "DELETE FROM leases WHERE owner = ? AND expires_s = 0", [self._owner]
            )

    def drop_leases(self, owners: Iterable[str]) -> None:
        """Of processes that are gone, and what they had reserved with them."""
        with self._database.writing():
            for owner in owners:
                self._database.write("DELETE FROM leases WHERE owner = ?", [owner])
                self._database.write("DELETE FROM batches WHERE owner = ?", [owner])

    def owners(self) -> list[str]:
        """Of leases, this process excepted."""
        rows = self._database.read(
            "SELECT DISTINCT owner FROM leases WHERE owner <> ?", [self._owner]
        )
        return [str(owner) for (owner,) in rows]

    def already(self) -> PriorSpend:
        """What was spent by anybody, until now."""
        now_s = self._wall_s()
        with self._database.writing():  # so that the number and the sums are of one moment
            last = self._database.read("SELECT MAX(id) FROM commits")[0][0]
            rows = self._database.read(
                "SELECT scope, kind, at, nano_usd FROM spent WHERE kind = 'total'"
                " OR (kind = 'month' AND at = ?) OR (kind = 'step' AND at > ?)",
                [month_at(now_s), step_at(now_s) - STEPS],
            )
        steps: dict[str, dict[int, int]] = defaultdict(dict)
        sums: dict[str, dict[str, int]] = {"month": {}, "total": {}}
        for scope, kind, at, nano_usd in rows:
            if kind == "step":
                steps[str(scope)][integer(at)] = integer(nano_usd)
            else:
                sums[str(kind)][str(scope)] = integer(nano_usd)
        return PriorSpend(integer(last), steps, sums["month"], sums["total"])

    def others_since(self, last_id: int) -> tuple[int, Mapping[str, int]]:
        """By tenant, what other processes have committed after this entry; and the newest one."""
        rows = self._database.read(
            "SELECT id, CASE WHEN owner = ? THEN '{}' ELSE spent END FROM commits WHERE id > ?",
            [self._owner, last_id],
        )
        newest = max((integer(row[0]) for row in rows), default=last_id)
        spent: dict[str, int] = defaultdict(int)
        for _, amount in rows:
            for tenant, nano_usd in strictjson.loads(str(amount).encode()).items():
                spent[tenant] += nano_usd
        return newest, spent

    def forget(self, keep_days: int) -> None:
        """Single entries that are older; the sums of their days stay."""
        now_s = self._wall_s()
        until_s = now_s - keep_days * 86400
        with self._database.writing():
            self._database.write("DELETE FROM entries WHERE at_s < ?", [until_s])
            # what was written with the oldest of them is at most a quarter of an hour younger
            self._database.write("DELETE FROM commits WHERE at_s < ?", [until_s - STEP_S])
            self._database.write(
                "DELETE FROM spent WHERE kind = 'step' AND at < ?", [step_at(now_s) - 2 * STEPS]
            )

    def close(self) -> None:
        self._database.close()

    def _spent(self, scope: str, now_s: float) -> SpentAmounts:
        rows = self._database.read(
            "SELECT kind, SUM(nano_usd) FROM spent WHERE scope = ? AND (kind = 'total'"
            " OR (kind = 'month' AND at = ?) OR (kind = 'step' AND at > ?)) GROUP BY kind",
            [scope, month_at(now_s), step_at(now_s) - STEPS],
        )
        by_kind = {str(kind): integer(nano_usd) for kind, nano_usd in rows}
        return SpentAmounts(
            by_kind.get("step", 0), by_kind.get("month", 0), by_kind.get("total", 0)
        )

    def _leased(self, scope: str, now_s: float) -> int:
        # guard: B1.lease-expiry -> sql = 'SELECT SUM(nano_usd) FROM leases WHERE scope = ? AND
        #   expires_s >= ? - 1e9'
        sql = "SELECT SUM(nano_usd) FROM leases WHERE scope = ? AND expires_s >= ?"
        return integer(self._database.read(sql, [scope, now_s])[0][0])

    def _own_lease(self, scope: str, now_s: float) -> int:
        sql = "SELECT nano_usd FROM leases WHERE scope = ? AND owner = ? AND expires_s >= ?"
        leases = self._database.read(sql, [scope, self._owner, now_s])
        return integer(leases[0][0]) if leases else 0

    def _lower_leases(self, by: Mapping[str, int]) -> None:
        self._database.write_many(
            "UPDATE leases SET nano_usd = CASE WHEN nano_usd > ? THEN nano_usd - ? ELSE 0 END"
            " WHERE owner = ? AND scope = ?",
            [(nano_usd, nano_usd, self._owner, scope) for scope, nano_usd in sorted(by.items())],
        )


class _Sharing:
    """What is left of the budgets, while those who ask are given their parts of it."""

    def __init__(self, free: Mapping[str, int], left: Callable[[LeaseRequest], int]) -> None:
        self._free, self._ask_left = dict(free), left
        self._left: dict[str, int] = {}
        self.granted: dict[str, int] = defaultdict(int)

    def short(self, wanted: Sequence[LeaseRequest]) -> str:
        """The scope that has not got enough; empty, and all of it granted, when every one has."""
        grants: dict[str, int] = {}
        for it in wanted:
            lack = it.nano_usd - self._free.get(it.scope, 0)
            if lack <= 0:
                continue
            if it.scope not in self._left:
                self._left[it.scope] = self._ask_left(it)
            left = self._left[it.scope]
            if left < lack:
                return it.scope
            grants[it.scope] = max(lack, left // _SHARE)
        for scope, some in grants.items():
            self._left[scope] -= some
            self.granted[scope] += some
        for it in wanted:
            free = self._free.get(it.scope, 0) + grants.get(it.scope, 0)
            self._free[it.scope] = free - it.nano_usd
        return ""


def _grouped(entries: Iterable[Entry]) -> _Groups:
    groups: dict[_Key, list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[(_step(entry), *_REPORTED_BY(entry))].append(entry)
    return groups


def _step(entry: Entry) -> int:
    return int(entry[0] // STEP_S)


def _cloud_attempts(some: Sequence[Entry]) -> int:
    """What a group has spent in the cloud."""
    return sum(entry.nano_usd for entry in some) if not is_onprem(some[0].zone) else 0


def _spent(groups: _Groups) -> Mapping[str, int]:
    """By scope, all groups together."""
    totals: dict[str, int] = defaultdict(int)
    for (_, tenant, *_), some in groups.items():
        if nano_usd := _cloud_attempts(some):
            totals[EVERYBODY] += nano_usd
            totals[tenant] += nano_usd
    return totals


def _days(groups: _Groups) -> list[Sequence[Value]]:
    """Their sums; a row for each group, which the table adds to that of its day."""
    return [
        (day_text(key[0] * STEP_S), *key[1:], *_summed(some))
        for key, some in sorted(groups.items())
    ]


def _summed(some: Sequence[Entry]) -> Sequence[int]:
    """Of entries that are reported as one."""
    columns: dict[str, Sequence[Any]] = dict(
        zip(Entry._fields, zip(*some, strict=True), strict=True)
    )
    nano_usd, served = sum(columns["nano_usd"]), columns["result"].count("served")
    unserved = [e.nano_usd for e in some if e.result != "served"] if served < len(some) else ()
    alone = columns["cloud_nano_usd"].count(None)
    compared = [e for e in some if e.cloud_nano_usd is not None] if alone < len(some) else ()
    return (
        len(some),
        served,
        nano_usd,
        sum(unserved),
        sum(columns["estimated"]),
        sum(columns["input_tokens"]) + sum(columns["output_tokens"]),
        sum(columns["moved_bytes"]),
        sum(columns["gpu_ns"]),
        len(compared),
        sum(e.nano_usd for e in compared),
        sum(e.gpu_ns for e in compared),
        sum(e.cloud_nano_usd or 0 for e in compared),
    )
