"""A compiled build is measured only where it is one of the source that is here."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from loadtests import build
from loadtests.peers import spillway


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a compiled build of its own source."""
    monkeypatch.chdir(tmp_path)
    for package in (build.SOURCE, build.COMPILED / build.SOURCE):
        (package / "core").mkdir(parents=True)
        (package / "types.py").write_text("WORD = 1\n")
        (package / "core" / "other.py").write_text("WORD = 2\n")
    (build.COMPILED / build.SOURCE / "core" / f"types{EXTENSION_SUFFIXES[0]}").touch()
    return tmp_path


def test_a_build_of_this_source_is_run_before_it(here: Path) -> None:
    assert build.missing() is None
    first, then = build.environment(True)["PYTHONPATH"].split(":")
    assert (Path(first), Path(then)) == (here / build.COMPILED, here)
    assert build.environment(False) == {}


@pytest.mark.parametrize("path", ["types.py", "core/other.py"])
def test_a_build_of_another_source_is_none(here: Path, path: str) -> None:
    (build.SOURCE / path).write_text("WORD = 3\n")
    assert f"gateway/{path}" in str(build.missing())
    with pytest.raises(SystemExit, match="another source"):
        build.environment(True)


def test_a_module_that_came_later_is_not_built(here: Path) -> None:
    (build.SOURCE / "later.py").touch()
    assert "gateway/later.py" in str(build.missing())


def test_an_installation_that_is_not_compiled_is_no_build(here: Path) -> None:
    next((build.COMPILED / build.SOURCE).rglob("*.so")).unlink()
    assert "make compiled" in str(build.missing())


@pytest.mark.parametrize("there", [True, False])
def test_what_ships_is_measured_where_it_was_built_and_it_is_said_where_not(
    here: Path, there: bool
) -> None:
    if not there:
        next((build.COMPILED / build.SOURCE).rglob("*.so")).unlink()
    rows = {peer.name: peer for peer in spillway.peers()}
    assert {name for name, peer in rows.items() if peer.compiled} == (
        {"spillway_balanced", "spillway_inspected", "spillway_public", "spillway_onprem"}
        if there
        else set()
    )
    assert ("make compiled" in rows["spillway_inspected"].note) is not there
