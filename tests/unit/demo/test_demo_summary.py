"""The arithmetic of the demo's summary."""

from __future__ import annotations

import json

import pytest

from gateway.demo.plan import ClientMethod
from gateway.demo.summary import percentile, summarise
from tests.unit.demo.demo_calls import call, decided, ended, kept, refused, spilled


def test_each_call_is_counted_once_in_every_table() -> None:
    calls = [kept(), spilled(), refused(), ended(call(), decided("onprem"))]
    summary = summarise(calls)
    for part in (
        [group.calls for group in summary.groups.values()],
        list(summary.reasons.values()),
        [tally.calls for tally in summary.by_phase.values()],
        [tally.calls for tally in summary.by_protocol.values()],
        [tally.calls for tally in summary.by_client.values()],
        [summary.total.onprem, summary.total.cloud, summary.total.unanswered],
    ):
        assert sum(part) == len(calls)


def test_a_call_is_where_it_was_answered_and_nowhere_without_an_answer() -> None:
    groups = summarise([kept(), spilled(), refused()]).groups
    assert {key: group.calls for key, group in groups.items()} == {
        ("restricted", "onprem"): 1,
        ("restricted", "cloud"): 0,
        ("restricted", "none"): 1,
        ("clear", "onprem"): 0,
        ("clear", "cloud"): 1,
        ("clear", "none"): 0,
    }


def test_a_caller_that_got_no_answer_was_not_served_whatever_the_record_says() -> None:
    left = ended(call(), decided("onprem"), ok=False, status="timeout")
    assert summarise([left]).total.unanswered == 1


def test_a_restricted_call_that_the_cloud_answered_is_shown_there() -> None:
    leaked = ended(call(restricted=True), decided("cloud", reason="spill_queue"))
    assert summarise([leaked]).groups["restricted", "cloud"].calls == 1


def test_only_calls_that_onprem_could_have_served_count_as_spilled() -> None:
    summary = summarise([spilled(), spilled("spill_deadline"), spilled("cloud_only"), kept()])
    assert (summary.total.cloud, summary.total.spilled) == (3, 2)


def test_reasons_say_where_and_why_the_commonest_first() -> None:
    calls = [spilled(), refused(), spilled("failover"), kept(), spilled("failover")]
    assert list(summarise(calls).reasons.items()) == [
        (("onprem", "restricted"), 1),
        (("cloud", "failover"), 2),
        (("cloud", "spill_queue"), 1),
        (("none", "onprem_unavailable_restricted"), 1),
    ]


def test_a_call_without_a_record_has_the_clients_own_word_for_a_reason() -> None:
    lost = ended(call(), None, ok=False, status="unreached")
    assert summarise([lost]).reasons == {("none", "unreached"): 1}


def test_a_budget_is_met_by_an_answer_within_it_and_by_nothing_else() -> None:
    total = summarise(
        [
            ended(call(budget_ms=500), decided("onprem"), took_s=0.5),
            ended(call(budget_ms=500), decided("onprem"), took_s=0.501),
            ended(call(budget_ms=500), decided("onprem"), took_s=0.1, ok=False),
            ended(call(budget_ms=None), decided("onprem"), took_s=0.1),
        ]
    ).total
    assert (total.deadline_stated, total.deadline_met) == (3, 1)


@pytest.mark.parametrize(
    ("values", "share", "found"),
    [
        ([], 0.5, None),
        ([7.0], 0.95, 7.0),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0),
        ([float(n) for n in range(100, 0, -1)], 0.95, 95.0),
        ([1.0, 2.0], 0.95, 2.0),
    ],
)
def test_percentiles_are_by_nearest_rank(
    values: list[float], share: float, found: float | None
) -> None:
    assert percentile(values, share) == found


def test_quantiles_of_a_group_are_of_its_own_calls() -> None:
    slow = ended(call(restricted=True), decided("onprem", restricted=True), took_s=3.0)
    groups = summarise([spilled(took_s=0.1), spilled(took_s=0.3), slow]).groups
    assert (groups["clear", "cloud"].p50_ms, groups["clear", "cloud"].p95_ms) == (100.0, 300.0)
    assert groups["restricted", "onprem"].p50_ms == 3000.0


def test_what_failed_attempts_cost_is_counted_in_the_zone_where_it_was_spent() -> None:
    both = ended(call(), decided("onprem", "cloud", reason="failover", price_usd=0.25))
    summary = summarise([both])
    assert summary.cost_usd == {"onprem": 0.25, "cloud": 0.25}
    assert summary.groups["clear", "cloud"].cost_usd == 0.5


def test_clear_calls_held_to_be_restricted_are_false_alarms() -> None:
    alarm = ended(call(), decided("onprem", restricted=True, reason="restricted"))
    assert summarise([alarm, kept(), spilled()]).false_alarms == 1


def test_tables_by_protocol_and_phase_hold_their_own_calls() -> None:
    grpc = ended(call(way=ClientMethod.GRPC, phase="burst"), decided("cloud", reason="spill_queue"))
    summary = summarise([grpc, kept(phase="calm")])
    assert summary.by_protocol["kserve-grpc"].spilled == 1
    assert summary.by_protocol["openai"].restricted == 1
    assert list(summary.by_phase) == ["calm", "burst"]
    assert summary.by_phase["burst"].cloud == 1


def test_the_summary_is_json_with_the_names_that_programs_rely_on() -> None:
    told = json.loads(json.dumps(summarise([kept(), spilled(), refused()]).as_json()))
    expected = {"calls": 3, "restricted": 2, "onprem": 1, "cloud": 1, "spilled": 1}
    assert {name: told[name] for name in expected} == expected
    assert told["by_protocol"]["openai"]["calls"] == 3
    assert told["deadline_met"] == 2
