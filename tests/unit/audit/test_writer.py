"""What waits is made durable together, and nothing goes unrecorded while the disk fails."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.accounting.audit.journal.journal import Journal, JournalOptions, Sealed
from gateway.accounting.audit.journal.segments import segments
from gateway.accounting.audit.journal.spool import Spool
from gateway.accounting.audit.verify import public_key
from gateway.accounting.audit.writer.writer import AuditWriter
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import RecordUnwritable
from gateway.core.process import logs
from tests.marks import ROOT
from tests.unit.audit.rig import call, checked, kinds, lines
from tests.unit.audit.test_journal import full_disk

pytestmark = pytest.mark.anyio

SOON_S = 5.0


class WatchedJournal(Journal):
    """Counts its commits and looks, and has bugs when a test says so."""

    commits = 0
    looks = 0
    bugs = ""  # where it has one to show

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.groups: list[int] = []  # records in each commit

    def tend(self) -> None:
        self.looks += 1
        super().tend()

    def seal(self, records: Any) -> Sealed:
        self.groups.append(len(records))
        if self.bugs == "seal":
            self.bugs = ""
            raise KeyError("quoted")
        return super().seal(records)

    def keep(self, sealed: Sealed) -> None:
        self.commits += 1
        if self.bugs == "keep":
            self.bugs = ""
            raise KeyError("quoted")
        super().keep(sealed)


@asynccontextmanager
async def writing(
    directory: Path, metrics: Metrics | None = None, spool: Spool | None = None, **changes: float
) -> AsyncIterator[AuditWriter]:
    timing = {"checkpoint_s": 60.0, "retry_s": 0.01, **changes}
    journal = WatchedJournal(JournalOptions(directory, "test"), spool)
    writer = AuditWriter(journal, metrics or Metrics(), **timing)
    writer.start(lambda: {"policy": "abc123"})
    try:
        yield writer
    finally:
        await writer.aclose()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def value(metrics: Metrics, name: str) -> float:
    return metrics.registry.get_sample_value(name) or 0.0


async def test_a_ticket_says_that_the_record_is_in_the_file(tmp_path: Path) -> None:
    async with writing(tmp_path) as writer:
        for number in range(3):
            assert await writer.append(call(number)) is None
            assert lines(tmp_path)[-1]["id"] == f"call-{number}"
    assert kinds(tmp_path) == ["segment", "start", *3 * ["call"], "stop"]
    assert checked(tmp_path).holds


async def test_what_waits_shares_one_commit_in_the_order_in_which_it_came(tmp_path: Path) -> None:
    metrics = Metrics()
    async with writing(tmp_path, metrics) as writer:
        journal = writer.journal
        assert isinstance(journal, WatchedJournal)
        before = journal.commits
        told = await asyncio.gather(*(writer.append(call(n)) for n in range(200)))
        assert told == [None] * 200
        assert journal.commits - before < 20
        assert value(metrics, "spillway_audit_records_total") == 200
    assert [r["id"] for r in lines(tmp_path) if "id" in r] == [f"call-{n}" for n in range(200)]


async def test_a_caller_who_left_does_not_keep_its_record_out(tmp_path: Path) -> None:
    async with writing(tmp_path) as writer:
        left = writer.append(call(1))
        left.cancel()
        assert await writer.append(call(2)) is None
    assert [r["id"] for r in lines(tmp_path) if "id" in r] == ["call-1", "call-2"]


async def test_checkpoints_are_signed_while_records_come_and_at_the_end(tmp_path: Path) -> None:
    async with writing(tmp_path, checkpoint_s=0.01) as writer:
        for number in range(5):
            await writer.append(call(number))
            await asyncio.sleep(0.02)
    found = checked(tmp_path)
    assert found.checkpoints > 4
    assert found.unsigned == 0


async def test_the_log_says_which_new_key_signs_and_of_an_old_one_nothing(tmp_path: Path) -> None:
    out = io.StringIO()
    logs.configure("info", "json", out)

    for _ in range(2):
        async with writing(tmp_path):
            pass
    (line,) = (json.loads(line) for line in out.getvalue().splitlines())
    assert line["message"].endswith(f"cannot change it: {public_key(tmp_path)}")


# Groups


async def handed_over(writer: AuditWriter, *counts: int) -> list[int]:
    """So many records at once, each time when the ones before are durable; how many then went
    together."""
    journal = writer.journal
    assert isinstance(journal, WatchedJournal)
    before = len(journal.groups)
    for count in counts:
        await asyncio.gather(*(writer.append(call(n)) for n in range(count)))
    return journal.groups[before:]


async def test_a_record_without_company_goes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.accounting.audit.writer.pace._GATHERED_S", 1e5)

    async with writing(tmp_path) as writer:
        assert await handed_over(writer, 1, 1, 1) == [1, 1, 1]


async def test_records_in_company_are_gathered_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.accounting.audit.writer.pace._GATHERED_S", 0.5)

    async with writing(tmp_path) as writer:
        await handed_over(writer, 20, 20)  # from here on much is known to come
        journal = writer.journal
        assert isinstance(journal, WatchedJournal)
        before = len(journal.groups)
        tickets = []
        for number in range(5):
            tickets.append(writer.append(call(number)))
            await asyncio.sleep(0.01)
        await asyncio.gather(*tickets)
        assert journal.groups[before:] == [5]


async def test_a_group_has_a_bound_and_its_rest_goes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.accounting.audit.writer.writer.MOST_IN_ONE", 4)

    async with writing(tmp_path) as writer:
        assert await handed_over(writer, 10) == [4, 4, 2]
    assert [r["id"] for r in lines(tmp_path) if "id" in r] == [f"call-{n}" for n in range(10)]


async def test_what_is_gathered_at_the_end_is_durable_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.accounting.audit.writer.pace._GATHERED_S", 1e5)

    async with writing(tmp_path) as writer:
        await handed_over(writer, 20)
        tickets = [writer.append(call(n)) for n in range(3)]
        await writer.aclose()
        assert await asyncio.gather(*tickets) == 3 * [None]


# A disk that fails


async def until(reached: Any) -> None:
    async with asyncio.timeout(SOON_S):
        while not reached():  # noqa: ASYNC110 - it happens in a thread
            await asyncio.sleep(0.005)


def able(writer: AuditWriter) -> bool:
    try:
        writer.check()
    except RecordUnwritable:
        return False
    return True


def size_of(directory: Path) -> int:
    return segments(directory)[-1].path.stat().st_size


def test_while_the_disk_is_full_nothing_is_taken_and_afterwards_it_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        metrics = Metrics()
        async with writing(tmp_path, metrics) as writer:
            assert await writer.append(call(1)) is None
            with full_disk(size_of(tmp_path) + 10):
                failed = await writer.append(call(2))
                assert isinstance(failed, RecordUnwritable)
                with pytest.raises(RecordUnwritable, match="File too large"):
                    writer.check()
                with pytest.raises(RecordUnwritable):
                    writer.append(call(3))
                assert value(metrics, "spillway_record_failures_total") == 1
                await until(lambda: value(metrics, "spillway_audit_failing"))
            await until(lambda: able(writer))
            assert await writer.append(call(4)) is None
        gap = next(r for r in lines(tmp_path) if r["kind"] == "gap")
        assert (gap["records"], gap["why"]) == (2, "File too large")
        assert [r["id"] for r in lines(tmp_path) if "id" in r] == ["call-1", "call-4"]
        assert checked(tmp_path).holds

    with caplog.at_level(logging.WARNING):
        run(main())
    told = [record.getMessage() for record in caplog.records]
    assert any("No call is answered until it can" in line for line in told)
    assert any("can be written again; 2 records" in line for line in told)


async def looked(writer: AuditWriter, times: int) -> None:
    journal = writer.journal
    assert isinstance(journal, WatchedJournal)
    until_looks = journal.looks + times
    await until(lambda: journal.looks >= until_looks)


def test_a_disk_with_room_for_a_gap_and_for_no_call_stays_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """S1: else it is ready and refuses in turn, as often as it is tried."""

    async def main() -> None:
        async with writing(tmp_path) as writer:
            assert await writer.append(call(1)) is None
            with full_disk(size_of(tmp_path) + 400):
                assert isinstance(await writer.append(call(2, model="x" * 500)), RecordUnwritable)
                for _ in range(8):
                    assert not able(writer)
                    await looked(writer, 1)
                assert not able(writer)
            await until(lambda: able(writer))
            assert await writer.append(call(3)) is None
        assert kinds(tmp_path).count("gap") == 1

    with caplog.at_level(logging.WARNING):
        run(main())
    assert sum("No call is answered" in line for line in caplog.messages) == 1
    assert sum("can be written again" in line for line in caplog.messages) == 1


async def test_a_disk_that_fails_again_and_again_is_tried_less_and_less(tmp_path: Path) -> None:
    async with writing(tmp_path) as writer:
        dwells, failure = [], writer._failure
        for number in range(4):
            with full_disk(size_of(tmp_path) + 10):
                assert isinstance(await writer.append(call(number)), RecordUnwritable)
            dwells.append(failure.dwell_s)
            await until(lambda: able(writer))
        assert dwells == [0.01, 0.02, 0.04, 0.08]
        failure._recovered_s -= 120 * 0.01
        with full_disk(size_of(tmp_path) + 10):
            assert isinstance(await writer.append(call(9)), RecordUnwritable)
        assert failure.dwell_s == 0.01
        failure.dwell_s = 9.0
        failure._recovered_s = float("inf")
        assert failure._next_dwell_s() == 0.64


def test_a_spool_is_left_when_there_is_room_for_more_than_what_is_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the state, and the log, would change with every record."""

    async def main() -> None:
        async with writing(tmp_path, spool=Spool(100_000)) as writer:
            size = size_of(tmp_path)
            with full_disk(size + 10):
                assert await writer.append(call(0)) is None
            for number in range(1, 6):
                with full_disk(size + 1000 * number):  # somebody frees a little
                    assert await writer.append(call(number)) is None
                    await looked(writer, 2)
                    assert writer.journal.spooled == number + 1
            await until(lambda: not writer.journal.spooled)
            assert await writer.append(call(6)) is None
        assert [r["id"] for r in lines(tmp_path) if "id" in r] == [f"call-{n}" for n in range(7)]
        assert checked(tmp_path).holds

    with caplog.at_level(logging.WARNING):
        run(main())
    assert sum("go into the spool" in line for line in caplog.messages) == 1
    assert sum("on its own disk again" in line for line in caplog.messages) == 1


