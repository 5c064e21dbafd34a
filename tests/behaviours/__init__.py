"""What the gateway promises of its decisions, by the short ids that the code and its tests use,
with every guard that keeps the promise and the tests that fail when that guard alone is gone.

`python -m tests.behaviours` takes each guard out, in a copy, and runs its tests there;
`python -m tests.behaviours --write` writes docs/behaviours.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.mutations import Change


@dataclass(frozen=True, slots=True)
class Guard:
    gone: str  # what there is not any more without it
    changes: tuple[Change, ...]  # that take it out
    tests: tuple[str, ...]  # below tests/: file::function; each fails without it

    @property
    def file(self) -> str:
        return self.changes[0].file


@dataclass(frozen=True, slots=True)
class Behaviour:
    id: str
    holds: str
    guards: tuple[Guard, ...]
    also: tuple[str, ...] = ()  # tests of the whole, which no single guard is to be seen in

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(guard.file for guard in self.guards))

    @property
    def tests(self) -> tuple[str, ...]:
        named = (test for guard in self.guards for test in guard.tests)
        return tuple(dict.fromkeys((*named, *self.also)))


def guard(gone: str, file: str, old: str, new: str, *tests: str) -> Guard:
    return Guard(gone, (Change(file, old, new),), tests)
