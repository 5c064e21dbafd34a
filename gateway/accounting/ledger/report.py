"""What was spent, what that saved, and whether another GPU would pay for itself.

Read from the sums by day, so that a year of calls takes no longer than a day of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from gateway.accounting.ledger.database import LedgerDatabase, Row, integer
from gateway.accounting.pricing import usd
from gateway.core.types import endpoint_name

BY = ("tenant", "model", "zone", "endpoint", "reason", "day")
"""What spend can be shown by; columns of `days`."""

CAPACITY_REASONS = ("spill_deadline", "spill_queue", "spill_slow", "spill_rule")
"""Reasons for which a call left that one more GPU might have kept."""

_HOURS_A_MONTH = 365.25 * 24 / 12
_HOUR_NS = 3600 * 1_000_000_000
_ONPREM = "(zone = 'onprem' OR substr(zone, 1, 7) = 'onprem-')"  # as `is_onprem` says


class BadQuestion(ValueError):
    """What was asked for makes no sense. Says why."""


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """Both days belong to it. None: from the first, up to today."""

    by: str = "tenant"
    first: date | None = None
    last: date | None = None
    tenant: str | None = None

    @classmethod
    def from_arguments(
        cls, by: str | None, first: str | None, last: str | None, tenant: str | None
    ) -> ReportQuery:
        """In a person's words. Raises BadQuestion."""
        if by is not None and by not in BY:
            raise BadQuestion(f"by: no {by!r}; there are: {', '.join(BY)}")
        question = cls(by or "tenant", _day("from", first), _day("to", last), tenant)
        if question.first and question.last and question.first > question.last:
            raise BadQuestion(
                f"from {question.first} to {question.last} is no day at all; swap them"
            )
        return question


@dataclass(frozen=True, slots=True)
class SpendGroup:
    """All attempts that share what is reported by. Money in nano-dollars."""

    name: str
    attempts: int
    served: int
    onprem: int
    cloud: int
    unserved: int  # of both: what failed, was cancelled, or lost to another attempt
    tokens: int
    estimated: int  # attempts whose tokens nobody counted

    @property
    def spent(self) -> int:
        return self.onprem + self.cloud


@dataclass(frozen=True, slots=True)
class Saved:
    """Clear calls that were answered on the premises, against the same in the cloud."""

    calls: int  # that the cloud has a price for
    not_compared: int  # that it has none for
    cost: int
    in_the_cloud: int

    @property
    def nano_usd(self) -> int:
        return self.in_the_cloud - self.cost


@dataclass(frozen=True, slots=True)
class Gpu:
    """One on-prem endpoint with all of its GPUs."""

    endpoint: str
    busy_h: float
    hour_usd: float  # of all of them, in use or not
    utilisation: float
    replaces_usd_per_busy_h: float | None  # what its clear calls would have cost in the cloud

    @property
    def break_even(self) -> float | None:
        """The share of the time that it has to be busy to cost no more than the cloud."""
        worth = self.replaces_usd_per_busy_h
        return self.hour_usd / worth if worth else None


@dataclass(frozen=True, slots=True)
class Another:
    """One more GPU, were it busy with calls that left for want of room."""

    spilled: int  # calls
    spilled_month_usd: float
    gpu_month_usd: float
    needs: float | None  # GPUs for as many calls, evenly spread; None: nobody knows

    @property
    def saves_month_usd(self) -> float:
        """At most: what leaves in bursts does not fit into one GPU."""
        return self.spilled_month_usd / max(1.0, self.needs or 1.0)

    @property
    def pays(self) -> bool:
        return self.saves_month_usd > self.gpu_month_usd


@dataclass(frozen=True, slots=True)
class SpendReport:
    question: ReportQuery
    first: date
    last: date
    groups: tuple[SpendGroup, ...]
    saved: Saved
    gpus: tuple[Gpu, ...]
    another: Another | None

    @property
    def whole(self) -> SpendGroup:
        """All groups together."""
        sums = [0] * 7
        for g in self.groups:
            figures = (g.attempts, g.served, g.onprem, g.cloud, g.unserved, g.tokens, g.estimated)
            sums = [a + b for a, b in zip(sums, figures, strict=True)]
        return SpendGroup("all", *sums)


@dataclass(frozen=True, slots=True)
class GpuPrice:
    gpus: int
    each_usd_per_h: float


