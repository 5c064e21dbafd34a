"""Recorded decisions, replayed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gateway.simulate.records import read_records
from gateway.simulate.workload import MODES, TraceError


def record(at_s: float, **fields: object) -> str:
    call = {
        "kind": "call", "time": at_s + 0.2, "took_s": 0.2, "budget_s": 0.5,
        "sensitivity": "clear", "total_tokens": 100,
    } | fields  # fmt: skip
    return json.dumps(call)


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_calls_come_when_they_came_with_their_budget_and_class(tmp_path: Path) -> None:
    path = write(
        tmp_path / "records.jsonl",
        record(1000.0, sensitivity="restricted"),
        record(1003.0, budget_s=2.0),
        record(1001.0, sensitivity=None),
        json.dumps({"kind": "end", "id": "x"}),
    )
    calls = read_records(path, MODES["ms"], seed=0)
    assert calls.arrive_s.tolist() == pytest.approx([0.0, 1.0, 3.0])
    assert calls.restricted.tolist() == [True, True, False]
    assert calls.budget_s.tolist() == [0.5, 0.5, 2.0]
    assert (calls.alternative[calls.restricted] == calls.penalty[calls.restricted]).all()


def test_a_load_compresses_them_as_it_does_a_trace(tmp_path: Path) -> None:
    path = write(tmp_path / "records.jsonl", *(record(float(at)) for at in range(100)))
    calls = read_records(path, MODES["ms"], seed=0, load=2.0)
    assert calls.gpu_s.sum() / calls.arrive_s[-1] == pytest.approx(2.0)
    assert np.unique(calls.budget_s).tolist() == [0.5]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", ":2: not a decision record"),
        ("[]", ":2: not a decision record"),
        ('{"kind": "call"}', ":2: not a decision record"),
        (record(1.0, budget_s=0), ":2: .* above 0"),
        (record(1.0, took_s="x"), ":2: not a decision record"),
    ],
)
def test_a_bad_record_is_refused_with_its_place(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path / "records.jsonl", record(0.0), line)
    with pytest.raises(TraceError, match=complaint):
        read_records(path, MODES["ms"], seed=0)


def test_too_few_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="two different times"):
        read_records(write(tmp_path / "records.jsonl", record(0.0)), MODES["ms"], seed=0)
