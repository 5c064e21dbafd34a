"""The account of a call settles once; its record is whole, content-free, and on disk in time."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.accounting.metrics import Metrics
from gateway.accounting.records import Durable, RecordUnwritable
from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded
from gateway.core.operations.chat import CHAT
from gateway.core.types import (
    EVERYWHERE,
    ONPREM_ONLY,
    Attempt,
    Classification,
    Decision,
    DocumentCall,
    Endpoint,
    Outcome,
    Sensitivity,
    Zone,
)
from gateway.pipeline.accounts import Accounts
from gateway.pipeline.call_account import CallAccount, _rounded
from gateway.protocols import strictjson
from tests.unit.harness import MemoryLog, now_s, request, run

MARKER = "MARKER"
SERVED = Attempt("gpu", Zone.ONPREM, ONPREM_ONLY, "served", 0.1, 0.2, 0.5)
GPU, CLOUD = Endpoint("gpu", Zone.ONPREM, "triton"), Endpoint("cloud", Zone.CLOUD, "openai")
CLEAR = Classification("x", Sensitivity.CLEAR, "clear")
PERSON = Classification("x", Sensitivity.RESTRICTED, "entities", {"PERSON": 2})
FAILED = Attempt("gpu2", Zone.ONPREM, ONPREM_ONLY, "upstream_failed", 0.0, 0.3, 0.25)


class Books:
    def __init__(self) -> None:
        self.log, self.metrics = MemoryLog(), Metrics()
        self.accounts = Accounts(self.log, self.metrics, now_s, "abc123")

    def open(self, kind: str = "clear", **changes: Any) -> CallAccount:
        return CallAccount(self.accounts, request(kind, **changes))

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
        account.releases.append(lambda: given_back.append("slot"))
        account.releases.append(lambda: given_back.append("money"))
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
        account = books.open("restricted", payload=DocumentCall(CHAT, document))
        account.classification = Classification(
            "x", Sensitivity.RESTRICTED, "entities", {"PERSON": 2}
        )
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


def test_what_was_decided_is_told_before_and_how_it_ended_after() -> None:
    async def main() -> None:
        books = Books()
        account = books.open(streamed=True)
        assert account.starts(GPU, ONPREM_ONLY, 0.1, "") is None
        account.attempted(SERVED)
        account.settle(Outcome.CANCELLED, "caller_left")
        first, last = books.log.written
        assert (first["kind"], first["outcome"]) == ("call", "sent")
        assert (last["kind"], last["outcome"]) == ("end", "cancelled")
        assert (first["id"], first["number"]) == (last["id"], last["number"])
        assert [a["result"] for a in first["attempts"]] == ["sent"]
        assert [a["result"] for a in last["attempts"]] == ["served"]
        assert set(first["attempts"][0]) == set(last["attempts"][0])
        assert "tenant" not in last, "what was decided is told once"

    run(main())


@pytest.mark.parametrize("outcome", Outcome)
def test_what_has_no_answer_to_keep_back_ends_also_without_its_record(outcome: Outcome) -> None:
    async def main() -> None:
        books = Books()
        books.log.full = True
        given_back: list[int] = []
        account = books.open()
        account.releases.append(lambda: given_back.append(1))
        account.settle(outcome, "why")
        assert given_back == [1]
        assert books.accounts.open_calls == 0
        assert books.value("spillway_record_failures_total") == 1
        assert books.ends() == {(outcome.value, "why")}

    run(main())


class SlowLog(MemoryLog):
    """Records are durable when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Durable] = []

    def append(self, record: Mapping[str, Any]) -> Durable:
        super().append(record)
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]


async def waiting_answer(**changes: Any) -> tuple[Books, SlowLog, CallAccount, asyncio.Task[None]]:
    books, log = Books(), SlowLog()
    books.accounts.log = log
    account = books.open(**changes)
    told = account.starts(GPU, ONPREM_ONLY, 0.1, "")
    assert told is not None
    task = asyncio.create_task(account.on_record(told))
    await asyncio.sleep(0)
    return books, log, account, task


def test_an_answer_waits_until_its_record_is_durable() -> None:
    async def main() -> None:
        _, log, _, answer = await waiting_answer()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not answer.done()
        log.waiting[0].set_result(None)
        await answer

    run(main())