async def test_a_full_spool_with_room_for_a_gap_stays_refused(tmp_path: Path) -> None:
    async with writing(tmp_path, spool=Spool(4000)) as writer:
        with full_disk(size_of(tmp_path) + 10):
            while await writer.append(call(0)) is None:
                pass
            spool = writer.journal._spool
            assert spool is not None
            spool._max_bytes = spool.bytes + 400  # a gap's record would find its place
            for _ in range(6):
                assert not able(writer)
                await looked(writer, 1)
        await until(lambda: able(writer) and not writer.journal.spooled)
        assert await writer.append(call(1)) is None
    assert kinds(tmp_path).count("gap") == 1
    assert checked(tmp_path).holds


def test_what_is_looked_after_and_fails_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with writing(tmp_path) as writer:
            writer.journal._keeping = replace(writer.journal._keeping, segment_max_bytes=1)
            with full_disk(10):
                assert isinstance(await writer.append(call(1)), RecordUnwritable)
                await looked(writer, 5)
            await until(lambda: able(writer))

    with caplog.at_level(logging.ERROR):
        run(main())
    assert sum("not as it should be" in line for line in caplog.messages) == 1


def test_with_a_spool_calls_go_on_while_the_disk_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        metrics = Metrics()
        async with writing(tmp_path, metrics, Spool(2000)) as writer:
            with full_disk(size_of(tmp_path) + 10):
                for number in range(3):
                    assert await writer.append(call(number)) is None
                await until(lambda: value(metrics, "spillway_audit_spooled_records") == 3)
                assert isinstance(await writer.append(call(3, model="x" * 2000)), RecordUnwritable)
                assert not able(writer)
            await until(lambda: able(writer) and not writer.journal.spooled)
        assert [r["id"] for r in lines(tmp_path) if "id" in r] == ["call-0", "call-1", "call-2"]
        assert checked(tmp_path).holds

    with caplog.at_level(logging.WARNING):
        run(main())
    told = [record.getMessage() for record in caplog.records]
    assert any("go into the spool" in line for line in told)
    assert any("on its own disk again" in line for line in told)


