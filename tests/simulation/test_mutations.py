"""A world that finds nothing wrong with a broken gateway proves nothing of a whole one."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation, found, unmarked

_QUICK = ("the look at the door, and Cleared", "the turn is given back", "the commit point")


def test_each_guard_is_marked_in_the_code() -> None:
    assert unmarked() == []


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "mutation", [m for m in MUTATIONS if m.guard in _QUICK], ids=lambda m: m.guard
)
def test_a_gateway_without_a_guard_is_found_out(mutation: Mutation) -> None:
    """All of them: `python -m tests.simulation.mutations`."""
    there = found(mutation, most=200)
    assert there.rule in mutation.rules, there.what


def test_the_quick_ones_are_among_them() -> None:
    assert {m.guard for m in MUTATIONS} >= set(_QUICK)
