"""A text cut into words, and what each looks like: all that the tagger knows of how it is written.

A word is a run of letters and digits, with the accents that are characters of their own; every
other character that is no space stands alone, so that `user_name`, `O'Brien` and `{"a":1}` come
apart the same way in every text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

_WORD = re.compile(r"[^\W_]+(?:[\u0300-\u036f]+[^\W_]*)*|[^\w\s]|_")


_WIDEST = 64  # characters of white space before the first word of a part that count


class Case(IntEnum):
    """How the letters of a word are cased."""

    SIGN = 0
    LOWER = 1
    TITLE = 2  # Title
    UPPER = 3  # UPPER, two letters or more
    INITIAL = 4  # one capital letter
    MIXED = 5  # camelCase, McDonald
    DIGITS = 6
    MARKED = 7  # letters and digits: B12, 3rd
    UNCASED = 8  # of a script without case


class WordGap(IntEnum):
    """What stands before a word."""

    START = 0
    NONE = 1
    SPACE = 2
    LINE = 3


@dataclass(frozen=True, slots=True)
class TextWords:
    """The words of one text with their offsets in it, in characters."""

    words: list[str] = field(repr=False)
    starts: list[int]
    ends: list[int]
    gaps: list[int]

    def __len__(self) -> int:
        return len(self.words)

    def part(self, first: int, last: int) -> TextWords:
        """Some of them, as they stand in the whole text."""
        return TextWords(
            self.words[first:last],
            self.starts[first:last],
            self.ends[first:last],
            self.gaps[first:last],
        )


def cut(text: str, first: int = 0, last: int | None = None) -> TextWords:
    """The words of a text, or those between two characters of it, which must not divide one."""
    words: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    gaps: list[int] = []
    before = len(text[max(0, first - _WIDEST) : first].rstrip()) + max(0, first - _WIDEST) or -1
    for match in _WORD.finditer(text, first, len(text) if last is None else last):
        start, end = match.span()
        words.append(match[0])
        starts.append(start)
        ends.append(end)
        if before < 0:
            gaps.append(int(WordGap.START))
        elif start == before:
            gaps.append(int(WordGap.NONE))
        else:
            gaps.append(int(WordGap.SPACE if text.find("\n", before, start) < 0 else WordGap.LINE))
        before = end
    return TextWords(words, starts, ends, gaps)


def letter_case(word: str) -> Case:
    if word.isdigit():
        return Case.DIGITS
    if not word.isalnum():
        return Case.SIGN
    if not word.isalpha():
        return Case.MARKED
    if word.islower():
        return Case.LOWER
    if word.isupper():
        return Case.UPPER if len(word) > 1 else Case.INITIAL
    if word[0].isupper() and word[1:].islower():
        return Case.TITLE
    return Case.MIXED if word.lower() != word.upper() else Case.UNCASED


def handles(words: TextWords) -> Iterator[tuple[int, int]]:
    """Where somebody may be called by a handle, `@anna_k`: indexes of its first word, the sign, and
    past its last. A sign inside a word (`anna@example.org`) begins none."""
    at = -1
    for _ in range(words.words.count("@")):
        at = words.words.index("@", at + 1)
        if words.gaps[at] == WordGap.NONE and _in_handle(words.words[at - 1]):
            continue
        end = at + 1
        while end < len(words) and words.gaps[end] == WordGap.NONE and _in_handle(words.words[end]):
            end += 1
        if end > at + 1:
            yield at, end


def _in_handle(word: str) -> bool:
    return word == "_" or letter_case(word) is not Case.SIGN
