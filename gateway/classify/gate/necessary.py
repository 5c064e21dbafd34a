"""What every match of an expression must hold: as many digits in a row, or a certain character."""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.classify.patterns.alphabet import CharSet
from gateway.classify.patterns.syntax import (
    Alt,
    Chars,
    Lookaround,
    Node,
    Repeat,
    Seq,
    extent,
    parse,
)

GAP_CHARS = "-x ()./~[]\t\r\n_|"
"""Between the digits of one number: what numbers.py allows, but for the comma, and brackets."""
_DIGITS = frozenset("0123456789")
_MARKS = frozenset(string.punctuation)
_BEYOND_ASCII = "é中\u2028§"  # a letter, another, a space, a sign
_MOST_REPEATS = 64
_LEAST_WORD, _LEAST_DISTINCT, _LEAST_BEHIND_GAP, _GAP_CHARS = 2, 5, 7, 40  # characters
_IGNORECASE = 2  # of re and regex
_EMPTY = Seq(())


@dataclass(frozen=True, slots=True)
class DigitRun:
    """The fewest digits in a row, gaps aside, that a match has: anywhere, at its head and at its
    tail; and whether its head's run goes on to its tail."""

    best: int = 0
    head: int = 0
    tail: int = 0
    solid: bool = True

    def then(self, other: DigitRun) -> DigitRun:
        return DigitRun(
            max(self.best, other.best, self.tail + other.head),
            self.head + (other.head if self.solid else 0),
            other.tail + (self.tail if other.solid else 0),
            self.solid and other.solid,
        )

    def either(self, other: DigitRun) -> DigitRun:
        return DigitRun(
            min(self.best, other.best),
            min(self.head, other.head),
            min(self.tail, other.tail),
            self.solid and other.solid,
        )


_GAP, _DIGIT, _OTHER = DigitRun(), DigitRun(1, 1, 1), DigitRun(solid=False)


def digit_run(node: Node) -> int:
    """Digits that stand together in every match, with nothing but GAP_CHARS between them."""
    return _run(node).best


def _run(node: Node) -> DigitRun:
    match node:
        case Chars(chars):
            return _single_run(chars)
        case Seq(parts):
            return functools.reduce(DigitRun.then, map(_run, parts), _GAP)
        case Alt(branches):
            return functools.reduce(DigitRun.either, map(_run, branches))
        case Repeat(inner, least, most):
            one = _run(inner)
            sure = functools.reduce(DigitRun.then, [one] * min(least, _MOST_REPEATS), _GAP)
            return sure if most == least else sure.then(DigitRun(solid=one.solid))
    return _GAP


def _single_run(chars: CharSet) -> DigitRun:
    members = _members(chars)
    if members is None:
        return _OTHER
    if members <= _DIGITS:
        return _DIGIT
    return _GAP if members <= frozenset(GAP_CHARS) else _OTHER


@functools.cache
def _members(chars: CharSet) -> frozenset[str] | None:
    """In ASCII; None for a set that has others too, digits of other scripts apart."""
    one = chars.compiled().match
    if any(one(c) for c in _BEYOND_ASCII) or "\\U" in chars.source:
        return None
    return frozenset(c for c in map(chr, range(128)) if one(c))


def requires(node: Node, char: str) -> bool:
    """Whether every match holds this character."""
    match node:
        case Chars(chars):
            return _members(chars) == frozenset(char)
        case Seq(parts):
            return any(requires(part, char) for part in parts)
        case Alt(branches):
            return all(requires(branch, char) for branch in branches)
        case Repeat(inner, least):
            return least > 0 and requires(inner, char)
    return False


def needs_digit(node: Node) -> bool:
    """Whether a text without a digit has no match: each holds one, or looks at one beside it."""
    match node:
        case Chars(chars):
            members = _members(chars)
            return members is not None and members <= _DIGITS
        case Seq(parts):
            return any(map(needs_digit, parts))
        case Alt(branches):
            return all(map(needs_digit, branches))
        case Repeat(inner, least):
            return least > 0 and needs_digit(inner)
        case Lookaround(inner, negative=False):
            return needs_digit(inner)
    return False


def among(node: Node, possible: Callable[[CharSet], bool]) -> Node | None:
    """What is left of an expression in texts in which a character of some sets is possible and
    none of others: it matches the same places. None if it matches nowhere there."""
    match node:
        case Chars(chars):
            return node if possible(chars) else None
        case Seq(parts):
            left = [among(part, possible) for part in parts]
            return None if None in left else Seq(tuple(part for part in left if part is not None))
        case Alt(branches):
            able = [b for b in (among(branch, possible) for branch in branches) if b is not None]
            return Alt(tuple(able)) if able else None
        case Repeat(inner, least, most):
            if (one := among(inner, possible)) is not None:
                return Repeat(one, least, most)
            return None if least else _EMPTY
        case Lookaround(inner, behind, negative):
            if (inner_node := among(inner, possible)) is not None:
                return Lookaround(inner_node, behind, negative)
            return _EMPTY if negative else None
    return node


