"""One of Presidio's expressions, as a tree that says what it can match and how far it looks.

Presidio compiles with `regex`; the tree comes from the standard library's parser, which reads the
same syntax or refuses it. What the two could read differently is refused here: an expression that
is not understood completely is never skipped.
"""

from __future__ import annotations

import importlib
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import regex

from gateway.classify.patterns.alphabet import CharSet

_parser: Any = importlib.import_module("re._parser")
_constants: Any = importlib.import_module("re._constants")

_FLAGS = {
    regex.IGNORECASE: re.IGNORECASE,
    regex.MULTILINE: re.MULTILINE,
    regex.DOTALL: re.DOTALL,
    regex.VERBOSE: re.VERBOSE,
    regex.ASCII: re.ASCII,
    regex.UNICODE: re.UNICODE,
    regex.VERSION0: 0,
}
_SHARED_ESCAPES = frozenset("dDwWsSbBAZnrtfxuU")
"""Letters that mean the same after a backslash in both."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_FLAG_GROUP = re.compile(r"\(\?([a-z]+)\)")
_LETTERS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}
_CATEGORIES = {
    _constants.CATEGORY_DIGIT: r"\d",
    _constants.CATEGORY_NOT_DIGIT: r"\D",
    _constants.CATEGORY_WORD: r"\w",
    _constants.CATEGORY_NOT_WORD: r"\W",
    _constants.CATEGORY_SPACE: r"\s",
    _constants.CATEGORY_NOT_SPACE: r"\S",
}


class NotUnderstood(Exception):
    """The expression says something that has no certain meaning here."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    set: CharSet


@dataclass(frozen=True, slots=True)
class Seq:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    node: Node
    least: int
    most: float


@dataclass(frozen=True, slots=True)
class Lookaround:
    """What must or must not stand before (`behind`) or after this place."""

    node: Node
    behind: bool
    negative: bool


@dataclass(frozen=True, slots=True)
class Anchor:
    """`text_start`, `text_end`, `last_line_end`, `line_start`, `line_end`, `boundary`, `inside`."""

    kind: str
    word: CharSet


@dataclass(frozen=True, slots=True)
class NeverMatches:
    """What matches nowhere."""


Node: TypeAlias = Chars | Seq | Alt | Repeat | Lookaround | Anchor | NeverMatches


@dataclass(frozen=True, slots=True)
class MatchExtent:
    """Characters: the shortest and the longest match, and how far from its start it ever looks."""

    least: int
    most: float
    reach: float


def parse(expression: str, flags: int) -> Node:
    """Raises NotUnderstood."""
    for letter in _ESCAPE.findall(expression):
        if letter.isalpha() and letter not in _SHARED_ESCAPES:
            raise NotUnderstood(f"the escape \\{letter}")
    try:
        with warnings.catch_warnings():
            # Sets within sets, which regex reads as such. Filters hold for all threads: those of no
            # other warning change.
            warnings.filterwarnings("error", "Possible (nested )?set ", FutureWarning)
            tree = _parse_anywhere_flagged(expression, _standard(flags))
    except (re.error, Warning, OverflowError, RecursionError) as exc:
        raise NotUnderstood(type(exc).__name__) from None
    return _SyntaxReader(tree.state.flags, tree).read()


def _parse_anywhere_flagged(expression: str, flags: int) -> Any:
    """regex takes `(?i)` anywhere, for what follows it; the standard library in front alone.
    Where the flags hold for all of the expression already, such a group says nothing."""
    while True:
        try:
            return _parser.parse(expression, flags)
        except re.error as exc:
            if exc.pos is None or "not at the start" not in exc.msg:
                raise
            group = _FLAG_GROUP.match(expression, exc.pos)
            if group is None or any(not flags & _LETTERS.get(c, 0) for c in group[1]):
                raise
            expression = expression[: group.start()] + expression[group.end() :]


def _standard(flags: int) -> int:
    if regex.DEFAULT_VERSION != regex.VERSION0:
        raise NotUnderstood("another version of the syntax")
    standard = 0
    for theirs, ours in _FLAGS.items():
        if flags & theirs:
            standard |= ours
            flags &= ~theirs
    if flags:
        raise NotUnderstood("a flag that only regex has")
    return standard


