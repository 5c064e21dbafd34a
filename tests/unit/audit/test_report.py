"""The page for a quarter: what it counts, what it admits, and that it loads nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.accounting.audit.journal.segments import segments
from gateway.accounting.audit.reports.figures import AuditFigures
from gateway.accounting.audit.reports.query import quarter
from gateway.accounting.audit.verify import records
from tests.unit.audit import rig
from tests.unit.audit.rig import DAY_S, Wall, call, in_cloud, put, written

CLEAR = {"sensitivity": "clear", "attempts": in_cloud(), "end_reason": "spill_queue"}


def quarter_of(directory: Path, *calls: dict[str, object]) -> Path:
    with written(directory) as into:
        put(into, *calls)
    return directory


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page(directory: Path, out: Path, *more: str, code: int = 0) -> str:
    asked = ["audit", "report", "--directory", str(directory), "--quarter", "2026Q3"]
    assert main([*asked, "--out", str(out), *more]) == code
    return out.read_text()


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", text.partition("</style>")[2]).split())


def test_the_page_counts_what_is_on_record(tmp_path: Path) -> None:
    shed: dict[str, object] = {
        "sensitivity": None,
        "attempts": [],
        "outcome": "shed",
        "end_reason": "saturated",
    }
    directory = quarter_of(tmp_path / "audit", call(0), call(1, **CLEAR), call(2, **shed))
    told = words(page(directory, tmp_path / "page.html"))
    assert "0 of 2 calls that were restricted, or not read, touched the cloud. 3 calls" in told
    assert "class onprem cloud nowhere clear 0 1 0 restricted 1 0 0 unknown 0 0 1" in told
    assert "touched the cloud time call class zones tenant model There is none." in told
    assert "unknown saturated 1" in told
    assert "every record fits the one before it" in told
    assert "abc123 2026-07-01 00:00:00 2026-07-01 00:00:02 3" in told


def test_the_page_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    text = page(quarter_of(tmp_path / "audit", call(0, tenant="<b>&")), tmp_path / "page.html")
    tags = Tags(text)
    assert tags.open == []
    assert not tags.seen & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert not tags.attributes & {"src", "href", "style", "srcset"}
    assert "url(" not in text
    assert "@import" not in text
    assert "&lt;b&gt;&amp;" in text
    assert "<b>&" not in text


def test_a_leak_is_on_the_page_and_fails_the_command(tmp_path: Path) -> None:
    directory = quarter_of(tmp_path / "audit", call(0), call(1, attempts=in_cloud()))
    text = page(directory, tmp_path / "page.html", code=1)
    assert 'class="verdict wrong"' in text
    told = words(text)
    assert "1 of 2 calls that were restricted" in told
    assert "call-1 restricted cloud clinic chat" in told


def test_records_that_were_changed_are_not_counted(tmp_path: Path) -> None:
    directory = quarter_of(tmp_path / "audit", call(0), call(1))
    path = segments(directory)[0].path
    path.write_bytes(path.read_bytes().replace(b"clinic", b"clinik", 1))
    told = words(page(directory, tmp_path / "page.html", code=1))
    assert "No statement can be made." in told
    assert "the records were changed" in told
    assert "0 calls are on record" not in told


def test_a_quarter_without_calls_is_a_page_too(tmp_path: Path) -> None:
    told = words(page(quarter_of(tmp_path / "audit"), tmp_path / "page.html"))
    assert "0 of 0 calls" in told
    assert told.count("There were none.") == 4


def test_times_without_a_gateway_or_records_are_told(tmp_path: Path) -> None:
    wall = Wall()
    first = rig.journal(tmp_path, wall)
    put(first, call(1))
    wall.now_s += 60
    first.close()
    wall.now_s += DAY_S
    killed = rig.journal(tmp_path, wall)
    killed.note("gap", since=wall.now_s - 30, records=4, why="No space left on device")
    killed._lock.release()
    wall.now_s += 2 * DAY_S
    with written(tmp_path, wall):
        pass
    figures = AuditFigures(quarter("2026Q3"))
    figures.add(records(tmp_path))
    told = [(gap.why, round(gap.until_s - gap.from_s)) for gap in figures.gaps]
    assert told == [
        ("stopped", round(DAY_S)),
        ("No space left on device", 30),
        ("killed", round(2 * DAY_S)),
    ]
    assert figures.unrecorded == 4


@pytest.mark.parametrize("name", ["2026Q2", "2026Q4"])
def test_calls_of_another_quarter_are_not_counted(tmp_path: Path, name: str) -> None:
    figures = AuditFigures(quarter(name))
    figures.add(records(quarter_of(tmp_path, call(0), call(1, attempts=in_cloud()))))
    assert (figures.calls, figures.leaks, figures.gaps) == (0, [], [])
