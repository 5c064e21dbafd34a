"""What is kept of the decisions, and the count that has to stay at none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gateway.accounting.audit.reports.calls import RecordedCall
from gateway.accounting.live.decisions import Decisions
from gateway.accounting.measures import Measures
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import RecordUnwritable
from gateway.core.types import CLOUD, EVERYWHERE, Attempt, Decision, Endpoint, Outcome
from gateway.pipeline.call_account import CallAccount
from tests.unit.console.console_rig import Desk, attempt, ended, record
from tests.unit.harness import request, run
from tests.unit.spill.clock import HandClock

AWAY = attempt("cloud")


class Calls:
    """What becomes of calls, told as their accounts tell it."""

    def __init__(self, tail: int = 500) -> None:
        self.measures = Measures(Metrics())
        self.decisions = Decisions(self.measures, HandClock(), tail)
        self.measures.watch = self.decisions.take

    def tell(self, *records: Mapping[str, Any]) -> Decisions:
        for one in records:
            number = one["number"]
            if one["outcome"] == "sent":
                self.measures.sent[number] = one
            else:
                begun = self.measures.sent.pop(number, one)
                self.measures.ended.append(ended(one if "tenant" in one else begun, one, 0.0))
        return self.decisions.snapshot()


def seen(*records: Mapping[str, Any], tail: int = 500) -> Decisions:
    return Calls(tail).tell(*records)


@pytest.mark.parametrize(
    ("sensitivity", "attempts", "leaked"),
    [
        ("clear", [AWAY], 0),
        ("restricted", [attempt()], 0),
        ("restricted", [AWAY], 1),
        ("restricted", [attempt("cloud", "upstream_failed"), attempt()], 1),
        ("restricted", [attempt("gpu", "upstream_failed"), AWAY], 1),
        (None, [AWAY], 1),  # never read: restricted
        (None, [], 0),
    ],
)
def test_a_call_that_is_not_clear_and_was_in_the_cloud_is_counted(
    sensitivity: str | None, attempts: Sequence[Mapping[str, Any]], leaked: int
) -> None:
    found = seen(record(attempts, sensitivity=sensitivity))
    assert found.restricted_in_cloud == leaked
    assert found.latest_alarm == (1 if leaked else None)


@pytest.mark.parametrize(
    ("zone", "leaked"), [("eu", 0), ("us", 1), ("cloud", 1), ("onprem-lab", 0)]
)
def test_a_call_of_a_class_is_counted_in_zones_that_do_not_admit_it(zone: str, leaked: int) -> None:
    tried = {**attempt("cloud"), "zone": zone}
    graded: dict[str, Any] = {"class": "personal", "admitted": ["eu"]}
    made = seen(record([tried], sensitivity="restricted", **graded))
    assert made.restricted_in_cloud == leaked
    offline = RecordedCall(
        1, 0.0, "id", "t", "m", "restricted", (zone,), "served", "", "", admitted=("eu",)
    )
    assert offline.in_cloud_unclear is bool(leaked)


def test_what_was_stopped_at_the_door_was_not_in_the_cloud_and_is_told_all_the_same() -> None:
    found = seen(record([attempt("cloud", "egress_forbidden")], sensitivity="restricted"))
    assert (found.restricted_in_cloud, found.stopped_at_door) == (0, 1)


def test_an_alarm_is_raised_also_when_the_record_cannot_be_written() -> None:
    async def main() -> None:
        desk = Desk()
        for number, result in enumerate(("record_unwritable", "served"), 1):
            account = CallAccount(desk.rig.accounts, request("restricted"))
            account.decision = Decision((), "spill_deadline", EVERYWHERE)
            desk.rig.log.full = result != "served"
            if desk.rig.log.full:
                with pytest.raises(RecordUnwritable):
                    account.starts(Endpoint("cloud", CLOUD, "openai"), EVERYWHERE, 0.0, "id")
            desk.rig.log.full = True
            account.attempted(Attempt("cloud", CLOUD, EVERYWHERE, result))
            account.settle(Outcome.FAILED, result)
            assert desk.decisions.snapshot().restricted_in_cloud == number
        assert not desk.rig.log.lines

    run(main())


def test_a_call_counts_once_and_its_end_is_told_in_its_place() -> None:
    found = seen(
        record([attempt("cloud", "sent")], outcome="sent", sensitivity="restricted"),
        {"kind": "end", "id": "1", "number": 1, "took_s": 0.7, "total_tokens": 5,
         "attempts": [AWAY], "outcome": "served", "end_reason": "served"},
    )  # fmt: skip
    assert found.restricted_in_cloud == 1
    assert sum(found.counts.values()) == 1
    (only,) = found.since(0, 10)
    assert (only.seq, only.record["outcome"], only.record["took_s"]) == (1, "served", 0.7)
    assert sum(found.seconds[0].paths.values()) == 1
    assert [f.took_s for f in found.figures] == [0.7]


def test_a_call_that_was_seen_under_way_counts_once() -> None:
    calls = Calls()
    found = calls.tell(record([attempt("cloud", "sent")], outcome="sent", sensitivity="restricted"))
    (only,) = found.since(0, 10)
    assert only.record["outcome"] == "sent"
    assert not found.counts
    told = found.revision
    end = {"kind": "end", "id": "1", "number": 1, "took_s": 0.7, "outcome": "served"}
    calls.tell(
        record([AWAY], call="2", number=2, sensitivity="restricted"), {**end, "attempts": [AWAY]}
    )
    changed = found.since(told, 10)
    assert {(s.seq, s.record["outcome"]) for s in changed} == {(1, "served"), (2, "served")}
    assert found.counts == {("restricted", "cloud"): 2}
    assert found.restricted_in_cloud == 2


def test_a_restricted_call_on_its_way_to_the_cloud_is_an_alarm_before_it_ends() -> None:
    sent = record([attempt("cloud", "sent")], outcome="sent", sensitivity="restricted")
    assert seen(sent).restricted_in_cloud == 1
    told_anew = record([attempt("cloud", "cancelled")], outcome="failed", sensitivity="restricted")
    calls = Calls()
    calls.tell(sent)
    found = calls.tell(told_anew)  # what was decided could not be written
    assert (found.restricted_in_cloud, found.seq) == (1, 1)


def test_who_gives_two_calls_one_id_has_two_calls() -> None:
    first, second = (record(outcome="sent", number=n, tenant=str(n)) for n in (1, 2))
    end = {"kind": "end", "id": "1", "took_s": 0.7, "attempts": [attempt()]}
    ends = ({**end, "number": n, "outcome": o} for n, o in ((2, "failed"), (1, "served")))
    found = seen(first, second, *ends).since(0, 10)
    assert [(s.record["tenant"], s.record["outcome"]) for s in found] == [
        ("2", "failed"), ("1", "served"),
    ]  # fmt: skip


def test_a_call_whose_caller_left_is_told_as_it_ended() -> None:
    found = seen(
        record(outcome="sent"),
        {"kind": "end", "id": "1", "number": 1, "took_s": 0.7, "total_tokens": 5,
         "attempts": [attempt()], "outcome": "cancelled", "end_reason": "caller_left"},
    )  # fmt: skip
    (only,) = found.since(0, 10)
    assert only.record["outcome"] == "cancelled"
    assert sum(found.counts.values()) == 1


def test_what_changed_since_a_look_is_told_newest_last_and_no_more_than_asked() -> None:
    found = seen(*(record(call=str(n)) for n in range(5)))
    assert [s.record["id"] for s in found.since(2, 10)] == ["2", "3", "4"]
    assert [s.record["id"] for s in found.since(0, 2)] == ["3", "4"]
    assert found.since(found.revision, 10) == []


def test_only_the_tail_is_kept_and_everything_is_counted() -> None:
    found = seen(*(record(call=str(n)) for n in range(9)), tail=4)
    assert [s.seq for s in found.since(0, 99)] == [6, 7, 8, 9]
    assert found.find(5) is None
    assert found.find(9) is not None
    assert found.counts == {("clear", "onprem"): 9}


def test_what_is_seen_under_way_is_kept_until_it_ends_and_no_longer() -> None:
    calls = Calls()
    stream = record([attempt("gpu", "sent")], outcome="sent")
    for first in range(0, 90, 30):
        numbers = range(first, first + 30)
        calls.tell(*({**stream, "id": str(n), "number": n} for n in numbers))
        assert len(calls.decisions._open) == 30
        calls.tell(*(record(call=str(n), number=n) for n in numbers))
        assert not calls.decisions._open
    assert calls.decisions.counts == {("clear", "onprem"): 90}


def test_what_was_found_in_an_answer_is_with_its_call() -> None:
    calls = Calls()
    before = calls.tell(record(call="1"), record(call="2", number=2)).revision
    calls.decisions.answered({"id": "1", "answer_reason": "entities"})
    (row,) = calls.decisions.since(before, 10)
    assert row.record["id"] == "1"
    assert row.record["answer"]["answer_reason"] == "entities"
    calls.decisions.answered({"id": "3", "answer_reason": "entities"})
    assert calls.decisions.since(row.revision, 10) == []
