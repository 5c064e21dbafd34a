"""Recorded decisions, replayed, beside what was done with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gateway.accounting.audit.journal.journal import Journal, JournalOptions
from gateway.accounting.audit.writer.writer import AuditWriter
from gateway.accounting.metrics import Metrics
from gateway.core.types import (
    ONPREM_ONLY,
    Attempt,
    Classification,
    Sensitivity,
    Tensor,
    TensorCall,
    Zone,
)
from gateway.core.types import Outcome as Ended
from gateway.pipeline.accounts import Accounts
from gateway.pipeline.call_account import CallAccount
from gateway.simulate.loop import CLOUD, ONPREM, REFUSED, SimulatedOutcome
from gateway.simulate.moves import as_recorded, moves
from gateway.simulate.records import Replayed, read_records
from gateway.simulate.study import POLICY, replay
from gateway.simulate.workload import MODES, TraceError
from tests.unit import harness


def attempt(zone: str, usd: float = 0.0, result: str = "served") -> dict[str, Any]:
    return {"endpoint": "e", "zone": zone, "result": result, "price_usd": usd}


def record(at_s: float, **fields: object) -> str:
    call = {
        "kind": "call", "id": f"call-{at_s}", "time": at_s + 0.2, "took_s": 0.2, "budget_s": 0.5,
        "sensitivity": "clear", "total_tokens": 100, "model": "m", "outcome": "served",
        "attempts": [attempt("onprem")],
    } | fields  # fmt: skip
    return json.dumps(call)


def replayed(tmp_path: Path, *lines: str, **arguments: Any) -> Replayed:
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_records(path, MODES["ms"], 0, **arguments)


def test_calls_come_when_they_came_with_their_budget_and_class(tmp_path: Path) -> None:
    calls = replayed(
        tmp_path,
        record(1000.0, sensitivity="restricted"),
        record(1003.0, budget_s=2.0, priority=3),
        record(1001.0, sensitivity=None),
    ).calls
    assert calls.arrive_s.tolist() == pytest.approx([0.0, 1.0, 3.0])
    assert calls.restricted.tolist() == [True, True, False]
    assert calls.budget_s.tolist() == [0.5, 0.5, 2.0]
    assert calls.priority.tolist() == [0, 0, 3]
    assert (calls.alternative[calls.restricted] == calls.penalty[calls.restricted]).all()


def test_a_load_compresses_them_as_it_does_a_trace(tmp_path: Path) -> None:
    calls = replayed(tmp_path, *(record(float(at)) for at in range(100)), load=2.0).calls
    assert calls.gpu_s.sum() / calls.arrive_s[-1] == pytest.approx(2.0)
    assert np.unique(calls.budget_s).tolist() == [0.5]


def test_tensors_are_as_much_work_as_they_have_bytes(tmp_path: Path) -> None:
    sizes = (1000, 3000, 2000)
    calls = replayed(
        tmp_path,
        *(record(float(at), input_bytes=n, total_tokens=None) for at, n in enumerate(sizes)),
        load=1.5,
    ).calls
    assert calls.work.tolist() == pytest.approx([0.5, 1.5, 1.0])
    assert calls.gpu_s.sum() / calls.arrive_s[-1] == pytest.approx(1.5)


def test_what_its_caller_keeps_here_is_not_simulated_in_the_cloud(tmp_path: Path) -> None:
    lines = [record(0.001 * at, allowed=["onprem"]) for at in range(200)]
    kept = replayed(tmp_path, *lines)
    assert replay(kept.calls, "static_split").figures.spilled == 0
    assert (kept.calls.alternative == kept.calls.penalty).all()
    free = [record(0.001 * at, allowed=["cloud", "onprem"]) for at in range(200)]
    assert replay(replayed(tmp_path, *free).calls, "static_split").figures.spilled > 0


# What the recorded run did


def test_where_a_call_was_answered_what_it_cost_and_whether_it_was_in_time(tmp_path: Path) -> None:
    failed_over = [attempt("cloud", 0.02, "upstream_failed"), attempt("onprem")]
    expired = [attempt("cloud", 0.03, "deadline_exceeded")]
    found = replayed(
        tmp_path,
        record(0.0),
        record(1.0, attempts=[attempt("cloud", 0.01)]),
        record(2.0, attempts=failed_over),
        record(3.0, attempts=expired, outcome="expired", took_s=0.5),
        record(4.0, attempts=[], outcome="shed"),
        record(5.0, took_s=0.6),
    )
    recorded = found.recorded
    assert recorded.place.tolist() == ["onprem", "cloud", "onprem", "nowhere", "nowhere", "onprem"]
    assert recorded.met.tolist() == [True, True, True, False, False, False]
    assert recorded.cloud_usd.tolist() == [0.0, 0.01, 0.02, 0.03, 0.0, 0.0]
    assert found.calls.unit_usd == pytest.approx(0.01), "the mean of those that the cloud answered"
    figures = as_recorded(found, found.calls)
    assert (figures.calls, figures.spilled, figures.missed) == (6, 1, 3)
    assert figures.attainment.all == 0.5
    assert figures.cloud_cost == pytest.approx(0.06 / 0.01)
    late = found.calls.penalty[[3, 4, 5]].sum()
    assert figures.missed_cost == pytest.approx(late)


def test_a_stream_ends_as_its_second_line_says(tmp_path: Path) -> None:
    began = {"outcome": "streaming", "attempts": [attempt("cloud", 0.0, "streaming")]}
    end = {
        "kind": "end", "id": "call-0.0", "took_s": 0.4, "total_tokens": 900, "outcome": "served",
        "attempts": [attempt("cloud", 0.5)],
    }  # fmt: skip
    found = replayed(tmp_path, record(0.0, **began), record(1.0, **began), json.dumps(end))
    assert found.recorded.place.tolist() == ["cloud", "cloud"]
    assert found.recorded.met.tolist() == [True, False]
    assert found.recorded.cloud_usd.tolist() == [0.5, 0.0]
    assert found.calls.tokens.tolist() == [900, 100]


def test_calls_that_move_are_counted_by_class_and_place(tmp_path: Path) -> None:
    found = replayed(
        tmp_path,
        record(0.0),
        record(1.0, attempts=[attempt("cloud", 0.01)]),
        record(2.0, sensitivity="restricted"),
        record(3.0, sensitivity="restricted", outcome="expired"),
        record(4.0, outcome="shed", attempts=[]),
    )
    place = np.array([CLOUD, ONPREM, ONPREM, ONPREM, REFUSED])
    done_s = found.calls.arrive_s + np.array([0.1, 0.1, 99.0, 0.1, np.inf])
    moved = moves(found, found.calls, SimulatedOutcome(place, done_s, 1, 1.0, 1.0))
    assert moved.clear["onprem"] == {"onprem": 0, "cloud": 1, "nowhere": 0}
    assert moved.clear["cloud"] == {"onprem": 1, "cloud": 0, "nowhere": 0}
    assert moved.clear["nowhere"] == {"onprem": 0, "cloud": 0, "nowhere": 1}
    assert moved.restricted["onprem"] == {"onprem": 0, "cloud": 0, "nowhere": 1}
    assert moved.restricted["nowhere"] == {"onprem": 1, "cloud": 0, "nowhere": 0}
    assert moved.moved == 4


def test_every_call_is_in_one_cell_of_the_matrix(tmp_path: Path) -> None:
    lines = [
        record(0.002 * at, sensitivity="clear" if at % 3 else "restricted") for at in range(300)
    ]
    found = replayed(tmp_path, *lines)
    moved = moves(found, found.calls, replay(found.calls, POLICY).outcome)
    cells = [n for m in (moved.clear, moved.restricted) for row in m.values() for n in row.values()]
    assert sum(cells) == 300
    assert all(row["cloud"] == 0 for row in moved.restricted.values())


# Lines that are no records


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "no object with a kind"),
        ('{"kind": 7}', "no object with a kind"),
        ('{"kind": "call"}', "took_s is not a number"),
        (record(1.0, budget_s=0), "above 0"),
        (record(1.0, took_s="x"), "took_s is not a number"),
        (record(1.0, took_s=True), "took_s is not a number"),
        (record(1.0, total_tokens=-1), "finite number of 0 or more"),
        (record(1.0, time=10**400), "finite number of 0 or more"),
        (record(1.0, budget_s=float("inf")), "finite number of 0 or more"),
        (record(1.0, priority=1e300), "a priority is a digit"),
        (record(1.0, attempts="served"), "list of objects"),
        (record(1.0, attempts=[7]), "list of objects"),
        (record(1.0, attempts=[{"zone": ["onprem"]}]), "an attempt has a zone"),
        (record(1.0, attempts=[{"zone": ""}]), "an attempt has a zone"),
        (record(1.0, attempts=[attempt("cloud") | {"price_usd": "1"}]), "price_usd"),
        ('{"kind": "end", "id": "call-0.0", "took_s": null}', "took_s is not a number"),
    ],
)
def test_a_line_that_is_no_record_is_counted_and_left_out(
    tmp_path: Path, line: str, complaint: str
) -> None:
    found = replayed(tmp_path, record(0.0), line, record(3.0), "", "nonsense")
    assert len(found.calls) == 2
    assert found.skipped.malformed == 2
    assert found.skipped.first.startswith("line 2: ")
    assert complaint in found.skipped.first


def test_bytes_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    lines = [record(0.0).encode(), b"\xff\xfe\x00", record(1.0).encode()]
    path.write_bytes(b"\n".join(lines))
    found = read_records(path, MODES["ms"], seed=0)
    assert (len(found.calls), found.skipped.malformed) == (2, 1)


def test_calls_that_were_rejected_or_to_other_models_are_left_out(tmp_path: Path) -> None:
    lines = (
        record(0.0), record(1.0), record(2.0, outcome="rejected"), record(3.0, model="other"),
        json.dumps({"kind": "reload"}),
    )  # fmt: skip
    found = replayed(tmp_path, *lines, model="m")
    assert len(found.calls) == 2
    assert (found.skipped.rejected, found.skipped.other_models) == (1, 1)
    assert found.skipped.malformed == 0
    assert len(replayed(tmp_path, *lines).calls) == 3


def test_too_few_records_are_refused_with_the_first_bad_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="two different times"):
        replayed(tmp_path, record(0.0))
    with pytest.raises(TraceError, match=r"two different times.*line 2: not JSON"):
        replayed(tmp_path, record(0.0), "{")


# What a gateway writes


def test_what_a_gateway_writes_can_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "000000000000.jsonl"
    tensors = TensorCall((Tensor("x", "FP32", (2, 4), bytes(32)),))

    async def three_calls() -> None:
        log = AuditWriter(Journal(JournalOptions(tmp_path, "test")), Metrics(), checkpoint_s=60.0)
        log.start(dict)
        accounts = Accounts(log, Metrics(), harness.now_s, "policy")
        for number in range(3):
            request = harness.request(payload=tensors if number else None, priority=number)
            account = CallAccount(accounts, request)
            clear = Sensitivity.CLEAR if number else Sensitivity.RESTRICTED
            account.classification = Classification(request.id, clear, "clear")
            zone = Zone.CLOUD if number else Zone.ONPREM
            account.attempted(Attempt("e", zone, ONPREM_ONLY, "served", price_usd=0.25 * number))
            account.settle(Ended.SERVED, "served")
        await log.aclose()

    asyncio.run(three_calls())
    lines: list[Mapping[str, Any]] = [json.loads(line) for line in path.open()]
    assert [line["kind"] for line in lines] == ["segment", "start", *3 * ["call"], "stop"]
    written = lines[2:5]
    assert [line["input_bytes"] for line in written] == [None, 32, 32]
    assert [line["priority"] for line in written] == [0, 1, 2]
    spread = "\n".join(
        json.dumps({**line, "time": line["time"] + at}) for at, line in enumerate(written)
    )
    path.write_text("\n".join([json.dumps(lines[0]), spread, json.dumps(lines[-1])]))
    found = read_records(tmp_path, MODES["ms"], seed=0)
    assert found.skipped.malformed == 0
    assert found.recorded.place.tolist() == ["onprem", "cloud", "cloud"]
    assert found.calls.restricted.tolist() == [True, False, False]
    assert found.recorded.cloud_usd.tolist() == [0.0, 0.25, 0.5]
    assert found.calls.priority.tolist() == [0, 1, 2]
