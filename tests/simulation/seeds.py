"""Many seeds: in several processes, with what is done kept on disk, so that it can go on later."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import logging
import multiprocessing
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path

from tests.simulation.world import Ran, ran

CHUNK = 250  # seeds that a process runs between two lines of progress
ROOT = Path(__file__).parent.parent.parent


@dataclass(slots=True)
class Tally:
    """What came of some seeds."""

    seeds: int = 0
    calls: int = 0
    attempts: int = 0
    steps: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, one: Ran) -> None:
        self.seeds += 1
        self.calls += one.calls
        self.attempts += one.attempts
        self.steps += one.steps
        self.outcomes.update(one.outcomes)
        self.violations += [str(violation) for violation in one.violations[:1]]

    def join(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.calls += other.calls
        self.attempts += other.attempts
        self.steps += other.steps
        self.outcomes.update(other.outcomes)
        self.violations += other.violations

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))
        return (
            f"{self.seeds} seeds, {self.calls} calls ({ends}), {self.attempts} attempts, "
            f"{self.steps} steps, {len(self.violations)} violations"
        )


@contextlib.contextmanager
def collected_by_hand() -> Iterator[None]:
    """A task whose failure nobody took is told of when it is collected: so each world collects its
    own, and what was there before is left out of it, which would take longer than a world."""
    was_on = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:  # what was left out stays so: a test run has left out more than that
        if was_on:
            gc.enable()


def tally(seeds: range) -> Tally:
    found = Tally()
    with collected_by_hand(), _quietly():
        for seed in seeds:
            found.add(ran(seed))
    return found


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Worlds are full of failures, and the gateway says so in its log."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def in_processes(chunks: Sequence[range], jobs: int) -> Iterator[tuple[range, Tally]]:
    """In the order in which they are done."""
    if jobs == 1:
        yield from ((chunk, tally(chunk)) for chunk in chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_numbered, chunks)


def _numbered(chunk: range) -> tuple[range, Tally]:
    return chunk, tally(chunk)


@cache
def revision() -> str:
    """Of the gateway and of its world: what was found for another one proves nothing here."""
    digest = hashlib.blake2b(digest_size=8)
    for folder in ("gateway", "tests/simulation"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


class Progress:
    """What is done, in a file of JSON lines; without a file, in memory."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.total = Tally()
        self._done: set[tuple[int, int]] = set()
        for line in path.read_text().splitlines() if path and path.exists() else ():
            self._take(json.loads(line))

    def _take(self, line: dict[str, object]) -> None:
        if line.pop("revision") != revision():
            return
        from_, to = line.pop("from"), line.pop("to")
        assert isinstance(from_, int)
        assert isinstance(to, int)
        self._done.add((from_, to))
        outcomes = Counter(line.pop("outcomes"))  # type: ignore[call-overload]
        self.total.join(Tally(**line, outcomes=outcomes))  # type: ignore[arg-type]

    def left(self, seeds: range) -> list[range]:
        starts = range(seeds.start, seeds.stop, CHUNK)
        chunks = [range(start, min(start + CHUNK, seeds.stop)) for start in starts]
        return [chunk for chunk in chunks if (chunk.start, chunk.stop) not in self._done]

    def done(self, chunk: range, found: Tally) -> None:
        self.total.join(found)
        if self._path is None:
            return
        where = {"revision": revision(), "from": chunk.start, "to": chunk.stop}
        line = where | {f.name: getattr(found, f.name) for f in fields(found)}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