def test_a_disk_that_takes_nothing_until_the_end_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with writing(tmp_path, spool=Spool(10_000)) as writer:
            size = size_of(tmp_path)
            with full_disk(size + 10):
                assert await writer.append(call(1)) is None
                await writer.aclose()

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "2 records are not on the audit's disk" in caplog.messages[-1]


@pytest.mark.parametrize("where", ["seal", "keep"])
async def test_a_bug_is_survived_and_no_record_of_it_is_taken_for_durable(
    where: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with writing(tmp_path) as writer:
        journal = writer.journal
        assert isinstance(journal, WatchedJournal)
        journal.bugs = where
        assert isinstance(await writer.append(call(1)), RecordUnwritable)
        await until(lambda: able(writer))
        assert await writer.append(call(2)) is None
    assert checked(tmp_path).holds
    assert "KeyError" in caplog.text
    assert "quoted" not in caplog.text


async def test_records_that_only_wait_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.accounting.audit.writer.writer._MOST_WAITING", 3)
    monkeypatch.setattr("gateway.accounting.audit.writer.writer.MOST_IN_ONE", 1)

    async with writing(tmp_path) as writer:
        tickets = [writer.append(call(n)) for n in range(3)]
        with pytest.raises(RecordUnwritable, match="does not keep up"):
            writer.append(call(3))
        await asyncio.gather(*tickets)
        assert await writer.append(call(4)) is None


# Kills


def test_no_acknowledged_record_is_lost_over_twenty_kills() -> None:
    """`python -m loadtests.audit.kills --rounds 1000` is the long one."""
    told = subprocess.run(
        [sys.executable, "-m", "loadtests.audit.kills", "--rounds", "20", "--seed", "5"],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
    assert " 0 of them lost" in told.stdout
    assert int(told.stdout.split(": ")[1].split()[0]) >= 10, "records that were acknowledged"


def test_no_call_that_a_cloud_saw_is_missing_over_twenty_kills() -> None:
    """`python -m loadtests.audit.dispatch_kills --rounds 1000` is the long one."""
    told = subprocess.run(
        [sys.executable, "-m", "loadtests.audit.dispatch_kills", "--rounds", "20", "--seed", "5"],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
    assert " 0 of them not on record" in told.stdout
    assert int(told.stdout.split("saw ")[1].split()[0]) >= 20
    assert int(told.stdout.split("; of ")[1].split()[0]) > 0, "calls that no record ever ended"
