"""All expressions of a registry in a few Hyperscan databases, and what the finder knows of each."""

from __future__ import annotations

import hashlib
import math
import struct
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import hyperscan
import orjson

from gateway.classify.patterns import superset, syntax
from gateway.classify.patterns.alphabet import Alphabet, CharSet
from gateway.classify.patterns.finder import ExpressionReading
from gateway.classify.patterns.origin import origin

Key: TypeAlias = tuple[str, int]
"""An expression as Presidio writes it, and the flags that it compiles it with."""
Report: TypeAlias = Callable[[int, int, int, int, object], bool | None]
"""Called with id, start, end, flags and context."""

_TOGETHER = 256
"""Expressions in one database. With 191 in one instead of three, compiling takes a fifth longer,
and a scan of 100 characters a quarter less (measured November 2026): each reads other memory."""
_DATABASES = 2
"""Of what was compiled at once: what needs digits, and the rest."""
_DIGIT = CharSet(r"\d", 0)
_LENGTHS = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class AutomatonExpression:
    """One expression that the automaton looks for."""

    id: int
    database: int
    digits: int
    """Every match holds so many of them."""
    reading: ExpressionReading


class Automaton:
    """Reports where expressions can end. Safe to share between threads."""

    def __init__(
        self,
        alphabet: Alphabet,
        known: dict[Key, AutomatonExpression],
        databases: Sequence[hyperscan.Database],
    ) -> None:
        self.alphabet = alphabet
        self.known = known
        self._databases = databases
        mask = alphabet.class_bytes(_DIGIT)
        self._digits = bytes(byte for byte in range(256) if mask >> byte & 1)
        self._least_digits = [
            min(k.digits for k in known.values() if k.database == at)
            for at in range(len(databases))
        ]
        self._local = threading.local()

    @classmethod
    def build(cls, keys: Iterable[Key], bases: Iterable[Automaton] = ()) -> Automaton:
        """Compile; takes seconds, most of them outside of the interpreter's lock. Where one of
        `bases` has a part of the expressions, only the others are compiled, beside its databases.
        """
        trees = _understood(keys)
        alphabet = Alphabet.from_sets(
            {chars for tree in trees.values() for chars in syntax.char_sets(tree)}
        )
        usable = [base for base in bases if base._fits_into(trees, alphabet)]
        base = max(usable, key=lambda one: len(one.known), default=cls(alphabet, {}, []))
        masks: dict[CharSet, int] = {}

        def class_bytes(chars: CharSet) -> int:
            if chars not in masks:
                masks[chars] = alphabet.class_bytes(chars)
            return masks[chars]

        other = ~class_bytes(_DIGIT)
        expressions = [
            _Expression(
                key,
                tree,
                _read(tree, class_bytes),
                syntax.least_count(tree, lambda chars: not class_bytes(chars) & other),
            )
            for key, tree in trees.items()
            if key not in base.known
        ]
        known = dict(base.known)
        databases = list(base._databases)
        for group in _groups(expressions):
            members, database = _compile_group(group, class_bytes, len(known))
            if database is not None:
                for member in members:
                    known[member.key] = AutomatonExpression(
                        len(known), len(databases), member.digits, member.reading
                    )
                databases.append(database)
        return cls(alphabet, known, databases)

    def _fits_into(self, trees: Collection[Key], alphabet: Alphabet) -> bool:
        """Whether an automaton of these expressions can have the databases of this one, which are
        no more than those of what was compiled at once: each costs a scan."""
        return (
            len(self._databases) <= _DATABASES
            and self.known.keys() <= set(trees)
            and self.alphabet.classes == alphabet.classes
        )

    def scan(self, folded: bytes, databases: Sequence[int], on_match: Report) -> None:
        """Of what is reported, the id and the end mean something."""
        scratches = self._scratches()
        digits = len(folded) - len(folded.translate(None, self._digits))
        for at in databases:
            if digits < self._least_digits[at]:
                continue
            self._databases[at].scan(folded, match_event_handler=on_match, scratch=scratches[at])

    def _scratches(self) -> list[hyperscan.Scratch]:
        scratches: list[hyperscan.Scratch] | None = getattr(self._local, "scratches", None)
        if scratches is None:
            scratches = [hyperscan.Scratch(database) for database in self._databases]
            self._local.scratches = scratches
        return scratches

    def dump(self) -> bytes:
        head = orjson.dumps(
            [
                [*key, k.id, k.database, k.digits, *_packed(k.reading)]
                for key, k in self.known.items()
            ]
        )
        parts = [
            zlib.compress(head, 1),
            zlib.compress(self.alphabet.classes, 6),
            *(hyperscan.dumpb(database) for database in self._databases),
        ]
        return b"".join(_LENGTHS.pack(len(part)) + part for part in parts)

    @classmethod
    def load(cls, dumped: bytes) -> Automaton:
        """Only for what `dump` wrote here: Hyperscan trusts what it loads."""
        head, classes, *databases = _parts(dumped)
        known = {
            (expression, flags): AutomatonExpression(id_, database, digits, _unpacked(*reading))
            for expression, flags, id_, database, digits, *reading in orjson.loads(
                zlib.decompress(head)
            )
        }
        alphabet = Alphabet(zlib.decompress(classes))
        loaded = [hyperscan.loadb(d, mode=hyperscan.HS_MODE_BLOCK) for d in databases]
        return cls(alphabet, known, loaded)