def report(
    database: LedgerDatabase, question: ReportQuery, prices: Mapping[str, GpuPrice], now_s: float
) -> SpendReport:
    """`prices`: of the on-prem endpoints. Raises BadQuestion, or LedgerDown."""
    where, values = _where(question)
    ends = database.read(f"SELECT MIN(day), MAX(day), COUNT(*) FROM days{where}", values)[0]
    if not ends[2]:
        raise BadQuestion(_why_empty(database, question))
    today = datetime.fromtimestamp(now_s, UTC).date()
    first = question.first or date.fromisoformat(str(ends[0]))
    last = min(question.last or today, max(today, date.fromisoformat(str(ends[1]))))
    hours = _hours(database, first, last, now_s)
    rows: dict[str, list[Row]] = {}  # of all places of an endpoint
    for row in database.read(
        "SELECT endpoint, SUM(gpu_ns), SUM(compared_gpu_ns), SUM(cloud_nano_usd) FROM days"
        f"{where} AND {_ONPREM} GROUP BY endpoint ORDER BY endpoint",
        values,
    ):
        rows.setdefault(endpoint_name(str(row[0])), []).append(row)
    gpus = tuple(_gpu(name, its, prices, hours) for name, its in sorted(rows.items()))
    return SpendReport(
        question, first, last, _groups(database, question), _saved(database, where, values), gpus,
        None if question.tenant else _another(database, where, values, prices, hours),
    )  # fmt: skip


def as_json(report: SpendReport) -> dict[str, Any]:
    """Money in US dollars, as numbers that are exact to the nano-dollar where they are sums."""
    another = report.another
    return {
        "by": report.question.by,
        "from": report.first.isoformat(),
        "to": report.last.isoformat(),
        "tenant": report.question.tenant,
        "groups": [_group_json(g) for g in report.groups],
        "all": _group_json(report.whole),
        "saved": {
            "usd": usd(report.saved.nano_usd),
            "calls": report.saved.calls,
            "calls_without_cloud_price": report.saved.not_compared,
            "onprem_usd": usd(report.saved.cost),
            "cloud_usd": usd(report.saved.in_the_cloud),
        },
        "gpus": [
            {
                "endpoint": g.endpoint,
                "busy_h": round(g.busy_h, 6),
                "usd_per_h": g.hour_usd,
                "utilisation": round(g.utilisation, 6),
                "break_even_utilisation": None if g.break_even is None else round(g.break_even, 6),
            }
            for g in report.gpus
        ],
        "another_gpu": None
        if another is None
        else {
            "spilled_calls": another.spilled,
            "spilled_usd_per_month": round(another.spilled_month_usd, 6),
            "gpu_usd_per_month": round(another.gpu_month_usd, 6),
            "gpus_needed": None if another.needs is None else round(another.needs, 6),
            "saves_usd_per_month_at_most": round(another.saves_month_usd, 6),
            "pays": another.pays,
        },
    }


def _group_json(g: SpendGroup) -> dict[str, Any]:
    return {
        "name": g.name,
        "attempts": g.attempts,
        "served": g.served,
        "usd": usd(g.spent),
        "onprem_usd": usd(g.onprem),
        "cloud_usd": usd(g.cloud),
        "unserved_usd": usd(g.unserved),
        "tokens": g.tokens,
        "estimated": g.estimated,
    }


def _where(question: ReportQuery) -> tuple[str, list[str]]:
    filters = (
        ("day >= ?", question.first and question.first.isoformat()),
        ("day <= ?", question.last and question.last.isoformat()),
        ("tenant = ?", question.tenant),
    )
    given = [(sql, value) for sql, value in filters if value]
    return " WHERE " + " AND ".join(["1 = 1", *(s for s, _ in given)]), [v for _, v in given]


def _why_empty(database: LedgerDatabase, question: ReportQuery) -> str:
    if not database.read("SELECT 1 FROM days LIMIT 1"):
        return "the ledger is empty: no call has ended yet since it was begun"
    tenants = [question.tenant] if question.tenant else []
    if tenants and not database.read("SELECT 1 FROM days WHERE tenant = ? LIMIT 1", tenants):
        known = database.read("SELECT DISTINCT tenant FROM days ORDER BY tenant LIMIT 10")
        return f"no tenant {question.tenant!r} in the ledger; there are: " + ", ".join(
            str(name) for (name,) in known
        )
    ends = database.read("SELECT MIN(day), MAX(day) FROM days")[0]
    return f"nothing in these days; the ledger has {ends[0]} to {ends[1]}"


