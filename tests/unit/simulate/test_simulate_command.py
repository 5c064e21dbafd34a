"""`spillway simulate`: figures, pictures, and complaints that help."""

from __future__ import annotations

import html
import json
import logging
import re
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


def test_json_without_a_stormy_cloud_has_the_fields_that_it_always_had(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--trace", str(trace), "--json", "--only", "policy", "--sweep=1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == {"policy", "servers"}
    assert found["policy"].keys() == found["servers"][0]["figures"].keys() == {
        "calls", "regret", "attainment", "cloud_cost", "missed_cost", "spilled", "shed",
        "restricted_in_cloud", "utilisation", "mean_batch", "took_s",
    }  # fmt: skip


def test_pictures_are_written(trace: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    arguments = ["--only", "policy", "--sweep", "2", "--html", str(page), "--png", str(picture)]
    assert main(["simulate", "--trace", str(trace), *arguments]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "bursty.csv" in text
    assert "http://" not in text.partition("<svg")[0], "the page needs nothing from elsewhere"
    assert "the cloud fails" not in text


def test_outages_are_drawn_into_the_routes_over_time(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    outages = ["--cloud-outage", "0.1-0.2:hangs", "--cloud-slow", "0.3-0.4*5"]
    arguments = ["--only", "policy", "--only", "static_split", "--no-bound", "--html", str(page)]
    assert main(["simulate", "--trace", str(trace), *outages, *arguments]) == 0
    svg = page.read_text(encoding="utf-8").partition("<svg")[2]
    drawn = re.findall("<!-- (.*?) -->", svg)
    assert "the cloud fails, or is slow" in drawn
    titles = [line for line in drawn if line.startswith("Where the calls went")]
    assert titles == [
        "Where the calls went, in %: policy", "Where the calls went, in %: static split",
    ]  # fmt: skip
    assert svg.count("url(#h") >= 4, "two hatched spans in each"


def test_the_cloud_of_a_stormy_simulation_is_told_of(
    trace: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    arguments = ["--cloud-outage", "0.0-0.5", "--cloud-limit", "7", "--cloud-retry-after", "0.2"]
    arguments += ["--no-bound", "--load", "2", "--only", "static_split"]
    assert main(["simulate", "--trace", str(trace), *arguments, "--json"]) == 0
    cloud = json.loads(capsys.readouterr().out)["static_split"]["cloud"]
    assert cloud["attempts"]["failed"] > 0
    assert cloud["attempts"]["ejections"] == 1
    assert cloud["in_trouble"]["all"] is not None
    assert main(["simulate", "--trace", str(trace), *arguments]) == 0
    out, err = capsys.readouterr()
    assert "in the cloud" in out
    assert "ejected" not in err, "the simulated gateway's log is nobody's"
    assert caplog.records == []
    logging.getLogger("gateway.endpoints.outcomes").warning("told")
    assert len(caplog.records) == 1, "and later ones are heard again"


CONFIG = """
endpoints:
  gpu: {kind: triton, zone: onprem, grpc: "127.0.0.1:9001", expected_ms: 10}
  cloud: {kind: kserve, zone: cloud, url: "http://127.0.0.1:9", expected_ms: 150}
models:
  scorer:
    tensors: clear
    max_batch: 16
    served_by: [{endpoint: gpu}, {endpoint: cloud, price_usd: 0.002}]
routing: {policy: queue_cap}
"""


def test_the_policy_is_that_of_the_settings(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "spillway.yaml"
    settings.write_text(CONFIG)
    arguments = ["--trace", str(trace), "--config", str(settings), "--json", "--sweep", "2"]
    assert main(["simulate", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert tuple(found) == (*NAMES, "servers")
    for figures in found.values():
        if isinstance(figures, dict):
            figures.pop("took_s")
    assert found["policy"] == found["queue_cap"]
    assert [size["servers"] for size in found["servers"]] == [1, 2]


def test_settings_that_serve_would_refuse_are_refused_with_their_line(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "spillway.yaml"
    settings.write_text(CONFIG.replace("policy:", "polcy:"))
    assert main(["simulate", "--trace", str(trace), "--config", str(settings)]) == 2
    complained = capsys.readouterr().err.replace("\n", "")
    assert main(["check", str(settings)]) == 2
    assert "spillway.yaml:10" in complained
    assert "did you mean policy?" in complained
    assert "did you mean policy?" in capsys.readouterr().err.replace("\n", "")


def test_a_model_without_settings_is_refused(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--trace", str(trace), "--model", "scorer"]) == 2
    assert "--config" in capsys.readouterr().err


def recorded(path: Path) -> Path:
    """Every third call restricted, every other clear one in the cloud, one line cut off."""
    lines = []
    for at in range(60):
        restricted, cloud = at % 3 == 0, at % 2 == 0
        zone = "cloud" if cloud and not restricted else "onprem"
        line = {
            "kind": "call", "id": str(at), "time": 0.01 * at, "took_s": 0.1, "budget_s": 0.5,
            "model": "scorer", "sensitivity": "restricted" if restricted else "clear",
            "total_tokens": 10, "outcome": "served",
            "attempts": [{"zone": zone, "result": "served", "price_usd": 0.01}],
        }  # fmt: skip
        lines.append(json.dumps(line))
    path.write_text("\n".join([*lines, lines[0][:40]]), encoding="utf-8")
    return path


def test_records_are_replayed_beside_what_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = recorded(tmp_path / "decisions.jsonl")
    assert main(["simulate", "--records", str(records), "--json", "--only", "policy"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["policy"]["attainment"] == {"all": 1.0, "restricted": 1.0, "clear": 1.0}
    assert found["recorded"]["spilled"] == 20
    assert found["recorded"]["unit_usd"] == pytest.approx(0.01)
    assert found["recorded"]["cloud_cost"] == pytest.approx(20)
    moved = found["moves"]["policy"]
    assert moved["restricted"]["onprem"]["onprem"] == 20
    assert sum(moved["clear"]["cloud"].values()) == 20
    assert found["skipped"]["malformed"] == 1
    assert "1 line" in err
    assert "line 61: not JSON" in err


def test_records_are_told_of_in_words_and_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records, page = recorded(tmp_path / "decisions.jsonl"), tmp_path / "report.html"
    arguments = ["--only", "policy", "--no-bound", "--html", str(page)]
    assert main(["simulate", "--records", str(records), *arguments]) == 0
    out = capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    for shown in (out, html.unescape(text)):
        assert "recorded -> policy" in shown
        assert "calls would have gone elsewhere" in shown
    assert "line 61: not JSON" in text
    assert re.search(r"<!-- recorded -->", text), "a bar of its own"


def test_records_of_other_models_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = recorded(tmp_path / "decisions.jsonl")
    arguments = ["--model", "other", "--only", "policy", "--no-bound"]
    assert main(["simulate", "--records", str(records), *arguments]) == 2
    assert "two different times" in capsys.readouterr().err


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
        ["--cloud-limit", "0"],
        ["--cloud-outage", "5"],
        ["--cloud-outage", "5-4"],
        ["--cloud-outage", "1-2:sulks"],
        ["--cloud-slow", "1-2"],
        ["--cloud-slow", "1-2*0"],
        ["--cloud-slow", "1-inf*2"],
    ],
)
def test_impossible_arguments_are_refused(trace: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", "--trace", str(trace), *arguments])
    assert stopped.value.code == 2