def branches(node: Node) -> int:
    """How many alternatives it has, at all of its places together."""
    match node:
        case Alt(alternatives):
            return len(alternatives) + sum(map(branches, alternatives))
        case Seq(parts):
            return sum(map(branches, parts))
        case Repeat(inner) | Lookaround(inner):
            return branches(inner)
    return 0


def coarse(node: Node) -> Node:
    """An expression that matches wherever this one does, and that counts to no more than four."""
    match node:
        case Repeat(inner, least, most):
            return Repeat(coarse(inner), min(least, 4), most if most <= 4 else math.inf)
        case Seq(parts):
            return Seq(tuple(map(coarse, parts)))
        case Alt(branches):
            return Alt(tuple(map(coarse, branches)))
    return node


def around(node: Node) -> float:
    """Characters on either side of any character of a match, in which all stands that it depends
    on, and one more."""
    # guard: C14.near-reach -> return 8
    return extent(node).reach + _behind(node) + 2


def _behind(node: Node) -> float:
    """Characters before a match that conditions look at."""
    match node:
        case Lookaround(inner, behind=True):
            return extent(inner).most
        case Seq(parts) | Alt(parts):
            return max(map(_behind, parts), default=0)
        case Repeat(inner):
            return _behind(inner)
    return 0


def near_words(words: Sequence[str], node: Node) -> Node:
    """`node` at most five words behind one that contains one of `words`: where Presidio's context
    lifts a weak score."""
    listed = "|".join("".join(_escaped(c) for c in word) for word in words)
    return Seq((parse(rf"(?:{listed})\w*(?:\W+\w+){{0,5}}\W+", _IGNORECASE), node))


def _escaped(char: str) -> str:
    return f"\\U{ord(char):08x}"


def telling(node: Node) -> Node:
    """An expression, or what is left of it behind the part that almost any text matches: from its
    first digit or word on, or behind its last wide gap. Hyperscan passes quickly over text without
    those."""
    if not isinstance(node, Seq):
        return node
    parts = node.parts
    gaps = [at for at, part in enumerate(parts) if _is_gap(part)]
    if gaps and (rest := _from_distinct(parts[gaps[-1] + 1 :], _LEAST_BEHIND_GAP)):
        return Seq(rest)
    rest = _from_distinct(parts, _LEAST_DISTINCT)
    passed = parts[: len(parts) - len(rest)]
    return Seq(rest) if rest and any(extent(part).most > 0 for part in passed) else node


def _from_distinct(parts: Sequence[Node], least: int) -> tuple[Node, ...]:
    """From the first part that tells on, if that is of so many characters, with the letters before
    it that are always the same: what is left of a word without them is in others, too."""
    for at, part in enumerate(parts):
        if _is_distinct(part):
            while at and _is_letter(parts[at - 1]):
                at -= 1
            rest = tuple(parts[at:])
            return rest if extent(Seq(rest)).least >= least else ()
    return ()


def _is_letter(part: Node) -> bool:
    """One, in upper or lower case."""
    if not isinstance(part, Chars):
        return False
    members = _members(part.set)
    letters = "".join(members or ()).lower()
    return letters.isalpha() and len(set(letters)) == 1


def _is_gap(part: Node) -> bool:
    return isinstance(part, Repeat) and isinstance(part.node, Chars) and part.most >= _GAP_CHARS


def starts_with_digit(node: Node) -> bool:
    """Whether the first character of every match is one."""
    return _starts_with(_DIGITS, node)


def starts_with_mark(node: Node) -> bool:
    """Whether the first character of every match is neither letter nor digit, nor a space."""
    return _starts_with(_MARKS, node)


def starts_with_words(node: Node) -> bool:
    """Whether every match begins with one of several words."""
    match node:
        case Alt(branches):
            return all(extent(branch).least >= _LEAST_WORD for branch in branches)
        case Seq(parts):
            for part in parts:
                if extent(part).most > 0:
                    return starts_with_words(part)
    return False


def starts_with_pairs(node: Node) -> bool:
    """Whether every match begins with one of several pairs of characters, and what follows is no
    word."""
    match node:
        case Alt(branches):
            return all(extent(branch).most == _LEAST_WORD for branch in branches)
        case Seq(parts):
            for part in parts:
                if extent(part).most > 0:
                    return starts_with_pairs(part)
    return False


def _starts_with(wanted: frozenset[str], node: Node) -> bool:
    match node:
        case Chars(chars):
            members = _members(chars)
            return members is not None and members <= wanted
        case Seq(parts):
            for part in parts:
                if extent(part).most > 0:
                    return _starts_with(wanted, part)
        case Alt(branches):
            return all(_starts_with(wanted, branch) for branch in branches)
        case Repeat(inner, least):
            return least > 0 and _starts_with(wanted, inner)
    return False


def _is_distinct(part: Node) -> bool:
    """Whether it starts with a digit, or with words of which one must be there."""
    match part:
        case Chars():
            return starts_with_digit(part)
        case Alt(branches):
            return all(
                extent(branch).least >= _LEAST_WORD or _is_distinct(branch) for branch in branches
            )
        case Repeat(inner, least):
            return least > 0 and _is_distinct(inner)
        case Seq(parts):
            return bool(parts) and _is_distinct(parts[0])
    return False
