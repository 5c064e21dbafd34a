"""Expressions compiled into Hyperscan databases, over one byte for each character of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import hyperscan

from gateway.classify.patterns.alphabet import CharSet
from gateway.classify.patterns.superset import Superset
from gateway.classify.patterns.syntax import Node
from gateway.core.structs import value

Hits = list[tuple[int, int]]
"""(number of the expression, where a match of it ends)."""
MOST_HITS = 512
"""With more, nobody looks twice."""


@dataclass(frozen=True, slots=True)
class DatabaseExpression:
    """One expression. The first hit of one that stops ends the scan; `each` reports all its hits,
    else the first says everything."""

    name: str
    node: Node
    stops: bool = False
    each: bool = False


class PatternDatabase:
    """Raises hyperscan.error for what Hyperscan cannot compile."""

    __slots__ = ("compiled", "search", "stops")

    def __init__(self, compiled: Any, stops: frozenset[int]) -> None:
        self.compiled = compiled
        self.stops = stops
        self.search: Callable[..., None] = _nothing if compiled is None else compiled.scan

    @classmethod
    def compile(
        cls,
        sought: Sequence[DatabaseExpression],
        class_bytes: Callable[[CharSet], int],
        numbers: Sequence[int] | None = None,
    ) -> PatternDatabase:
        """`numbers` are what hits are reported with; else the places in `sought`."""
        numbers = range(len(sought)) if numbers is None else numbers
        stops = frozenset(n for n, s in zip(numbers, sought, strict=True) if s.stops)
        if not sought:
            return cls(None, stops)
        written = [Superset.compile(s.node, class_bytes) for s in sought]
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(
            expressions=[w.text.encode("ascii") for w in written],
            ids=list(numbers),
            elements=len(sought),
            flags=[_flags(w.caseless, s.each) for w, s in zip(written, sought, strict=True)],
        )
        return cls(database, stops)

    def dump(self) -> bytes:
        return hyperscan.dumpb(self.compiled) if self.compiled is not None else b""

    @classmethod
    def load(cls, dumped: bytes, stops: frozenset[int]) -> PatternDatabase:
        """Only for what `dump` wrote: Hyperscan trusts what it loads."""
        if not dumped:
            return cls(None, stops)
        database = hyperscan.loadb(dumped, mode=hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        return cls(database, stops)

    def scan(self, encoded: bytes) -> Hits | None:
        return scan_all((self,), encoded)


def scan_all(databases: Sequence[PatternDatabase], encoded: bytes) -> Hits | None:
    """All hits, in no particular order; None when one of them stops, or there are too many."""
    hits: Hits = []
    try:
        for database in databases:
            database.search(encoded, _noted, 0, (hits, database.stops))
    except hyperscan.ScanTerminated:
        return None
    return hits


A_DIGIT, A_LIST = -1, -2
"""What a sign asks for instead of a question."""


@value
class SignHits:
    """The questions to ask of the whole text, those to ask near the ends of their signs, and where
    lists of numbers end."""

    questions: set[int]
    near: dict[int, list[int]]
    lists: list[int]


@dataclass(frozen=True, slots=True)
class Signs:
    """What is looked for first: in `numbered`, what needs a digit, and so only where there is one.
    `asks` has, for each sign, the number of its question, or one of the above; `near` are those
    that are scanned near their signs alone."""

    plain: tuple[PatternDatabase, ...]
    numbered: tuple[PatternDatabase, ...]
    asks: tuple[int, ...]
    near: frozenset[int]

    def find(self, encoded: bytes) -> SignHits | None:
        """None if one of them settles it."""
        hits = scan_all(self.plain, encoded)
        if hits is None:
            return None
        asks, nearby = self.asks, self.near
        questions = {asks[number] for number, _ in hits}
        near: dict[int, list[int]] = {}
        lists: list[int] = []
        if A_DIGIT in questions:
            questions.discard(A_DIGIT)
            hits = scan_all(self.numbered, encoded)
            if hits is None:
                return None
            for number, end in hits:
                question = asks[number]
                if question in nearby:
                    near.setdefault(question, []).append(end)
                elif question >= 0:
                    questions.add(question)
                else:
                    lists.append(end)
        return SignHits(questions, near, lists)


def _noted(
    number: int, start: int, end: int, flags: int, into: tuple[Hits, frozenset[int]]
) -> bool:
    """Whether this hit ends the scan."""
    hits, stops = into
    hits.append((number, end))
    return number in stops or len(hits) > MOST_HITS


def _nothing(*_: object) -> None:
    """The scan of no expression."""


def _flags(caseless: bool, each: bool) -> int:
    flags: int = hyperscan.HS_FLAG_DOTALL
    if caseless:
        flags |= hyperscan.HS_FLAG_CASELESS
    return flags if each else flags | hyperscan.HS_FLAG_SINGLEMATCH
