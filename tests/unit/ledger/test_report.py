"""What `spillway costs` says: sums that add up, what was saved, and what another GPU would do."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gateway.__main__ import main
from gateway.accounting.ledger import report as reporting
from gateway.accounting.ledger.chart import svg
from gateway.accounting.ledger.entry import Entry
from gateway.accounting.ledger.opening import opened
from gateway.accounting.ledger.report import BY, BadQuestion, GpuPrice, ReportQuery, SpendReport
from gateway.accounting.pricing import nano
from tests.unit.ledger.conftest import Where
from tests.unit.ledger.entries import DAY_S, NOON_S, WallClock, abroad, at_home

PRICES = {"gpu": GpuPrice(1, 2.0)}
_SETTINGS = """\
endpoints:
  gpu: {kind: triton, zone: onprem, grpc: "gpu-1:8001", gpu_usd_per_hour: 2.0}
models:
  chat: {served_by: [{endpoint: gpu}]}
"""

WEEK = (
    at_home(0.5, 900.0, cloud_nano_usd=nano(2.0), at_s=NOON_S - DAY_S),
    at_home(0.25, 900.0, cloud_nano_usd=nano(3.0), tenant="lab"),
    at_home(0.1, 600.0, model="fraud"),
    at_home(0.1, 0.0, restricted=1, reason="restricted"),
    at_home(0.05, 0.0, result="upstream_failed"),
    abroad(4.0, input_tokens=10, output_tokens=5),
    abroad(1.0, tenant="lab", result="cancelled", estimated=1),
    abroad(0.5, tenant="lab", reason="cloud_only"),
)


def report(where: Where, *entries: Entry, question: ReportQuery | None = None) -> SpendReport:
    store = where.store()
    store.commit(1, entries)
    store.close()
    database = where.database()
    try:
        return reporting.report(database, question or ReportQuery(), PRICES, NOON_S + 3600)
    finally:
        database.close()


@pytest.mark.parametrize("by", BY)
def test_by_whatever_it_is_grouped_it_adds_up(place: Where, by: str) -> None:
    found = report(place, *WEEK, question=ReportQuery(by=by))
    assert found.whole.spent == sum(e.nano_usd for e in WEEK)
    assert found.whole.attempts == len(WEEK)
    assert found.whole.unserved == nano(1.05)
    assert found.whole.tokens == 15
    assert found.whole.estimated == 1
    assert (found.first, found.last) == (date(2025, 12, 2), date(2025, 12, 3))


def test_groups_are_told_apart(place: Where) -> None:
    found = report(place, *WEEK)
    told = {g.name: (g.attempts, g.onprem, g.cloud) for g in found.groups}
    assert told == {"ward": (5, nano(0.75), nano(4.0)), "lab": (3, nano(0.25), nano(1.5))}
    assert [g.name for g in found.groups] == ["ward", "lab"], "the dearest first"


def test_what_was_saved_counts_clear_calls_that_the_cloud_has_a_price_for(place: Where) -> None:
    saved = report(place, *WEEK).saved
    assert (saved.calls, saved.not_compared) == (2, 1)
    assert saved.nano_usd == nano(5.0) - nano(0.75)


def test_the_break_even_is_where_a_busy_hour_costs_what_it_replaces(place: Where) -> None:
    """Half an hour replaced 5 USD of cloud, so a busy hour is worth 10; one by the calendar costs
    2, in use or not: a fifth of it is enough."""
    (gpu,) = report(place, *WEEK).gpus
    assert gpu.busy_h == pytest.approx(2400 / 3600)
    assert gpu.break_even == pytest.approx(0.2)
    assert gpu.utilisation == pytest.approx(2400 / (25 * 3600)), "since the first entry"


def test_all_places_of_an_endpoint_are_on_its_gpus(place: Where) -> None:
    found = report(
        place,
        at_home(0.5, 900.0, cloud_nano_usd=nano(2.0)),
        at_home(0.5, 900.0, cloud_nano_usd=nano(2.0), endpoint="gpu#m:2"),
    )
    (gpu,) = found.gpus
    assert (gpu.endpoint, gpu.busy_h, gpu.hour_usd) == ("gpu", 0.5, 2.0)


def test_another_gpu_pays_when_what_left_for_want_of_room_costs_more(place: Where) -> None:
    """5 USD in 25 hours are 146 a month; a GPU of 2 USD an hour is 1,461, of 0.1 it is 73."""
    dear = report(place, *WEEK).another
    assert dear is not None
    assert dear.spilled == 1
    assert dear.spilled_month_usd == pytest.approx(5 / 25 * 730.5)
    assert not dear.pays
    database = place.database()
    cheap = reporting.report(
        database, ReportQuery(), {"gpu": GpuPrice(1, 0.1)}, NOON_S + 3600
    ).another
    database.close()
    assert cheap is not None
    assert cheap.pays


def test_another_gpu_saves_no_more_than_it_could_have_served(place: Where) -> None:
    """What left would have kept two GPUs busy: one keeps half of it."""
    left = [abroad(1.0) for _ in range(48)]
    found = report(place, at_home(0.1, 3600.0), *left, at_home(0.0, 0.0, at_s=NOON_S - 23 * 3600))
    assert found.another is not None
    assert found.another.needs == pytest.approx(1.0)  # half an hour each, on average
    more = reporting.Another(48, 1000.0, 1.0, needs=4.0)
    assert more.saves_month_usd == 250.0


def test_a_part_of_the_days_and_one_tenant(place: Where) -> None:
    yesterday = ReportQuery(last=date(2025, 12, 2))
    assert report(place, *WEEK, question=yesterday).whole.spent == nano(0.5)
    database = place.database()
    lab = reporting.report(database, ReportQuery(tenant="lab"), PRICES, NOON_S)
    database.close()
    assert lab.whole.spent == nano(1.75)
    assert lab.another is None, "a GPU is everybody's"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (ReportQuery(tenant="nobody"), "no tenant 'nobody' in the ledger; there are: lab, ward"),
        (ReportQuery(first=date(2026, 1, 1)), "the ledger has 2025-12-02 to 2025-12-03"),
    ],
)
def test_what_has_no_answer_says_what_there_is(
    place: Where, question: ReportQuery, told: str
) -> None:
    with pytest.raises(BadQuestion, match=told):
        report(place, *WEEK, question=question)


def test_an_empty_ledger_says_that_it_is(place: Where) -> None:
    with pytest.raises(BadQuestion, match="the ledger is empty"):
        report(place)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("team", None, None), "there are: tenant, model, zone, endpoint, reason, day"),
        ((None, "yesterday", None), "from: 'yesterday' is no day; write it as 2026-11-30"),
        ((None, None, "2026-02-30"), "to: '2026-02-30' is no day"),
        ((None, "2025-12-03", "2025-12-02"), "swap them"),
        (("tenant; DROP TABLE days", None, None), "by: no"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    asked: tuple[str | None, str | None, str | None], told: str
) -> None:
    with pytest.raises(BadQuestion, match=told):
        ReportQuery.from_arguments(*asked, None)


# --- the command ---


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    ledger = tmp_path / "ledger.db"
    store = opened(ledger, None, WallClock())
    store.commit(1, WEEK)
    store.close()
    path = tmp_path / "spillway.yaml"
    path.write_text(_SETTINGS + f"ledger: {{path: {ledger}}}\n")
    return path


def test_the_table_says_what_it_comes_to(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["costs", "--config", str(settings), "--to", "2025-12-03"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for needed in (
        "Spend by tenant, 2025-12-02 to 2025-12-03", "ward", "lab", "6.500000",
        "Saved against all-cloud: 4.250000 USD", "1 more are not compared",
        "break-even at 20.0%", "Another GPU would not pay for itself",
    ):  # fmt: skip
        assert needed in told


def test_json_and_csv_have_all_of_it(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["costs", "--config", str(settings), "--by", "day", "--to", "2025-12-03"]
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["all"]["usd"] == 6.5
    assert [g["name"] for g in document["groups"]] == ["2025-12-02", "2025-12-03"]
    assert document["gpus"][0]["break_even_utilisation"] == 0.2
    assert main([*command, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(r["day"], float(r["cloud_usd"])) for r in rows] == [
        ("2025-12-02", 0.0),
        ("2025-12-03", 5.5),
    ]


def test_a_name_with_colons_stays_a_name(
    settings: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    store = opened(tmp_path / "ledger.db", None, WallClock())
    store.commit(9, [abroad(1.0, model="ft:gpt-4o:acme:cat:id")])
    store.close()
    command = ["costs", "--config", str(settings), "--by", "model", "--to", "2025-12-03"]
    assert main(command) == 0
    assert "ft:gpt-4o:acme:cat:id" in capsys.readouterr().out


def test_the_picture_is_well_formed_and_asks_nobody(settings: Path, tmp_path: Path) -> None:
    picture = tmp_path / "costs.svg"
    assert main(["costs", "--config", str(settings), "--csv", "--svg", str(picture)]) == 0
    text = picture.read_text()
    bars = ElementTree.fromstring(text).findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 3 + 2 * 2  # the ground, the key, and a bar of two parts for each
    assert not re.search(r"<script|href|url\(", text)


def test_a_name_with_markup_stays_a_name_in_the_picture(place: Where) -> None:
    found = report(place, abroad(1.0, tenant='<script>"&'))
    assert "<script>" not in svg(found)
    ElementTree.fromstring(svg(found))


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--tenant", "nobody"], 2, "no tenant 'nobody'"),
        (["--from", "soon"], 2, "is no day"),
        (["--by", "team"], 2, "there are: tenant"),
    ],
)
def test_what_was_wrong_is_said_and_the_exit_code_tells(
    settings: Path, words: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["costs", "--config", str(settings), *words]) == code
    assert told in capsys.readouterr().err


def test_without_a_ledger_the_command_says_who_writes_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spillway.yaml"
    path.write_text(_SETTINGS + f"ledger: {{path: {tmp_path / 'none.db'}}}\n")
    assert main(["costs", "--config", str(path)]) == 1
    assert "it is written by `spillway serve`" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()
