"""Where compiled databases are kept and looked for, and what they are valid for."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from gateway.classify.patterns import automaton, origin
from gateway.classify.patterns.store import BlobStore

ROOT = Path(__file__).parent.parent.parent.parent
COMPILED = ("gateway.classify.gate.", "gateway.classify.patterns.")
KEYS = ((r"\bone\b", 0), (r"two\d+", 0))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "own"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A directory with one file, as an image has it."""
    directory = tmp_path / "installed"
    assert BlobStore(directory).write("one", b"installed")
    return directory


def test_what_is_not_in_the_cache_is_found_beside_the_installation(
    own: Path, installed: Path
) -> None:
    store = BlobStore(own, installed)
    assert store.read("one") == b"installed"
    assert store.write("one", b"own")
    assert store.read("one") == b"own"
    assert BlobStore(installed).read("one") == b"installed"


def test_what_is_used_stays_when_old_files_go(own: Path) -> None:
    store = BlobStore(own)
    for at in range(6):
        store.write(f"f-{at}", b"x")
        os.utime(own / f"f-{at}", (at, at))
    assert store.read("f-0") == b"x"
    for at in range(6, 12):
        store.write(f"f-{at}", b"x")
    assert store.read("f-0") == b"x"
    assert store.read("f-1") is None


def test_files_of_one_kind_drive_out_none_of_another(own: Path) -> None:
    store = BlobStore(own)
    store.write("large-1", b"x")
    for at in range(40):
        store.write(f"small-{at}", b"x")
    assert store.read("large-1") == b"x"
    assert len(list(store.each("small-"))) == 8


def test_without_a_home_the_installation_is_still_looked_at(installed: Path) -> None:
    store = BlobStore(None, installed)
    assert store.read("one") == b"installed"
    assert not store.write("two", b"x")


def test_the_installation_is_the_environment_that_runs_this(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`XDG_CACHE_HOME=$prefix/share spillway prepare` is what fills it."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "prefix" / "share"))
    assert BlobStore.for_user().write("one", b"installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert BlobStore.for_user().read("one") == b"installed"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("what", ["one", "."], ids=["the file", "the directory"])
def test_what_another_user_wrote_is_not_taken(own: Path, installed: Path, what: str) -> None:
    os.chown(installed / what, 12345, 12345)
    assert BlobStore(own, installed).read("one") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of root's")
def test_what_root_wrote_is_taken_by_others(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image is built by root and runs as somebody else."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert BlobStore(None, installed).read("one") == b"installed"


def _imported(name: str) -> set[str]:
    path = ROOT.joinpath(*name.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = set()
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    modules = {str(path.relative_to(ROOT))[:-3].replace("/", ".") for path in _sources()}
    return {name for name in found & modules if name.startswith(COMPILED)}


def _sources() -> list[Path]:
    return [*ROOT.glob("gateway/classify/gate/*.py"), *ROOT.glob("gateway/classify/patterns/*.py")]


NOT_WRITERS = {
    "gateway.classify.gate.gate",  # asks the databases
    "gateway.classify.gate.needs",  # what it carries is in the name of the file
    "gateway.classify.patterns.origin",
    "gateway.classify.patterns.store",
}


def test_a_database_is_valid_for_the_code_that_wrote_it() -> None:
    """All that the two compilers import is part of it, or stands here with the reason."""
    todo = ["gateway.classify.gate.plan", "gateway.classify.patterns.automaton"]
    todo.append("gateway.classify.gate.armed")
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in seen and name not in NOT_WRITERS:
            seen.add(name)
            todo += _imported(name)
    assert seen == set(origin.WRITERS)


@pytest.mark.parametrize("part", range(len(origin.origin())))
def test_a_database_of_other_code_libraries_or_processors_has_another_name(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = automaton.fingerprint(KEYS)
    other = list(origin.origin())
    other[part] += "x"
    monkeypatch.setattr(automaton, "origin", lambda: tuple(other))
    assert automaton.fingerprint(KEYS) != here


def test_a_database_of_other_expressions_has_another_name() -> None:
    assert automaton.fingerprint(KEYS) == automaton.fingerprint(reversed(KEYS))
    assert automaton.fingerprint(KEYS) != automaton.fingerprint(KEYS[:1])
    assert automaton.fingerprint(KEYS) != automaton.fingerprint([(KEYS[0][0], 2), KEYS[1]])
