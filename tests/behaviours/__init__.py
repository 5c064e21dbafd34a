"""What the gateway promises of its decisions, by the short ids that the code and its tests use,
with every guard that keeps the promise and the tests that fail when that guard alone is gone.

A comment in the gateway's code marks each guard by its name (tests/marks.py).
`python -m tests.behaviours` takes each guard out, in a copy, and runs its tests there;
`python -m tests.behaviours --write` writes README.md beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.marks import files_with


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
    also: tuple[str, ...] = ()  # tests of the whole, which no single guard is to be seen in

    @property
    def files(self) -> tuple[str, ...]:
        """Those that its guards stand in, relative to gateway/."""
        named = (file for guard in self.guards for file in files_with(guard.name))
        return tuple(dict.fromkeys(named))

    @property
    def tests(self) -> tuple[str, ...]:
        named = (test for guard in self.guards for test in guard.tests)
        return tuple(dict.fromkeys((*named, *self.also)))


def guard(gone: str, name: str, *tests: str) -> Guard:
    return Guard(gone, name, tests)
