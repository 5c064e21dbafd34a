"""`spillway simulate`: figures, pictures, and complaints that help."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.simulate.study import NAMES
from tests.unit.simulate.traces import bursty, write


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(bursty(300), tmp_path / "bursty.csv")


def test_json_has_the_policy_and_every_baseline(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--load", "2", "--seed", "3", "--mode", "s", "--replicas", "2", "--json"]
    assert main(["simulate", "--trace", str(trace), *arguments]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert tuple(found) == NAMES
    for figures in found.values():
        wanted = {"regret", "attainment", "cloud_cost", "spilled", "shed", "restricted_in_cloud"}
        assert wanted <= figures.keys()
        assert figures["attainment"].keys() == {"all", "restricted", "clear"}
        assert figures["restricted_in_cloud"] == 0
    assert "bound" in err  # what it is busy with


def test_the_table_names_every_policy(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--trace", str(trace), "--sweep", "3"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in NAMES)
    assert "cheapest: " in out


def test_pictures_are_written(trace: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    arguments = ["--only", "policy", "--sweep", "2", "--html", str(page), "--png", str(picture)]
    assert main(["simulate", "--trace", str(trace), *arguments]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "bursty.csv" in text
    assert "http://" not in text.partition("<svg")[0], "the page needs nothing from elsewhere"


def test_records_are_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = tmp_path / "decisions.jsonl"
    lines = (
        json.dumps(
            {
                "kind": "call", "time": float(at), "took_s": 0.1, "budget_s": 0.5,
                "sensitivity": "restricted", "total_tokens": 10,
            }
        )
        for at in range(50)
    )  # fmt: skip
    records.write_text("\n".join(lines), encoding="utf-8")
    assert main(["simulate", "--records", str(records), "--json", "--only", "policy"]) == 0
    figures = json.loads(capsys.readouterr().out)["policy"]
    assert figures["attainment"] == {"all": 1.0, "restricted": 1.0, "clear": None}
    assert figures["spilled"] == 0


def test_without_the_bound_there_is_no_regret(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--trace", str(trace), "--no-bound", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"]["regret"] is None


def test_a_bad_trace_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("seconds,in,out\n1,2,3\n2,4\n", encoding="utf-8")
    assert main(["simulate", "--trace", str(bad)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "bad.csv:3" in err.replace("\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--load", "0"],
        ["--load", "nan"],
        ["--replicas", "0"],
        ["--mode", "h"],
        ["--only", "nothing"],
        ["--hop-ms", "-1"],
    ],
)
def test_impossible_arguments_are_refused(trace: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", "--trace", str(trace), *arguments])
    assert stopped.value.code == 2
