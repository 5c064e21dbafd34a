"""Which calls touched which zones: by class, time, tenant, model, reason and outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.reports.calls import calls
from gateway.accounting.audit.reports.query import (
    CallFilter,
    TimeRange,
    matching_calls,
    moment,
    quarter,
)
from tests.unit.audit import rig
from tests.unit.audit.rig import JULY_S, call, in_cloud, put, written


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    clear = {"sensitivity": "clear", "attempts": in_cloud(), "end_reason": "spill_queue"}
    with written(tmp_path) as into:
        put(
            into,
            call(0),
            call(1, **clear),
            call(2, **clear, tenant="shop", model="minilm"),
            call(3, sensitivity=None, attempts=[], outcome="shed", end_reason="saturated"),
            call(4, outcome="streaming", end_reason=None),
            {"kind": "end", "id": "call-4", "outcome": "failed", "end_reason": "upstream_failed",
             "attempts": call(0)["attempts"]},
            call(5, outcome="streaming", end_reason=None),
        )  # fmt: skip
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"sensitivity": "restricted"}, [0, 4, 5]),
        ({"sensitivity": "unknown"}, [3]),
        ({"sensitivity": "restricted", "zone": "cloud"}, []),
        ({"zone": "cloud"}, [1, 2]),
        ({"zone": "cloud", "tenant": "shop"}, [2]),
        ({"model": "minilm"}, [2]),
        ({"reason": "saturated"}, [3]),
        ({"outcome": "failed"}, [4]),
        ({"outcome": "streaming"}, [5]),
        ({"span": TimeRange(JULY_S + 1, JULY_S + 3)}, [1, 2]),
        ({"span": TimeRange(until_s=JULY_S)}, []),
    ],
    ids=str,
)
def test_calls_are_found_by_what_is_asked(
    audit: Path, wanted: dict[str, Any], ids: list[int]
) -> None:
    told = matching_calls([audit], CallFilter(**wanted))
    assert sorted(c.id for c in told) == [f"call-{number}" for number in ids]


def test_a_call_that_was_not_read_counts_as_one_that_is_not_clear() -> None:
    (of_call,) = calls([{"seq": 1, **call(1, sensitivity=None, attempts=in_cloud())}])
    assert of_call.in_cloud_unclear
    assert CallFilter(sensitivity="unknown", zone="cloud").must_be_empty
    assert not CallFilter(sensitivity="clear", zone="cloud").must_be_empty


def test_two_calls_of_one_id_are_two_calls() -> None:
    told = list(calls([{"seq": 1, **call(1)}, {"seq": 2, **call(1, attempts=in_cloud())}]))
    assert [c.zones for c in told] == [("onprem",), ("cloud",)]


def test_several_gateways_are_asked_together(audit: Path, tmp_path: Path) -> None:
    other = rig.audit(tmp_path / "other", calls=3)
    assert len(list(matching_calls([audit, other], CallFilter()))) == 9
    assert len({c.origin for c in matching_calls([audit, other], CallFilter())}) == 2


@pytest.mark.parametrize(
    ("text", "at_s"),
    [
        ("2026-07-01", JULY_S),
        ("2026-07-01T00:00:30", JULY_S + 30),
        ("2026-07-01T02:00:00+02:00", JULY_S),
    ],
)
def test_a_day_or_a_moment_is_read(text: str, at_s: float) -> None:
    assert moment(text) == at_s


def test_a_quarter_is_three_months() -> None:
    assert quarter("2026Q3") == TimeRange(moment("2026-07-01"), moment("2026-10-01"))
    assert quarter("2026q4") == TimeRange(moment("2026-10-01"), moment("2027-01-01"))


@pytest.mark.parametrize("read", [moment, quarter])
def test_another_time_is_refused(read: Any) -> None:
    with pytest.raises(AuditError, match="write a"):
        read("yesterday")


def intent(number: int, sent_as: str, **changes: Any) -> dict[str, Any]:
    of_call = {key: call(number)[key] for key in ("time", "id", "tenant", "model", "policy")}
    sent = {"sent_as": sent_as, "endpoint": "provider", "sensitivity": "clear"}
    return {"kind": "intent", **of_call, **sent, **changes}


def sent(number: int, *ids: str) -> dict[str, Any]:
    (attempt,) = in_cloud()
    attempts = [{**attempt, "sent_as": one} for one in ids]
    return call(number, sensitivity="clear", attempts=attempts)


def test_a_call_that_was_sent_and_never_settled_is_found_and_counts_for_the_cloud() -> None:
    """Also where its caller sent it again, under the same id, after the kill."""
    start = {"kind": "start", "time": JULY_S}
    lines = [intent(1, "a"), start, intent(1, "b"), sent(1, "b"), intent(2, "c"), sent(2, "c")]
    told = list(calls([{"seq": at, **line} for at, line in enumerate(lines)]))
    assert [(c.id, c.outcome, c.zones, c.sent_as) for c in told] == [
        ("call-1", "sent", ("cloud",), ("a",)),
        ("call-1", "served", ("cloud",), ("b",)),
        ("call-2", "served", ("cloud",), ("c",)),
    ]
    assert told[0] in CallFilter(zone="cloud", sent_as="a")
    assert told[1] not in CallFilter(sent_as="a")


def test_one_that_is_under_way_is_found_and_so_is_a_canary() -> None:
    lines = [intent(1, "a"), intent(2, "b", kind="canary", tenant=""), sent(3, "c", "d")]
    told = list(calls([{"seq": at, **line} for at, line in enumerate(lines)]))
    assert sorted((c.outcome, c.sent_as) for c in told) == [
        ("sent", ("a",)), ("sent", ("b",)), ("served", ("c", "d")),
    ]  # fmt: skip


def test_one_that_was_sent_and_is_not_clear_is_told_as_any_other() -> None:
    (of_call,) = calls([{"seq": 0, **intent(1, "a", sensitivity=None)}])
    assert of_call.in_cloud_unclear


def test_many_that_are_under_way_are_all_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.accounting.audit.reports.calls._HELD", 10)
    told = calls({"seq": at, **intent(at, str(at))} for at in range(40))
    assert len(list(told)) == 40


def begun(one: int, **changes: Any) -> dict[str, Any]:
    """A call whose first attempt starts, on the premises."""
    (attempt,) = in_cloud()
    stays = {**attempt, "zone": "onprem", "sent_as": None}
    told = {"sensitivity": "clear", "number": one, "attempts": [stays], "outcome": "sent"}
    return {**call(one, end_reason=None), **told, **changes}


def test_a_killed_call_has_all_attempts_that_had_started_and_the_worst_class() -> None:
    more = {"number": 1, "zone": "cloud"}
    away = [{**intent(1, "a"), **more}, {**intent(1, "b", sensitivity=None), **more}]
    lines = [begun(1), away[0], begun(2), away[1]]
    first, second = calls([{"seq": at, **line} for at, line in enumerate(lines)])
    assert (first.outcome, first.zones, first.sent_as) == ("sent", ("onprem", "cloud"), ("a", "b"))
    assert first.in_cloud_unclear
    assert (second.outcome, second.zones) == ("sent", ("onprem",))


def test_what_was_told_as_sent_stays_so_whatever_the_end_tells_of() -> None:
    (attempt,) = in_cloud()
    away = begun(1, attempts=[{**attempt, "sent_as": "a"}])
    end = {"kind": "end", "id": "call-1", "number": 1, "took_s": 0.1, "outcome": "failed"}
    (found,) = calls([{"seq": 0, **away}, {"seq": 1, **end, "attempts": []}])
    assert (found.outcome, found.zones, found.sent_as) == ("failed", ("cloud",), ("a",))


def test_calls_under_one_id_have_each_its_own_end() -> None:
    end = {"kind": "end", "id": "call-1", "took_s": 0.1, "attempts": []}
    lines = [
        begun(1), begun(1, number=2, tenant="other"),
        {**end, "number": 2, "outcome": "failed"}, {**end, "number": 1, "outcome": "served"},
    ]  # fmt: skip
    found = calls([{"seq": at, **line} for at, line in enumerate(lines)])
    assert [(c.tenant, c.outcome) for c in found] == [("other", "failed"), ("clinic", "served")]


def test_an_end_whose_first_part_could_not_be_written_tells_all() -> None:
    whole = {**call(1, kind="end", outcome="failed", attempts=in_cloud()), "number": 1}
    (found,) = calls([{"seq": 0, **whole}])
    assert (found.outcome, found.zones) == ("failed", ("cloud",))
