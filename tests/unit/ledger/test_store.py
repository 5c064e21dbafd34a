"""What the ledger's tables promise, over SQLite and over PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.accounting.ledger import owner, schema
from gateway.accounting.ledger.database import LedgerDown, LedgerError, integer
from gateway.accounting.ledger.entry import Entry
from gateway.accounting.ledger.limits import EVERYBODY, BudgetLimits
from gateway.accounting.ledger.opening import opened, to_read
from gateway.accounting.ledger.sqlite import SqliteDatabase
from gateway.accounting.ledger.store import LeaseRequest, LedgerStore
from gateway.accounting.pricing import nano
from tests.unit.ledger.conftest import Where
from tests.unit.ledger.entries import DAY_S, NOON_S, WallClock, abroad, at_home
from tests.unit.ledger.postgres_server import Server

FOR_S = 60.0


Payer = tuple[str, BudgetLimits]


def leased(store: LedgerStore, usd: float, *payers: Payer) -> bool:
    return not short(store, usd, *payers)


def short(store: LedgerStore, usd: float, *payers: Payer) -> str:
    """Whose budget has not got it."""
    return store.lease([[LeaseRequest(*payer, nano(usd)) for payer in payers]], {}, FOR_S).short[0]


def everybody(**usd: float) -> Payer:
    return EVERYBODY, BudgetLimits.usd(**usd)


def sums(where: Where, table: str) -> tuple[int, int]:
    """Attempts and nano-dollars."""
    database = where.database()
    count = "COUNT(*)" if table == "attempts" else "SUM(attempts)"
    row = database.read(f"SELECT {count}, SUM(nano_usd) FROM {table}")[0]
    database.close()
    return integer(row[0]), integer(row[1])


def test_what_was_committed_is_there_after_a_restart(place: Where) -> None:
    store = place.store()
    store.commit(1, [abroad(0.25), at_home(0.5), abroad(0.125, result="upstream_failed")])
    store.close()
    again = place.store()
    assert again.already().total == {EVERYBODY: nano(0.375), "ward": nano(0.375)}
    again.close()
    assert sums(place, "attempts") == sums(place, "days") == (3, nano(0.875))


def test_a_group_that_is_sent_again_counts_once(place: Where) -> None:
    """As after a connection that broke while it was being committed."""
    store = place.store()
    for _ in range(3):
        store.commit(1, [abroad(1.0)])
    store.commit(2, [abroad(1.0)])
    store.close()
    assert sums(place, "attempts") == (2, nano(2.0))


def test_groups_of_two_processes_with_the_same_number_both_count(place: Where) -> None:
    one, other = place.store(), place.store()
    one.commit(1, [abroad(1.0)])
    other.commit(1, [abroad(1.0)])
    one.close()
    other.close()
    assert sums(place, "days") == (2, nano(2.0))


@pytest.mark.parametrize(
    ("limits", "later_s"),
    [
        (BudgetLimits.usd(day=20), DAY_S + 900),
        (BudgetLimits.usd(month=20), 29 * DAY_S),
        (BudgetLimits.usd(total=20), None),
    ],
    ids=["day", "month", "total"],
)
def test_no_more_is_leased_than_a_budget_has(
    place: Where, limits: BudgetLimits, later_s: float | None
) -> None:
    store, payer = place.store(), (EVERYBODY, limits)
    granted = sum(leased(store, 1.0, payer) for _ in range(40))
    assert granted <= 20
    store.commit(1, [abroad(1.0)] * 20)
    assert not leased(store, 0.01, payer)
    place.clock.pass_s(later_s or 400 * DAY_S)
    assert leased(store, 0.01, payer) is (later_s is not None)
    store.close()


def test_two_processes_never_hold_more_than_the_budget_together(place: Where) -> None:
    stores = [place.store(), place.store()]
    total = everybody(total=20)
    for at in range(60):
        leased(stores[at % 2], 1.0, total)
    held = [sum(s.keep_leases({}, FOR_S).values()) for s in stores]
    assert nano(19.0) <= sum(held) <= nano(20.0)
    assert min(held) > 0
    for store in stores:
        store.close()


def test_a_tenants_budget_and_everybodys_must_both_have_it(place: Where) -> None:
    store = place.store()
    ward = ("ward", BudgetLimits.usd(total=1))
    assert leased(store, 0.75, everybody(total=10), ward)
    assert short(store, 0.5, everybody(total=10), ward) == "ward"
    assert leased(store, 0.5, everybody(total=10), ("lab", BudgetLimits.usd(total=5)))
    store.close()


def test_what_is_spent_comes_out_of_the_lease(place: Where) -> None:
    """Else the same money would be held twice: as spent and as leased."""
    store = place.store()
    assert leased(store, 10.0, everybody(total=20))
    store.commit(1, [abroad(10.0)])
    assert leased(store, 10.0, everybody(total=20))
    store.close()


def test_what_is_given_back_is_there_for_another_process(place: Where) -> None:
    one, other = place.store(), place.store()
    assert leased(one, 20.0, everybody(total=20))
    assert not leased(other, 5.0, everybody(total=20))
    assert one.keep_leases({EVERYBODY: nano(8.0)}, FOR_S) == {EVERYBODY: nano(12.0)}
    assert leased(other, 8.0, everybody(total=20))
    one.close()
    other.close()


def test_a_lease_that_nobody_keeps_expires(place: Where) -> None:
    one, other = place.store(), place.store()
    assert leased(one, 20.0, everybody(total=20))
    place.clock.pass_s(FOR_S - 1)
    assert not leased(other, 1.0, everybody(total=20))
    place.clock.pass_s(2)
    assert leased(other, 1.0, everybody(total=20))
    assert one.keep_leases({}, FOR_S) == {}, "and its holder is told"
    one.close()
    other.close()


def test_others_spending_is_told_once(place: Where) -> None:
    one, other = place.store(), place.store()
    seen = one.already().last_id
    other.commit(1, [abroad(2.0), at_home(5.0), abroad(3.0, tenant="lab")])
    one.commit(1, [abroad(100.0)])
    seen, told = one.others_since(seen)
    assert told == {"ward": nano(2.0), "lab": nano(3.0)}
    assert one.others_since(seen) == (seen, {})
    one.close()
    other.close()


def test_old_entries_go_and_their_sums_stay(place: Where) -> None:
    store = place.store()
    store.commit(1, [abroad(1.0, at_s=NOON_S - 31 * DAY_S), abroad(1.0)])
    store.forget(keep_days=30)
    assert store.already().total[EVERYBODY] == nano(2.0)
    store.close()
    assert sums(place, "attempts") == (1, nano(1.0))
    assert sums(place, "days") == (2, nano(2.0))


def test_a_ledger_of_an_older_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    database = SqliteDatabase(path)
    schema.migrate(database, upto=1)
    database.close()
    with pytest.raises(LedgerError, match="older version"):
        to_read(path, None)
    store = opened(path, None, WallClock())
    assert leased(store, 1.0, everybody(total=20))
    store.close()


def test_what_an_older_version_entered_stays_among_the_attempts(place: Where) -> None:
    """Whose gateways go on writing their own table beside us until they are replaced."""
    store, old = place.store(), abroad(1.0, at_s=NOON_S - 2 * DAY_S)
    columns, marks = ", ".join(Entry._fields), ", ".join("?" * (1 + len(old)))
    store._database.write(
        f"INSERT INTO entries (owner, {columns}) VALUES ({marks})", ["another", *old]
    )
    store.commit(1, [abroad(0.5)])
    assert sums(place, "attempts") == (2, nano(1.5))
    store.forget(keep_days=1)
    store.close()
    assert sums(place, "attempts") == (1, nano(0.5))


def test_a_ledger_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    opened(path, None, WallClock()).close()
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO ledger_version VALUES (99)")
    with pytest.raises(LedgerError, match="version 99"):
        opened(path, None, WallClock())


@pytest.mark.parametrize("at", [0, 3000, 20_000])
def test_a_damaged_file_is_refused_with_what_to_do(tmp_path: Path, at: int) -> None:
    path = tmp_path / "ledger.db"
    store = opened(path, None, WallClock())
    store.commit(1, [abroad(1.0, call=f"c{n}") for n in range(500)])
    store.close()
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 6000)
    with pytest.raises(LedgerError, match=r"damaged.*last good copy"):
        opened(path, None, WallClock())


def test_a_ledger_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="cannot be opened"):
        opened(tmp_path / "file" / "ledger.db", None, WallClock())


def test_the_ledger_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    opened(path, None, WallClock()).close()
    assert path.stat().st_mode & 0o077 == 0


def test_a_password_is_in_no_message() -> None:
    pytest.importorskip("psycopg", reason="of the extra postgres")
    with pytest.raises(LedgerError) as told:
        opened(Path("unused"), "host=127.0.0.1 port=1 user=u password=hunter2", WallClock())
    assert "hunter2" not in str(told.value)


def test_a_database_that_comes_back_is_written_again(postgres: Server, tmp_path: Path) -> None:
    store = opened(tmp_path / "unused", postgres.fresh(), WallClock())
    store.commit(1, [abroad(1.0)])
    postgres.stop()
    with pytest.raises(LedgerDown):
        store.commit(2, [abroad(1.0)])
    postgres.start()
    store.commit(2, [abroad(1.0)])
    assert store.already().total[EVERYBODY] == nano(2.0)
    store.close()


def test_who_holds_a_lease_is_known_to_be_gone_once_it_has_ended() -> None:
    program = "from gateway.accounting.ledger import owner; print(owner.this_process()); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert not owner.is_gone(name)
        process.kill()
    assert owner.is_gone(name)
    assert not owner.is_gone(owner.this_process())
    elsewhere = name.replace(name.partition("/")[0], "another-boot")
    assert not owner.is_gone(elsewhere), "of another machine nobody can know"
    reused = name.replace(f"/{process.pid}/", f"/{os.getpid()}/")
    assert owner.is_gone(reused), "the number is another process's now"


def test_a_group_of_any_size_is_entered_whole_and_in_order(place: Where) -> None:
    store = place.store()
    entered = 0
    for number, count in enumerate((1, 49, 50, 51, 130), 1):
        store.commit(number, [abroad(1.0)._replace(call=f"c{entered + n}") for n in range(count)])
        entered += count
        assert sums(place, "attempts") == sums(place, "days") == (entered, nano(entered))
    store.close()
    database = place.database()
    calls = database.read("SELECT call FROM attempts ORDER BY id, place")
    database.close()
    assert [call for (call,) in calls] == [f"c{n}" for n in range(entered)]


def test_no_entry_is_too_large_for_the_tables(place: Where) -> None:
    store = place.store()
    store.commit(1, [abroad(1e6)._replace(input_tokens=10**9, output_tokens=10**9)] * 3)
    store.close()
    assert sums(place, "days") == (3, nano(3e6))
