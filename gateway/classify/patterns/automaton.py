"""All expressions of a registry in a few Hyperscan databases, and what the finder knows of each."""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import hyperscan
import numpy as np
import orjson

from gateway.classify.patterns import superset, syntax
from gateway.classify.patterns.alphabet import Alphabet, CharSet
from gateway.classify.patterns.finder import Reading

Key: TypeAlias = tuple[str, int]
"""An expression as Presidio writes it, and the flags that it compiles it with."""
Report: TypeAlias = Callable[[int, int, int, int, object], bool | None]
"""Called with id, start, end, flags and context."""

_FORMAT = 1
"""Counts up with every change of what this package writes into expressions or files."""
_TOGETHER = 64
"""Expressions in one database. Compiling grows faster than their number (177: 4 s in one database,
1.7 s in three, measured November 2026), and scanning costs a microsecond for each database."""
_LENGTHS = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Known:
    """One expression that the automaton looks for."""

    id: int
    database: int
    reading: Reading


class Automaton:
    """Reports where expressions can end. Safe to share between threads."""

    def __init__(
        self,
        alphabet: Alphabet,
        known: dict[Key, Known],
        databases: Sequence[hyperscan.Database],
    ) -> None:
        self.alphabet = alphabet
        self.known = known
        self._databases = databases
        self._local = threading.local()

    @classmethod
    def of(cls, keys: Iterable[Key]) -> Automaton:
        """Compile; takes a second or two, most of it outside of the interpreter's lock."""
        trees = _understood(keys)
        alphabet = Alphabet.of(
            {found for tree in trees.values() for found in syntax.char_sets(tree)}
        )
        masks: dict[CharSet, int] = {}

        def bytes_of(found: CharSet) -> int:
            if found not in masks:
                masks[found] = alphabet.bytes_of(found)
            return masks[found]

        readings = [_Expression(key, tree, _read(tree, bytes_of)) for key, tree in trees.items()]
        known: dict[Key, Known] = {}
        databases: list[hyperscan.Database] = []
        for at in range(0, len(readings), _TOGETHER):
            members, database = _compile_group(readings[at : at + _TOGETHER], bytes_of, len(known))
            if database is not None:
                for member in members:
                    known[member.key] = Known(len(known), len(databases), member.reading)
                databases.append(database)
        return cls(alphabet, known, databases)

    def scan(self, folded: bytes, databases: Sequence[int], found: Report) -> None:
        """Of what is reported, the id and the end mean something."""
        scratches = self._scratches()
        for at in databases:
            self._databases[at].scan(folded, match_event_handler=found, scratch=scratches[at])

    def _scratches(self) -> list[hyperscan.Scratch]:
        scratches: list[hyperscan.Scratch] | None = getattr(self._local, "scratches", None)
        if scratches is None:
            scratches = [hyperscan.Scratch(database) for database in self._databases]
            self._local.scratches = scratches
        return scratches

    def dump(self) -> bytes:
        head = orjson.dumps(
            [[*key, k.id, k.database, *_packed(k.reading)] for key, k in self.known.items()]
        )
        parts = [
            zlib.compress(head, 1),
            zlib.compress(self.alphabet.classes.tobytes(), 6),
            *(hyperscan.dumpb(database) for database in self._databases),
        ]
        return b"".join(_LENGTHS.pack(len(part)) + part for part in parts)

    @classmethod
    def load(cls, dumped: bytes) -> Automaton:
        """Only for what `dump` wrote here: Hyperscan trusts what it loads."""
        head, classes, *databases = _parts(dumped)
        known = {
            (expression, flags): Known(id_, database, _unpacked(*reading))
            for expression, flags, id_, database, *reading in orjson.loads(zlib.decompress(head))
        }
        alphabet = Alphabet(np.frombuffer(zlib.decompress(classes), dtype=np.uint8))
        loaded = [hyperscan.loadb(d, mode=hyperscan.HS_MODE_BLOCK) for d in databases]
        return cls(alphabet, known, loaded)


def fingerprint(keys: Iterable[Key]) -> str:
    """What a dump depends on: the expressions, what reads and compiles them, and the processor."""
    parts = [
        _FORMAT,
        *map(importlib.metadata.version, ("hyperscan", "regex")),
        _processor(),
        sorted(map(list, keys)),
    ]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()


def _processor() -> str:
    """The features that Hyperscan may use; a database for others is refused or, worse, is not."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    kept = ("flags", "Features", "model name")
    return "\n".join(sorted({line for line in lines if line.startswith(kept)}))


def _understood(keys: Iterable[Key]) -> dict[Key, syntax.Node]:
    trees = {}
    for key in keys:
        try:
            tree = syntax.parse(*key)
        except syntax.NotUnderstood:
            continue
        if syntax.extent(tree).least > 0:
            trees[key] = tree
    return trees


def _read(tree: syntax.Node, bytes_of: Callable[[CharSet], int]) -> Reading:
    steps = 0
    for found in set(syntax.consumed(tree)):
        steps |= bytes_of(found)
    return Reading(syntax.extent(tree), steps)


@dataclass(frozen=True, slots=True)
class _Expression:
    key: Key
    tree: syntax.Node
    reading: Reading


def _compile_group(
    members: Sequence[_Expression], bytes_of: Callable[[CharSet], int], first_id: int
) -> tuple[Sequence[_Expression], hyperscan.Database | None]:
    """What Hyperscan takes. Mostly that is all; else each one is tried alone, with less and less
    counting, and what is refused even so is left out and never skipped."""
    written = [superset.Superset.of(member.tree, bytes_of) for member in members]
    try:
        return members, _compile(written, first_id)
    except hyperscan.error:
        pass
    accepted = [(member, _accepted(member.tree, bytes_of)) for member in members]
    taken = [(member, expression) for member, expression in accepted if expression is not None]
    try:
        return [m for m, _ in taken], _compile([e for _, e in taken], first_id)
    except hyperscan.error:
        return (), None


def _accepted(tree: syntax.Node, bytes_of: Callable[[CharSet], int]) -> superset.Expression | None:
    for counted in superset.COUNTED:
        expression = superset.Superset.of(tree, bytes_of, counted)
        try:
            _compile([expression], 0)
        except hyperscan.error:
            continue
        return expression
    return None


def _compile(expressions: Sequence[superset.Expression], first_id: int) -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[e.text.encode("ascii") for e in expressions],
        ids=list(range(first_id, first_id + len(expressions))),
        flags=[_flags(e) for e in expressions],
    )
    return database


def _flags(expression: superset.Expression) -> int:
    caseless: int = hyperscan.HS_FLAG_CASELESS if expression.caseless else 0
    dotall: int = hyperscan.HS_FLAG_DOTALL
    return dotall | caseless


def _packed(reading: Reading) -> tuple[int, float | None, float | None, str]:
    extent = reading.extent
    most = None if extent.most == math.inf else extent.most
    reach = None if extent.reach == math.inf else extent.reach
    return extent.least, most, reach, f"{reading.steps:x}"


def _unpacked(least: int, most: float | None, reach: float | None, steps: str) -> Reading:
    return Reading(
        syntax.Extent(
            least, math.inf if most is None else most, math.inf if reach is None else reach
        ),
        int(steps, 16),
    )


def _parts(dumped: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(dumped):
        (length,) = _LENGTHS.unpack_from(dumped, at)
        at += _LENGTHS.size
        parts.append(dumped[at : at + length])
        at += length
    return parts