def family(kind: str = "patterns") -> str:
    """What the names of all dumps begin with that are valid here: what reads and compiles the
    expressions, for what."""
    return f"{kind}-{hashlib.sha256(orjson.dumps(origin())).hexdigest()[:32]}-"


def fingerprint(keys: Iterable[Key], kind: str = "patterns") -> str:
    """The name of a dump, by all that it depends on."""
    return family(kind) + hashlib.sha256(orjson.dumps(sorted(map(list, keys)))).hexdigest()


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


def _read(tree: syntax.Node, class_bytes: Callable[[CharSet], int]) -> ExpressionReading:
    steps = 0
    for chars in set(syntax.consumed(tree)):
        steps |= class_bytes(chars)
    return ExpressionReading(syntax.extent(tree), steps)


@dataclass(frozen=True, slots=True)
class _Expression:
    key: Key
    tree: syntax.Node
    reading: ExpressionReading
    digits: int


def _groups(expressions: Sequence[_Expression]) -> Iterator[Sequence[_Expression]]:
    """What needs a digit apart: most of them do, and many texts have none."""
    for needs_digits in (False, True):
        alike = [e for e in expressions if (e.digits > 0) is needs_digits]
        for at in range(0, len(alike), _TOGETHER):
            yield alike[at : at + _TOGETHER]


def _compile_group(
    members: Sequence[_Expression], class_bytes: Callable[[CharSet], int], first_id: int
) -> tuple[Sequence[_Expression], hyperscan.Database | None]:
    """What Hyperscan takes. Mostly that is all; else one after the other is tried alone, the
    longest first, with less and less counting, until it takes the rest together. What is refused
    even so is left out and never skipped."""
    written = [superset.Superset.compile(member.tree, class_bytes) for member in members]
    accepted: list[superset.Expression | None] = [*written]
    untried = sorted(range(len(members)), key=lambda at: len(written[at].text))
    while True:
        taken = [(m, e) for m, e in zip(members, accepted, strict=True) if e is not None]
        try:
            return [m for m, _ in taken], _compile([e for _, e in taken], first_id)
        except hyperscan.error:
            if not untried:
                return (), None
        while untried:
            at = untried.pop()
            accepted[at] = _accepted(members[at].tree, class_bytes)
            if accepted[at] != written[at]:
                break


def _accepted(
    tree: syntax.Node, class_bytes: Callable[[CharSet], int]
) -> superset.Expression | None:
    for counted in superset.COUNTED:
        expression = superset.Superset.compile(tree, class_bytes, counted)
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


def _packed(reading: ExpressionReading) -> tuple[int, float | None, float | None, str]:
    extent = reading.extent
    most = None if extent.most == math.inf else extent.most
    reach = None if extent.reach == math.inf else extent.reach
    return extent.least, most, reach, f"{reading.steps:x}"


def _unpacked(least: int, most: float | None, reach: float | None, steps: str) -> ExpressionReading:
    return ExpressionReading(
        syntax.MatchExtent(
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
