"""The account of a call settles once; its record is whole, content-free, and on disk in time."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.accounting.account import Accounts, CallAccount
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import FileDecisionLog, RecordUnwritable
from gateway.types import (
    EVERYWHERE,
    ONPREM_ONLY,
    Attempt,
    Classification,
    Decision,
    DocumentCall,
    Operation,
    Outcome,
    Sensitivity,
    Zone,
)
from tests.unit.harness import MemoryLog, now_s, request, run

MARKER = "MARKER"
SERVED = Attempt("gpu", Zone.ONPREM, ONPREM_ONLY, "served", 0.1, 0.2, 0.5)
FAILED = Attempt("gpu2", Zone.ONPREM, ONPREM_ONLY, "upstream_failed", 0.0, 0.3, 0.25)


class Books:
    def __init__(self) -> None:
        self.log, self.metrics = MemoryLog(), Metrics()
        self.accounts = Accounts(self.log, self.metrics, now_s, lambda: "abc123")

    def open(self, kind: str = "clear", **changes: Any) -> CallAccount:
        return self.accounts.open(request(kind, **changes))

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def ends(self) -> set[tuple[str, str]]:
        """How calls ended, as the metric has it."""
        return {
            (sample.labels["outcome"], sample.labels["reason"])
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "spillway_calls_total"
        }


def test_what_a_call_holds_is_given_back_once_however_often_it_settles() -> None:
    async def main() -> None:
        books = Books()
        given_back: list[str] = []
        account = books.open()
        account.holds(lambda: given_back.append("slot"))
        account.holds(lambda: given_back.append("money"))
        for outcome in (Outcome.SERVED, Outcome.FAILED, Outcome.CANCELLED):
            account.settle(outcome, "why")
        assert given_back == ["slot", "money"]
        assert [line["outcome"] for line in books.log.lines] == ["served"]
        assert books.accounts.open_calls == 0
        assert books.value("spillway_calls_in_flight") == 0

    run(main())


def test_the_record_says_what_was_decided_and_done_without_any_content() -> None:
    async def main() -> None:
        books = Books()
        document = {"messages": [{"role": "user", "content": MARKER}], "model": MARKER}
        account = books.open("restricted", payload=DocumentCall(Operation.CHAT, document))
        account.classified(Classification("x", Sensitivity.RESTRICTED, "entities", {"PERSON": 2}))
        account.decision = Decision((), "restricted", ONPREM_ONLY, (("cloud", "restricted"),))
        account.attempted(FAILED)
        account.attempted(SERVED)
        account.total_tokens = 7
        account.settle(Outcome.SERVED, "restricted")
        (line,) = books.log.lines
        assert line["sensitivity"] == "restricted"
        assert line["entities"] == {"PERSON": 2}
        assert line["zones"] == ["onprem"]
        assert line["vetoes"] == {"cloud": "restricted"}
        assert [a["result"] for a in line["attempts"]] == ["upstream_failed", "served"]
        assert line["policy"] == "abc123"
        assert line["total_tokens"] == 7
        assert MARKER not in json.dumps(line)
        assert MARKER not in books.metrics.render().decode()
        assert MARKER not in repr(account._request)

    run(main())


def test_what_failed_is_paid_too() -> None:
    """B3: the sum is of every attempt."""

    async def main() -> None:
        books = Books()
        account = books.open()
        account.attempted(FAILED)
        account.attempted(SERVED)
        account.settle(Outcome.SERVED, "served")
        spent = sum(
            books.value("spillway_spend_usd_total", endpoint=e, zone="onprem")
            for e in ("gpu", "gpu2")
        )
        assert spent == 0.75

    run(main())


def test_a_stream_has_its_record_before_and_its_end_after() -> None:
    async def main() -> None:
        books = Books()
        account = books.open(streamed=True)
        account.record_before_release(SERVED)
        account.attempted(SERVED)
        account.settle(Outcome.CANCELLED, "caller_left")
        first, last = books.log.lines
        assert (first["kind"], first["outcome"]) == ("call", "streaming")
        assert (last["kind"], last["outcome"]) == ("end", "cancelled")
        assert first["id"] == last["id"]
        assert len(first["attempts"]) == len(last["attempts"]) == 1

    run(main())


@pytest.mark.parametrize(
    ("outcome", "raises"), [(o, o is Outcome.SERVED) for o in Outcome], ids=lambda v: str(v)
)
def test_only_an_answer_that_was_not_released_yet_is_kept_back_for_its_record(
    outcome: Outcome, raises: bool
) -> None:
    async def main() -> None:
        books = Books()
        books.log.full = True
        given_back: list[int] = []
        account = books.open()
        account.holds(lambda: given_back.append(1))
        if raises:
            with pytest.raises(RecordUnwritable):
                account.settle(outcome, "why")
        else:
            account.settle(outcome, "why")
        assert given_back == [1]
        assert books.accounts.open_calls == 0
        assert books.value("spillway_record_failures_total") == 1
        assert books.ends() == {
            ("failed", "record_unwritable") if raises else (outcome.value, "why")
        }

    run(main())


def test_quiet_is_when_no_call_is_open() -> None:
    async def main() -> None:
        books = Books()
        await books.accounts.quiet()
        accounts = [books.open() for _ in range(2)]
        accounts[0].settle(Outcome.SERVED, "served")
        assert not books.accounts._quiet.is_set()
        accounts[1].settle(Outcome.SERVED, "served")
        await books.accounts.quiet()

    run(main())


# The file


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.startswith(b"{")]


def test_records_are_on_disk_at_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "decisions.jsonl"
    log = FileDecisionLog(path)
    log.append({"id": "1", "text": "two\nlines"})
    assert lines_of(path) == [{"id": "1", "text": "two\nlines"}]
    assert path.stat().st_mode & 0o777 == 0o600
    FileDecisionLog(path).append({"id": "2"})
    assert [line["id"] for line in lines_of(path)] == ["1", "2"]
    log.close()


@contextmanager
def full_disk(at_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond that; the test's own output is one: keep it short."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    told = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, told)


def test_a_record_that_does_not_fit_is_an_error_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    log = FileDecisionLog(path)
    log.append({"id": "1"})
    with full_disk(100), pytest.raises(RecordUnwritable, match="no space"):
        log.append({"id": "2", "long": "x" * 100})
    log.append({"id": "3"})
    whole = [line for line in path.read_bytes().splitlines() if line.endswith(b"}")]
    assert [json.loads(line)["id"] for line in whole] == ["1", "3"]


def test_a_call_that_may_go_everywhere_says_so_in_its_record() -> None:
    async def main() -> None:
        books = Books()
        account = books.open()
        account.decision = Decision((), "onprem_room", EVERYWHERE)
        account.settle(Outcome.FAILED, "internal")
        assert books.log.lines[0]["allowed"] == ["cloud", "onprem"]
        assert books.log.lines[0]["zones"] == ["cloud", "onprem"]

    run(main())
