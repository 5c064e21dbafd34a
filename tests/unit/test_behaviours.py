"""The list of behaviours is whole, and says of the code and of the tests what is so.

That each guard is noticed when it is gone: `python -m tests.behaviours`.
"""

from __future__ import annotations

import ast
import builtins
import re
from functools import lru_cache
from pathlib import Path

import pytest

from tests.behaviours import PAGE, Behaviour, Guard, every
from tests.behaviours.removal import copied, run
from tests.behaviours.removal import without as noticed
from tests.marks import ROOT, changed, files_with, marked_files
from tests.properties.test_guards_hold_alone import ALL as PLACEMENT
from tests.simulation.mutations import MUTATIONS

RANGES = {
    "C": range(13, 23),
    "K": range(1, 7),
    "D": range(1, 7),
    "S": range(1, 20),
    "A": range(1, 11),
    "B": range(1, 10),
    "M": (5, 7, 8),
    "V": range(1, 4),
    "E": range(1, 7),
    "R": range(1, 6),
    "O": (2, 3, 7, 8, 5, 4),
    "P": range(1, 5),
    "T": range(1, 6),
}
EVERY = pytest.mark.parametrize("behaviour", every(), ids=lambda one: one.id)


@lru_cache
def functions(file: Path) -> set[str]:
    return set(re.findall(r"^(?:async )?def (\w+)", file.read_text(), re.MULTILINE))


def test_each_id_is_there_once_in_order() -> None:
    ids = [f"{letter}{number}" for letter, numbers in RANGES.items() for number in numbers]
    assert [one.id for one in every()] == ids


@EVERY
def test_each_behaviour_has_guards_and_each_guard_a_test(behaviour: Behaviour) -> None:
    assert behaviour.guards
    assert all(guard.tests for guard in behaviour.guards)


@EVERY
def test_every_test_that_is_named_exists(behaviour: Behaviour) -> None:
    for test in behaviour.tests:
        file, _, name = test.partition("::")
        assert name in functions(ROOT / "tests" / file), test


@EVERY
def test_each_guard_has_its_name_and_its_mark_in_the_code(behaviour: Behaviour) -> None:
    names = [guard.name for guard in behaviour.guards]
    assert len(set(names)) == len(names)
    assert {name.partition(".")[0] for name in names} == {behaviour.id}
    assert [name for name in names if not files_with(name)] == []


def test_every_mark_in_the_code_is_a_guard() -> None:
    names = {guard.name for behaviour in every() for guard in behaviour.guards}
    names.update(name for mutation in MUTATIONS for name in mutation.names)
    names.update(PLACEMENT)
    assert sorted(set(marked_files()) - names) == []


def names_in(tree: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def bound_in(tree: ast.AST) -> set[str]:
    """But for what only reads of the same name show."""
    nodes = list(ast.walk(tree))
    named = {n.asname or n.name for n in nodes if isinstance(n, ast.alias)}
    named |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    named |= {n.name for n in nodes if isinstance(n, ast.ExceptHandler) and n.name}
    return names_in(tree, ast.Store) | named | set(dir(builtins))


def test_each_guard_can_be_taken_out() -> None:
    """And what is put in its place reads no name that its file does not know."""
    marked = {file for files in marked_files().values() for file in files}
    sources = {file: (ROOT / "gateway" / file).read_text() for file in marked}
    known = {file: names_in(ast.parse(text), ast.Load) for file, text in sources.items()}
    for name, files in marked_files().items():
        for file, marks in files.items():
            rest = changed(ast.parse(sources[file]), marks)
            if new := names_in(rest, ast.Load) - known[file]:
                assert new <= bound_in(rest), name


def test_all_of_the_page_is_read() -> None:
    rows = re.findall(r"^\| .*`.* \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == sum(len(one.guards) + bool(one.also) for one in every())


def test_a_guard_that_is_gone_is_noticed_by_its_tests_and_by_no_others() -> None:
    name = "A5.retry-budget"
    test = "unit/test_retries.py::test_a_server_that_dies_with_its_calls_lets_all_of_them_try_again"
    others = "unit/test_laps.py::test_a_lap_that_nobody_ends_is_a_mistake"
    with copied() as root:
        assert noticed(Guard("", name, (test, others)), root).tests == {test}
        assert run((test, others), root).tests == set()