def test_without_its_record_on_disk_no_answer_goes() -> None:
    async def main() -> None:
        books, log, account, answer = await waiting_answer()
        log.waiting[0].set_result(RecordUnwritable("the disk is full"))
        with pytest.raises(RecordUnwritable):
            await answer
        account.settle(Outcome.FAILED, "record_unwritable")
        assert books.ends() == {("failed", "record_unwritable")}
        assert log.written[-1]["kind"] == "call", "told again, as it ended"
        assert log.written[-1]["outcome"] == "failed"

    run(main())


def test_a_caller_who_leaves_while_the_record_is_written_is_recorded_so() -> None:
    async def main() -> None:
        books, log, account, answer = await waiting_answer()
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
        account.attempted(FAILED)
        for _ in range(2):
            account.settle(Outcome.CANCELLED, "caller_left")
        assert [line["outcome"] for line in log.written][1:] == ["cancelled"]
        assert log.written[1]["kind"] == "end"
        assert books.ends() == {("cancelled", "caller_left")}
        assert books.accounts.open_calls == 0

    run(main())


def test_a_disk_that_hangs_holds_no_call_longer_than_its_budget() -> None:
    async def main() -> None:
        *_, answer = await waiting_answer(deadline=Deadline.after(0.02, now_s))
        with pytest.raises(DeadlineExceeded, match="before the record was durable"):
            await asyncio.wait_for(answer, 5)

    run(main())


def test_an_attempt_after_the_first_is_told_as_it_starts_and_the_end_tells_all() -> None:
    async def main() -> None:
        books = Books()
        account = books.open()
        account.classification = CLEAR
        account.starts(GPU, EVERYWHERE, 0.0, "")
        account.attempted(FAILED)
        account.classification = PERSON
        account.starts(CLOUD, EVERYWHERE, 0.0, "as")
        account.attempted(SERVED)
        account.settle(Outcome.SERVED, "failover")
        call, intent, end = books.log.written
        assert (intent["kind"], intent["endpoint"], intent["zone"]) == ("intent", "cloud", "cloud")
        assert (intent["sent_as"], intent["number"]) == ("as", call["number"])
        assert (call["sensitivity"], intent["sensitivity"]) == ("clear", "restricted")
        assert (end["kind"], end["sensitivity"], len(end["attempts"])) == ("end", "restricted", 2)

    run(main())


def test_a_verdict_that_changed_after_the_only_attempt_is_in_the_end() -> None:
    async def main() -> None:
        books = Books()
        account = books.open()
        account.classification = CLEAR
        account.starts(GPU, EVERYWHERE, 0.0, "")
        account.attempted(FAILED)
        account.classification = PERSON
        account.settle(Outcome.SHED, "onprem_unavailable")
        call, end = books.log.written
        assert (call["sensitivity"], end["sensitivity"]) == ("clear", "restricted")

    run(main())


def test_quiet_is_when_no_call_is_open() -> None:
    async def main() -> None:
        books = Books()
        await books.accounts.quiet()
        accounts = [books.open() for _ in range(2)]
        waiting = [asyncio.create_task(books.accounts.quiet()) for _ in range(2)]
        await asyncio.sleep(0)
        accounts[0].settle(Outcome.SERVED, "served")
        for _ in range(3):
            await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        accounts[1].settle(Outcome.SERVED, "served")
        await asyncio.gather(*waiting)
        await books.accounts.quiet()

    run(main())


def test_a_call_that_may_go_everywhere_says_so_in_its_record() -> None:
    async def main() -> None:
        books = Books()
        account = books.open()
        account.decision = Decision((), "onprem_room", EVERYWHERE)
        account.settle(Outcome.FAILED, "internal")
        assert books.log.lines[0]["allowed"] == ["cloud", "onprem"]
        assert books.log.lines[0]["zones"] == ["cloud", "onprem"]

    run(main())


@given(st.floats(0.0, 1e5))
@settings(max_examples=500)
def test_seconds_are_rounded_as_python_would(seconds: float) -> None:
    found = _rounded(seconds)
    assert abs(found - round(seconds, 6)) <= 1.001e-6, "but for halves"
    assert abs(found - seconds) <= 0.501e-6 + 1e-10
    assert found == round(found, 6), "it has no more digits than that"


@pytest.mark.parametrize("never", [math.inf, -math.inf])
def test_a_time_that_never_comes_can_be_recorded(never: float) -> None:
    assert _rounded(never) == never
    assert strictjson.dumps(_rounded(never)) == b"null"
