"""An expression over the folded bytes that matches wherever the original does, and little more.

Hyperscan has no look-around, and its `\\b` knows ASCII alone, so both are dropped inside an
expression. At its two ends, where nearly all stand, a condition on the neighbouring character is
written as that character: `(?<!\\d)x` becomes `(?:\\A|[^0-9])x`. That moves where a match starts
and ends by one, which is all that the finder has to know. What must stand before the first
character is written in full: where a match starts is never asked.

Repeats at the ends are cut to their least count: a text that holds `ab{2,9}` holds `abb`. That says
the same, and spares the automaton a report for every further character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.classify.patterns.alphabet import ALL, SHARED, CharSet
from gateway.classify.patterns.syntax import (
    Alt,
    Anchor,
    Chars,
    Lookaround,
    NeverMatches,
    Node,
    Repeat,
    Seq,
    char_sets,
)

COUNTED = (32, 4, 1)
"""A repeat counts up to here; from here on it is endless. Long counters make Hyperscan's compiler
slow, and nested ones make it give up: then the next lower limit is tried."""
_LINE_FEED = 1 << 10
_UPPER = sum(1 << byte for byte in range(ord("A"), ord("Z") + 1))
_LOWER = _UPPER << 32


@dataclass(frozen=True, slots=True)
class AdjacentBytes:
    """The bytes that may stand next to a match, and whether the text may end there."""

    mask: int = ALL
    edge: bool = True

    def __and__(self, other: AdjacentBytes) -> AdjacentBytes:
        return AdjacentBytes(self.mask & other.mask, self.edge and other.edge)

    def __or__(self, other: AdjacentBytes) -> AdjacentBytes:
        return AdjacentBytes(self.mask | other.mask, self.edge or other.edge)

    def write(self, edge: str, omitted: int) -> str:
        if self == _ANYTHING or (not self.mask and not self.edge):
            return ""
        if not self.mask:
            return edge
        neighbour = _class(self.mask, omitted)
        return f"(?:{edge}|{neighbour})" if self.edge else neighbour


_ANYTHING = AdjacentBytes()


@dataclass(frozen=True, slots=True)
class Expression:
    """In Hyperscan's syntax."""

    text: str
    caseless: bool


