"""What the gateway promises of its decisions, by the short ids that the code and its tests use,
with every guard that keeps the promise and the tests that fail when that guard alone is gone.

README.md beside this file lists them. A comment in the gateway's code marks each guard by its name
(tests/marks.py). `python -m tests.behaviours` takes each guard out, in a copy, and runs its tests
there.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from tests.marks import ROOT

PAGE = ROOT / "tests" / "behaviours" / "README.md"
_BEHAVIOUR = re.compile(r"^### (\w+)\n\n(.+)\n\n\| without .*\n\|-.*\n((?:\|.*\n)+)", re.MULTILINE)
_ROW = re.compile(r"\| (.*?) ?\| (?:`(.+?)` )?\| (.+) \|")


@dataclass(frozen=True, slots=True)
class Guard:
    gone: str  # what there is not any more without it
    name: str  # of its marks in gateway/: the behaviour's id and a word or two
    tests: tuple[str, ...]  # below tests/: file::function; each fails without it


@dataclass(frozen=True, slots=True)
class Behaviour:
    id: str
    holds: str
    guards: tuple[Guard, ...]
    also: tuple[str, ...]  # tests of the whole, which no single guard is to be seen in

    @property
    def tests(self) -> tuple[str, ...]:
        return (*(test for guard in self.guards for test in guard.tests), *self.also)


@functools.cache
def every() -> tuple[Behaviour, ...]:
    """All of the page, in its order. Raises ValueError for a row that is none."""
    return tuple(_behaviour(*parts) for parts in _BEHAVIOUR.findall(PAGE.read_text()))


def _behaviour(id_: str, holds: str, rows: str) -> Behaviour:
    guards: list[Guard] = []
    also: list[str] = []
    for row in rows.splitlines():
        if (cells := _ROW.fullmatch(row)) is None:
            raise ValueError(f"{id_}: no row: {row}")
        gone, name, tests = cells.groups()
        named = tuple(re.findall(r"`([^`]+)`", tests))
        if name:
            guards.append(Guard(gone, name, named))
        else:
            also += named
    return Behaviour(id_, holds, tuple(guards), tuple(also))
