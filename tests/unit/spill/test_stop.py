"""The kill switch is a file (S5)."""

from __future__ import annotations

from pathlib import Path

from gateway.accounting.spill import SpillStop
from tests.unit.spill.clock import HandClock


def test_nothing_leaves_while_the_file_is_there(tmp_path: Path) -> None:
    clock, file = HandClock(), tmp_path / "stop"
    stop = SpillStop(file, clock)
    seen = [stop.on]
    file.touch()
    clock.pass_s(0.1)
    seen.append(stop.on)
    file.unlink()
    clock.pass_s(0.1)
    seen.append(stop.on)
    assert seen == [False, True, False]


def test_it_is_looked_at_a_few_times_a_second_only(tmp_path: Path) -> None:
    clock, file = HandClock(), tmp_path / "stop"
    stop = SpillStop(file, clock)
    assert not stop.on
    file.touch()
    clock.pass_s(0.05)
    assert not stop.on


def test_what_cannot_be_looked_at_is_taken_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert SpillStop(tmp_path / "file" / "below", HandClock()).on


def test_without_a_file_nothing_stops_it() -> None:
    assert not SpillStop(None, HandClock()).on