class Superset:
    """Writes expressions for one alphabet, given the bytes of each character set."""

    def __init__(self, class_bytes: Callable[[CharSet], int], caseless: bool, counted: int) -> None:
        self._bytes = class_bytes
        self._counted = counted
        self._omitted = _UPPER if caseless else 0

    @classmethod
    def compile(
        cls, node: Node, class_bytes: Callable[[CharSet], int], counted: int = COUNTED[0]
    ) -> Expression:
        """With the letters of one case alone where case makes no difference: Hyperscan takes
        expressions up to 16,000 characters, and a list of all top-level domains is near that."""
        masks = {class_bytes(chars) for chars in char_sets(node)}
        caseless = all(_swapped(mask) == mask for mask in masks)
        writer = cls(class_bytes, caseless, counted)
        return Expression(writer._write(node, head=True, tail=True), caseless)

    def _write(self, node: Node, head: bool, tail: bool) -> str:
        """`head` and `tail`: whether nothing else is written before or behind this."""
        match node:
            case Chars(chars):
                return _class(self._bytes(chars), self._omitted)
            case Alt(branches) if not _is_condition(node):
                return "(?:" + "|".join(self._write(b, head, tail) for b in branches) + ")"
            case Repeat(inner, least, most):
                return self._repeat(inner, least, least if head or tail else most, head, tail)
            case Seq(parts):
                return self._sequence(parts, head, tail)
        return self._sequence((node,), head, tail)

    def _repeat(self, inner: Node, least: int, most: float, head: bool, tail: bool) -> str:
        if most == 0:
            return ""
        if least == most == 1:
            return self._write(inner, head, tail)
        limit = "" if most > self._counted else int(most)
        written = self._write(inner, head=False, tail=False)
        return f"(?:{written}){{{min(least, self._counted)},{limit}}}" if written else ""

    def _sequence(self, parts: Sequence[Node], head: bool, tail: bool) -> str:
        first, last = 0, len(parts)
        while first < last and _is_condition(parts[first]):
            first += 1
        while last > first and _is_condition(parts[last - 1]):
            last -= 1
        core = Seq(tuple(parts[first:last]))
        before, after = _ANYTHING, _ANYTHING
        led = self._lead(parts[:first]) if head else ""
        if head and not led:
            before = self._adjacent(Seq(tuple(parts[:first])), self._edge(core, -1), behind=True)
        if tail:
            after = self._adjacent(Seq(tuple(parts[last:])), self._edge(core, 1), behind=False)
        bare = head and not led and before == _ANYTHING
        written = self._core(core.parts, bare, tail and after == _ANYTHING)
        return (
            led + before.write("\\A", self._omitted) + written + after.write("\\z", self._omitted)
        )

    def _lead(self, conditions: Sequence[Node]) -> str:
        """What must stand before, where that is more than one character; the conditions beside it
        are dropped."""
        for condition in conditions:
            match condition:
                case Lookaround(Chars()):
                    continue
                case Lookaround(node, behind=True, negative=False):
                    return self._write(node, head=True, tail=False)
        return ""

    def _core(self, parts: Sequence[Node], head: bool, tail: bool) -> str:
        heads, tails = _open(parts, head), _open(parts[::-1], tail)[::-1]
        return "".join(
            self._write(part, at_head, at_tail)
            for part, at_head, at_tail in zip(parts, heads, tails, strict=True)
            if not _is_condition(part)
        )

    def _adjacent(self, node: Node, inner: int | None, behind: bool) -> AdjacentBytes:
        """What a condition says of the neighbour, `inner` being what stands on this side."""
        match node:
            case Anchor("text_start" | "text_end"):
                return AdjacentBytes(0)
            case Anchor("line_start" | "line_end" | "last_line_end"):
                return AdjacentBytes(_LINE_FEED)
            case Anchor(kind, word):
                return self._boundary(kind == "boundary", self._bytes(word), inner)
            case Lookaround(Chars(chars), looks_behind, negative) if looks_behind == behind:
                mask = self._bytes(chars)
                return AdjacentBytes(_not(mask)) if negative else AdjacentBytes(mask, edge=False)
            case Seq(parts):
                sequence = _ANYTHING
                for part in parts:
                    sequence &= self._adjacent(part, inner, behind)
                return sequence
            case Alt(branches):
                union = AdjacentBytes(0, edge=False)
                for branch in branches:
                    union |= self._adjacent(branch, inner, behind)
                return union
        return _ANYTHING

    @staticmethod
    def _boundary(wanted: bool, word: int, inner: int | None) -> AdjacentBytes:
        """What stands outside, when the character inside is known to be of a word or known not to
        be. The text's end counts as no word."""
        if inner is None:
            return _ANYTHING
        if not inner & _not(word):
            inside_is_word = True
        elif not inner & word:
            inside_is_word = False
        else:
            return _ANYTHING
        outside_is_word = inside_is_word != wanted
        return AdjacentBytes(word, edge=False) if outside_is_word else AdjacentBytes(_not(word))

    def _edge(self, node: Node, at: int) -> int | None:
        """The bytes that its first (-1) or last (1) character can be; None: it may have none."""
        match node:
            case Chars(chars):
                return self._bytes(chars)
            case Seq(parts) if parts:
                return self._edge(parts[0] if at < 0 else parts[-1], at)
            case Alt(branches):
                mask = 0
                for branch in branches:
                    edge = self._edge(branch, at)
                    if edge is None:
                        return None
                    mask |= edge
                return mask
            case Repeat(inner, least) if least > 0:
                return self._edge(inner, at)
        return None


def _open(parts: Sequence[Node], open_: bool) -> list[bool]:
    """Which parts have nothing written before them: the first, and those after what is dropped."""
    flags = []
    for part in parts:
        flags.append(open_)
        dropped = _is_condition(part) or (isinstance(part, Repeat) and part.least == 0)
        open_ = open_ and dropped
    return flags


def _is_condition(node: Node) -> bool:
    """Matches no character itself."""
    match node:
        case Lookaround() | Anchor() | NeverMatches():
            return True
        case Seq(parts) | Alt(parts):
            return all(map(_is_condition, parts))
        case Repeat(inner):
            return _is_condition(inner)
    return False


def _swapped(mask: int) -> int:
    """The mask with upper and lower case exchanged."""
    return (mask & ~(_UPPER | _LOWER)) | (mask & _UPPER) << 32 | (mask & _LOWER) >> 32


def _not(mask: int) -> int:
    """The shared byte stands for characters inside and outside of a set alike."""
    return (ALL & ~mask) | SHARED


def _class(mask: int, omitted: int) -> str:
    if mask in (0, ALL):  # a set of nothing is rare enough to over-match
        return "."
    mask &= ~omitted
    if mask.bit_count() == 1:
        return _byte(mask.bit_length() - 1)
    return "[" + "".join(_ranges(mask)) + "]"


def _ranges(mask: int) -> list[str]:
    ranges, byte = [], 0
    while byte < 256:
        if mask >> byte & 1:
            last = byte
            while last < 255 and mask >> (last + 1) & 1:
                last += 1
            ranges.append(_byte(byte) + (f"-{_byte(last)}" if last > byte else ""))
            byte = last
        byte += 1
    return ranges


def _byte(byte: int) -> str:
    return chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\x{byte:02x}"