def _groups(database: LedgerDatabase, question: ReportQuery) -> tuple[SpendGroup, ...]:
    where, values = _where(question)
    by = question.by
    assert by in BY  # it goes into the statement
    rows = database.read(
        f"SELECT {by}, SUM(attempts), SUM(served),"
        f" SUM(CASE WHEN {_ONPREM} THEN nano_usd ELSE 0 END),"
        f" SUM(CASE WHEN {_ONPREM} THEN 0 ELSE nano_usd END),"
        f" SUM(unserved_nano_usd), SUM(tokens), SUM(estimated) FROM days{where} GROUP BY {by}",
        values,
    )
    groups = [SpendGroup(str(row[0]), *(integer(figure) for figure in row[1:])) for row in rows]
    if by == "day":
        return tuple(sorted(groups, key=lambda g: g.name))
    return tuple(sorted(groups, key=lambda g: (-g.spent, g.name)))


def _saved(database: LedgerDatabase, where: str, values: list[str]) -> Saved:
    row = database.read(
        "SELECT SUM(compared), SUM(served), SUM(compared_nano_usd), SUM(cloud_nano_usd)"
        f" FROM days{where} AND {_ONPREM} AND restricted = 0",
        values,
    )[0]
    compared, served, cost, in_the_cloud = map(integer, row)
    return Saved(compared, served - compared, cost, in_the_cloud)


def _gpu(endpoint: str, rows: Sequence[Row], prices: Mapping[str, GpuPrice], hours: float) -> Gpu:
    busy, compared, in_the_cloud = (sum(integer(row[at]) for row in rows) for at in (1, 2, 3))
    price = prices.get(endpoint, GpuPrice(1, 0.0))  # one that is not in the settings any more
    worth = usd(in_the_cloud) / (compared / _HOUR_NS) if compared else None
    busy_h = busy / _HOUR_NS
    return Gpu(endpoint, busy_h, price.gpus * price.each_usd_per_h, busy_h / hours, worth)


def _another(
    database: LedgerDatabase,
    where: str,
    values: list[str],
    prices: Mapping[str, GpuPrice],
    hours: float,
) -> Another | None:
    if not prices:
        return None
    marks = ", ".join("?" * len(CAPACITY_REASONS))
    left = database.read(
        f"SELECT model, SUM(served), SUM(nano_usd) FROM days{where} AND NOT {_ONPREM}"
        f" AND reason IN ({marks}) GROUP BY model",
        [*values, *CAPACITY_REASONS],
    )
    stayed = {
        str(model): integer(gpu_ns) / integer(served)
        for model, served, gpu_ns in database.read(
            f"SELECT model, SUM(served), SUM(gpu_ns) FROM days{where} AND {_ONPREM}"
            " GROUP BY model HAVING SUM(served) > 0",
            values,
        )
    }
    known = [(integer(served), stayed[str(m)]) for m, served, _ in left if str(m) in stayed]
    each_ns = sum(calls * ns for calls, ns in known)
    months = hours / _HOURS_A_MONTH
    return Another(
        spilled=sum(integer(served) for _, served, _ in left),
        spilled_month_usd=usd(sum(integer(cost) for _, _, cost in left)) / months,
        gpu_month_usd=min(p.each_usd_per_h for p in prices.values()) * _HOURS_A_MONTH,
        needs=each_ns / _HOUR_NS / hours if len(known) == len(left) and left else None,
    )


def _hours(database: LedgerDatabase, first: date, last: date, now_s: float) -> float:
    """Of the days that are asked for, those in which there was a ledger: from its first entry on,
    and until now."""
    firsts = database.read("SELECT MIN(at_s) FROM entries UNION ALL SELECT MIN(at_s) FROM commits")
    begun = min((float(at_s) for (at_s,) in firsts if at_s is not None), default=None)
    from_s, until_s = _midnight_s(first), min(now_s, _midnight_s(last + timedelta(days=1)))
    if begun is not None and database.read("SELECT MIN(day) FROM days")[0][0] == first.isoformat():
        from_s = max(from_s, begun)
    return max(until_s - from_s, 1.0) / 3600


def _midnight_s(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _day(name: str, text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadQuestion(f"{name}: {text!r} is no day; write it as 2026-11-30") from None
