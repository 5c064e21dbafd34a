"""Every edit, deletion, reordering and truncation is told, with its place and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from gateway.accounting.audit import AuditError
from gateway.accounting.audit.journal.segments import segments
from gateway.accounting.audit.verify import public_key, records, verify
from loadtests.audit.tampering import KINDS, tries
from tests.unit.audit import rig
from tests.unit.audit.rig import checked, newest_note

Change = Callable[[list[bytes]], list[bytes]]


def changed(path: Path, change: Change) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def middle(directory: Path) -> Path:
    return segments(directory)[1].path


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return rig.audit(tmp_path, calls=30)


def test_an_audit_that_nobody_touched_holds(audit: Path) -> None:
    found = checked(audit, newest_note(audit))
    assert found.findings == []
    assert found.outside == 1
    assert (found.unsigned, found.stopped, found.running) == (0, True, False)
    assert found.head.size == len(rig.lines(audit))


def test_of_many_random_changes_each_is_noticed(tmp_path: Path) -> None:
    """`python -m loadtests.audit.tampering --tries 10000` is the long one."""
    done = list(tries(tmp_path, 250, seed=4))
    assert {kind for kind, _, _ in done} == set(KINDS)
    assert [(kind, number) for kind, number, noticed in done if not noticed] == []


@pytest.mark.parametrize(
    ("change", "line", "told"),
    [
        (lambda ls: [*ls[:3], ls[3].replace(b"clinic", b"clinik"), *ls[4:]], 4, "does not fit it"),
        (lambda ls: [*ls[:3], *ls[4:]], 4, "is due here, and another one stands here"),
        (lambda ls: [*ls[:2], ls[3], ls[2], *ls[4:]], 3, "is due here, and another one"),
        (lambda ls: [*ls[:4], *ls[3:]], 5, "is due here, and another one"),
        (lambda ls: [*ls[:3], ls[3][:-1] + b" \n", *ls[4:]], 4, "does not end with a hash"),
        (lambda ls: [*ls[:3], b"\n", *ls[3:]], 4, "does not end with a hash"),
        (lambda ls: ls[1:], 1, "a segment begins with its header"),
        (lambda ls: [], 1, "Expecting value"),
    ],
    ids=["edited", "deleted", "swapped", "doubled", "space", "empty line", "no header", "emptied"],
)
def test_a_change_is_told_with_its_file_and_line(
    audit: Path, change: Change, line: int, told: str
) -> None:
    changed(middle(audit), change)
    first = checked(audit).findings[0]
    assert (first.file, first.line) == (str(middle(audit)), line)
    assert told in first.what
    assert "compare with a copy" in first.do


def test_a_segment_that_is_cut_short_does_not_meet_the_next(audit: Path) -> None:
    changed(middle(audit), lambda lines: lines[:-1])
    (finding,) = checked(audit).findings
    assert finding.file == str(segments(audit)[2].path)
    assert "and this goes on from" in finding.what


def test_a_segment_that_is_gone_does_too(audit: Path) -> None:
    segments(audit)[1].checkpoints.unlink()
    segments(audit)[1].path.unlink()
    assert "and this goes on from" in checked(audit).findings[0].what


# The end


def cut(directory: Path, lines: int) -> None:
    changed(segments(directory)[-1].path, lambda found: found[:-lines])


def test_a_cut_end_is_missed_by_the_checkpoint_beside_it(audit: Path) -> None:
    size = checked(audit).head.size
    cut(audit, 2)
    (finding,) = checked(audit).findings
    assert f"{size} records were there when it was signed, and {size - 2} are" in finding.what


def test_a_cut_end_with_its_checkpoints_is_missed_by_one_from_elsewhere_and_by_no_other(
    audit: Path,
) -> None:
    exported = newest_note(audit)
    cut(audit, 1)
    last = segments(audit)[-1].checkpoints
    last.write_text("\n\n".join(last.read_text().split("\n\n")[:2]).rstrip() + "\n")
    assert checked(audit).holds, "nothing that is left tells it"
    assert not checked(audit).stopped, "but that the gateway did not stop in an orderly way"
    (finding,) = checked(audit, exported).findings
    assert "the end was cut off" in finding.what


def test_a_checkpoint_of_another_chain_is_no_comfort(audit: Path, tmp_path: Path) -> None:
    other = rig.audit(tmp_path / "other")
    (finding,) = checked(audit, newest_note(other)).findings
    assert "not signed by" in finding.what
    (finding,) = checked(audit, "nothing\n").findings
    assert "no checkpoint is in it" in finding.what


# Checkpoints


def test_records_that_were_hashed_anew_are_not_those_that_were_signed(audit: Path) -> None:
    KINDS["hash anew"](audit, Random(3))
    findings = checked(audit).findings
    assert findings
    assert all("not those that it was signed over" in f.what for f in findings)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: "", "does not begin with a checkpoint"),
        (lambda text: text + "more", "more, or less, than whole checkpoints"),
        (lambda text: text + "\n" + text, "are not in order"),
        (lambda text: text.replace("test/", "best/", 1), "not signed by|does not fit the text"),
    ],
)
def test_checkpoints_that_were_changed_are_told(
    audit: Path, change: Callable[[str], str], told: str
) -> None:
    path = segments(audit)[1].checkpoints
    path.write_text(change(path.read_text()))
    found = checked(audit)
    assert not found.holds
    assert any(re.search(told, f.what) and f.file == str(path) for f in found.findings)


def test_another_key_fits_nothing(audit: Path, tmp_path: Path) -> None:
    key = public_key(rig.audit(tmp_path / "other"))
    assert not verify(audit, key).holds


def test_a_key_is_given_as_it_is_or_as_a_file(audit: Path) -> None:
    key = public_key(audit)
    assert public_key(audit, str(key)) == key
    assert public_key(audit, str(audit / "signing.pub")) == key
    with pytest.raises(AuditError, match="no public key"):
        public_key(audit, str(audit / "nothing"))


# While a gateway runs


def test_an_audit_that_is_being_written_holds(tmp_path: Path) -> None:
    found = rig.journal(tmp_path)
    rig.put(found, rig.call(1))
    with segments(tmp_path)[-1].path.open("ab") as file:
        file.write(b'{"seq":')
    told = checked(tmp_path)
    assert told.holds
    assert told.running
    assert [r["kind"] for r in records(tmp_path)] == ["segment", "start", "call"]
    found._lock.release()
    assert not checked(tmp_path).holds


def test_records_are_not_read_over_a_break(audit: Path) -> None:
    changed(middle(audit), lambda lines: [*lines[:2], *lines[3:]])
    with pytest.raises(AuditError, match=r"line 3: .*`spillway audit verify` says more"):
        list(records(audit))
