"""The list of behaviours is whole, and says of the code and of the tests what is so.

That each guard is noticed when it is gone: `python -m tests.behaviours`.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.behaviours import Behaviour, guard
from tests.behaviours.every import every
from tests.behaviours.page import PAGE, rendered
from tests.behaviours.removal import copied, without
from tests.simulation.mutations import ROOT

RANGES = {
    "C": range(13, 19),
    "D": range(1, 7),
    "S": range(1, 11),
    "A": range(1, 11),
    "B": range(1, 10),
    "M": range(5, 6),
    "V": range(1, 4),
    "E": range(1, 5),
    "R": range(1, 5),
    "O": (2, 3, 7, 8, 5, 4),
    "P": range(1, 5),
    "T": range(1, 5),
}
EVERY = pytest.mark.parametrize("behaviour", every(), ids=lambda one: one.id)


def functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_bytes())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


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
def test_each_guard_is_where_its_removal_looks_for_it(behaviour: Behaviour) -> None:
    moved = [g.gone for g in behaviour.guards if not all(c.applies() for c in g.changes)]
    assert moved == [], "the code changed: write these in tests/behaviours/ anew, and try them"


def test_the_page_says_what_the_list_says() -> None:
    assert PAGE.read_text() == rendered(), "run `python -m tests.behaviours --write`"


def test_a_guard_that_is_gone_is_noticed_and_a_change_of_nothing_is_not() -> None:
    test = "unit/test_retries.py::test_then_ten_calls_earn_one_more"
    gone = guard(
        "each call earns a part of one", "retries.py", " + self.calls * self._share)", ")", test
    )
    there = guard("nothing", "retries.py", "self._share)", "self._share )", test)
    with copied() as root:
        assert without(gone, root).tests == {test}
        assert without(there, root).tests == set()