class _SyntaxReader:
    """The parser's tree as ours."""

    def __init__(self, flags: int, tree: Any) -> None:
        self._flags = flags
        self._tree = tree
        self._groups: dict[int, Node] = {}
        self._scoped = False

    def read(self) -> Node:
        return self._sequence(self._tree, self._flags)

    def _sequence(self, items: Any, flags: int) -> Node:
        parts = tuple(self._node(op, value, flags) for op, value in items)
        return parts[0] if len(parts) == 1 else Seq(parts)

    def _node(self, op: Any, value: Any, flags: int) -> Node:
        name = str(op).lower()
        reader = getattr(self, f"_read_{name}", None)
        if reader is None:
            raise NotUnderstood(name)
        node: Node = reader(value, flags)
        return node

    def _read_literal(self, value: int, flags: int) -> Node:
        if value == ord("{"):  # regex may read fuzzy matching here
            raise NotUnderstood("a brace")
        return Chars(_char_set(_char(value), flags))

    def _read_not_literal(self, value: int, flags: int) -> Node:
        return Chars(_char_set(f"[^{_char(value)}]", flags))

    def _read_any(self, _: None, flags: int) -> Node:
        return Chars(_char_set(r"[\x00-\U0010ffff]" if flags & re.DOTALL else r"[^\x0a]", flags))

    def _read_in(self, value: Any, flags: int) -> Node:
        return Chars(_char_set("[" + "".join(map(_member, value)) + "]", flags))

    def _read_branch(self, value: Any, flags: int) -> Node:
        return Alt(tuple(self._sequence(branch, flags) for branch in value[1]))

    def _read_subpattern(self, value: Any, flags: int) -> Node:
        group, add, remove, items = value
        if add or remove:
            self._scoped = True
        node = self._sequence(items, (flags | add) & ~remove)
        if group is not None:
            self._groups[group] = node
        return node

    def _read_atomic_group(self, value: Any, flags: int) -> Node:
        return self._sequence(value, flags)

    def _read_max_repeat(self, value: Any, flags: int) -> Node:
        least, most, items = value
        limit = math.inf if most is _constants.MAXREPEAT else most
        return Repeat(self._sequence(items, flags), least, limit)

    _read_min_repeat = _read_max_repeat
    _read_possessive_repeat = _read_max_repeat

    def _read_assert(self, value: Any, flags: int) -> Node:
        return Lookaround(self._sequence(value[1], flags), behind=value[0] < 0, negative=False)

    def _read_assert_not(self, value: Any, flags: int) -> Node:
        return Lookaround(self._sequence(value[1], flags), behind=value[0] < 0, negative=True)

    def _read_failure(self, _: Any, __: int) -> Node:
        return NeverMatches()

    def _read_groupref(self, group: int, _: int) -> Node:
        """A repetition of a group is something that the group could match."""
        if self._scoped or group not in self._groups:
            raise NotUnderstood("a reference")
        return self._groups[group]

    def _read_groupref_exists(self, value: Any, flags: int) -> Node:
        _, yes, no = value
        return Alt((self._sequence(yes, flags), self._sequence(no or [], flags)))

    def _read_at(self, value: Any, flags: int) -> Node:
        lines = bool(flags & re.MULTILINE)
        kind = {
            _constants.AT_BEGINNING: "line_start" if lines else "text_start",
            _constants.AT_BEGINNING_STRING: "text_start",
            _constants.AT_END: "line_end" if lines else "last_line_end",
            _constants.AT_END_STRING: "text_end",
            _constants.AT_BOUNDARY: "boundary",
            _constants.AT_NON_BOUNDARY: "inside",
        }.get(value)
        if kind is None:
            raise NotUnderstood(str(value))
        return Anchor(kind, _char_set(r"\w", flags))


def _char_set(source: str, flags: int) -> CharSet:
    wanted = regex.IGNORECASE if flags & re.IGNORECASE else 0
    return CharSet(source, wanted | (regex.ASCII if flags & re.ASCII else 0))


def _char(point: int) -> str:
    return f"\\x{point:02x}" if point < 128 else f"\\U{point:08x}"


def _member(item: Any) -> str:
    op, value = item
    if op is _constants.NEGATE:
        return "^"
    if op is _constants.LITERAL:
        return _char(value)
    if op is _constants.RANGE:
        return f"{_char(value[0])}-{_char(value[1])}"
    if op is _constants.CATEGORY and value in _CATEGORIES:
        return _CATEGORIES[value]
    raise NotUnderstood(str(op))


def char_sets(node: Node) -> Iterator[CharSet]:
    """All that it consumes or looks at, to either side."""
    match node:
        case Chars(chars):
            yield chars
        case Seq(parts) | Alt(parts):
            for part in parts:
                yield from char_sets(part)
        case Repeat(inner) | Lookaround(inner):
            yield from char_sets(inner)
        case Anchor(_, word):
            yield word


def consumed(node: Node) -> Iterator[CharSet]:
    """All that it can step over, in a match or looking ahead."""
    match node:
        case Chars(chars):
            yield chars
        case Seq(parts) | Alt(parts):
            for part in parts:
                yield from consumed(part)
        case Repeat(inner):
            yield from consumed(inner)
        case Lookaround(inner, behind) if not behind:
            yield from consumed(inner)


def least_count(node: Node, counts: Callable[[CharSet], bool]) -> int:
    """How many characters of one sort every match holds."""
    match node:
        case Chars(chars):
            return int(counts(chars))
        case Seq(parts):
            return sum(least_count(part, counts) for part in parts)
        case Alt(branches):
            return min(least_count(branch, counts) for branch in branches)
        case Repeat(inner, least):
            return least * least_count(inner, counts) if least else 0
    return 0


def extent(node: Node) -> MatchExtent:
    match node:
        case Chars():
            return MatchExtent(1, 1, 1)
        case Seq(parts):
            return _sequence_extent(parts)
        case Alt(branches):
            extents = [extent(b) for b in branches]
            return MatchExtent(
                min(e.least for e in extents),
                max(e.most for e in extents),
                max(e.reach for e in extents),
            )
        case Repeat(inner, least, most):
            one = extent(inner)
            longest = one.most * most if one.most and most else 0
            before_last = one.most * (most - 1) if one.most and most > 1 else 0
            return MatchExtent(one.least * least, longest, before_last + one.reach)
        case Lookaround(inner, behind):
            return MatchExtent(0, 0, 0 if behind else extent(inner).reach)
        case Anchor():
            return MatchExtent(0, 0, 2)  # `$` looks for a line feed and for the end behind it
        case NeverMatches():
            return MatchExtent(0, 0, 0)


def _sequence_extent(parts: Sequence[Node]) -> MatchExtent:
    least, most, reach = 0, 0.0, 0.0
    for part in parts:
        part_extent = extent(part)
        reach = max(reach, most + part_extent.reach)
        least, most = least + part_extent.least, most + part_extent.most
    return MatchExtent(least, most, reach)
