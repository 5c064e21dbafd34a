"""What would still tell of an original, wherever and however it stands.

Words of names, of addresses and of the boxes of e-mail addresses are looked for in plain spelling
and as a part of words; numbers by their ends and by seven digits in a row.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gateway.classify.pseudonyms.values import numerals
from gateway.classify.pseudonyms.values.addresses import address_words, compounds, postcodes
from gateway.classify.pseudonyms.values.mailboxes import mailbox, mailbox_words
from gateway.classify.pseudonyms.values.names import (
    NameWord,
    WordMatch,
    is_ending,
    name_pairs,
    name_parts,
    part_words,
    softened,
    with_initial,
)
from gateway.classify.pseudonyms.values.spelling import APOSTROPHES, Plain, plain
from gateway.classify.pseudonyms.values.vocabulary import is_common, is_dictionary_word

PERSON = "PERSON"
ADDRESS = "STREET_ADDRESS"
EMAIL = "EMAIL_ADDRESS"
_TOKEN = re.compile(r"[^\W\d_]+")
_ESCAPED = frozenset("bfnrt")  # behind a backslash
_JOINTS = ("", ".", "_", "-", "+", " ")
_SPACED = re.compile(r"(?<![^\W_])(?:[^\W\d_][ ._*-]){3,}[^\W\d_](?![^\W_])")  # K e l l e r
_HYPHENATED = re.compile(r"[^\W\d_]+(?:[-\u00ad\u2010-\u2015]\s?[^\W\d_]+)+")  # Kel-ler
_LONGEST_ENDING = 4
_PLAIN_ENDINGS = frozenset({"s", "es", "n", "en", "ens", "er"})
_PLACE_WITHIN_WORDS = 5  # letters


@dataclass(frozen=True, slots=True)
class Remnant:
    """A place in a text that tells of an original: of a part of a name, a word of an address, the
    box of an e-mail address, or a number."""

    start: int
    end: int
    type: str
    original: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Token:
    """Letters in a row in plain spelling, and where words may be joined in them."""

    text: str = field(repr=False)
    start: int
    joints: tuple[int, ...]

    def words(self) -> Iterator[tuple[str, int, int]]:
        """The words in it and itself, with their places in the plain text."""
        yield self.text, self.start, self.start + len(self.text)
        if self.joints:
            cuts = (self.start, *self.joints, self.start + len(self.text))
            for start, end in itertools.pairwise(cuts):
                yield self.text[start - self.start : end - self.start], start, end

    def word_around(self, start: int, end: int) -> str:
        """The shortest of these words that holds a place."""
        holding = [word for word, a, b in self.words() if a <= start and end <= b]
        return min(holding, key=len, default=self.text)


class Remnants:
    """Looks for what is left of the originals of one call."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """`values`: original -> type."""
        self.numbers = numerals.CallNumbers.from_values(values)
        self._words: dict[tuple[str, WordMatch, bool], tuple[NameWord, str]] = {}
        self._compounds: dict[str, str] = {}  # Lindenstr, in plain spelling -> Linden
        self._literal: dict[str, tuple[str, str]] = {}  # in plain spelling -> type and original
        self._pairs: list[tuple[str, str, str, str]] = []
        for value, type_ in values.items():
            if type_ == PERSON:
                self._add_name([part[0] for part in name_parts(value)])
            elif type_ == ADDRESS:
                self._add_address(value)
        for value, type_ in values.items():  # behind the names, whose words they may be
            if type_ == EMAIL:
                self._add_box(value)

    def find(self, text: str) -> list[Remnant]:
        """Remnants that do not overlap, in order."""
        spelled = plain(text)
        tokens = list(_tokens(text, spelled))
        remnants = [
            *self._alone(text, spelled, tokens),
            *self._within_words(spelled, tokens),
            *self._in_one_word(spelled),
            *self._literally(spelled),
            *self._digits(spelled),
        ]
        return list(_apart(remnants))

    def cover(self, text: str, spare: int) -> bool:
        """Whether all letters and digits of a text are remnants, but for so many."""
        remnants = self.find(text)
        bare = sum(map(str.isalnum, text))
        covered = sum(sum(map(str.isalnum, text[r.start : r.end])) for r in remnants)
        return bool(remnants) and bare - covered <= spare

    def are_within(self, text: str) -> bool:
        """Whether anything is left, also where it could not be replaced."""
        if self.find(text):
            return True
        if any(
            self.find("".join(filter(str.isalpha, broken[0])))
            for pattern in (_SPACED, _HYPHENATED)
            for broken in pattern.finditer(text)
        ):
            return True
        runs = numerals.runs(plain(text).text)
        return any(self.numbers.within("".join(g.digits for g in groups)) for groups in runs)

    def _add(self, word: NameWord, type_: str) -> None:
        if word.text:
            self._words.setdefault((word.text, word.how, word.stem), (word, type_))

    def _add_name(self, parts: list[str]) -> None:
        for part in parts:
            for word in part_words(part):
                self._add(word, PERSON)
                if (dative := softened(word.text)) and word.how is WordMatch.WITHIN_WORDS:
                    self._add(NameWord(dative, part, WordMatch.ALONE), PERSON)
        self._pairs += name_pairs(parts)
        if (short := with_initial(parts)) is not None:
            self._literal.setdefault(plain(short).text, (PERSON, short))

    def _add_address(self, address: str) -> None:
        for word in address_words(address):
            self._add(NameWord(plain(word).text, word, _place_match(word)), ADDRESS)
        for name, compound in compounds(address):
            self._compounds.setdefault(plain(compound).text, name)
        for code in postcodes(address):
            for written in (code, code.replace(" ", "")):
                self._literal.setdefault(plain(written).text, (ADDRESS, written))

    def _add_box(self, email: str) -> None:
        box = mailbox(email)
        words = mailbox_words(box)
        if words:
            self._literal.setdefault(plain(box).text, (EMAIL, email))
        for name in words:
            if not any(text == name for text, _, _ in self._words):
                self._add_name([name])

    def _alone(self, text: str, spelled: Plain, tokens: list[_Token]) -> Iterator[Remnant]:
        for token in tokens:
            for word, start, _ in token.words():
                for known, type_, length in self._known(word):
                    place = spelled.span(start, start + length)
                    if known.how is not WordMatch.AS_WRITTEN or _as_written(
                        text, place, known.original
                    ):
                        yield Remnant(*place, type_, known.original)

    def _known(self, word: str) -> Iterator[tuple[NameWord, str, int]]:
        """What a whole word tells of, and how many of its letters do."""
        for how in (WordMatch.ALONE, WordMatch.AS_WRITTEN):
            if (known := self._words.get((word, how, False))) is not None:
                yield *known, len(word)
        if word in self._compounds:
            name = self._compounds[word]
            yield NameWord(word, name, WordMatch.ALONE), ADDRESS, len(plain(name).text)
        for cut in range(1, min(_LONGEST_ENDING, len(word) - 2) + 1):
            if word[-cut:] == "s" or is_ending(word[-cut:]):
                for how in (
                    (WordMatch.ALONE, WordMatch.AS_WRITTEN) if cut == 1 else (WordMatch.AS_WRITTEN,)
                ):
                    known = self._words.get((word[:-cut], how, False))
                    if known is not None and not is_common(word) and not is_dictionary_word(word):
                        yield *known, len(word) - cut
        for cut in range(1, min(_LONGEST_ENDING, len(word) - 2) + 1):
            if is_ending(word[-cut:]):
                known = self._words.get((word[:-cut], WordMatch.ALONE, True))
                if known is not None and not is_dictionary_word(word) and not is_common(word):
                    yield *known, len(word)

    def _within_words(self, spelled: Plain, tokens: list[_Token]) -> Iterator[Remnant]:
        starts = [token.start for token in tokens]
        for (needle, how, _), (word, type_) in self._words.items():
            if how is not WordMatch.WITHIN_WORDS:
                continue
            for at in _places(spelled.text, needle):
                token = tokens[bisect.bisect_right(starts, at) - 1]
                around = token.word_around(at, at + len(needle))
                if _is_inflected(around, needle) or not is_dictionary_word(around):
                    yield Remnant(*spelled.span(at, at + len(needle)), type_, word.original)

    def _in_one_word(self, spelled: Plain) -> Iterator[Remnant]:
        """Parts of one name that are joined, such as in a login."""
        for one, two, first, second in self._pairs:
            if two not in spelled.text:
                continue
            for joint in _JOINTS:
                for at in _places(spelled.text, one + joint + two):
                    start = at + len(one) + len(joint)
                    end = start + len(two)
                    open_ends = spelled.text[at - 1 : at].isalpha() if at else 0
                    open_ends += spelled.text[end : end + 1].isalpha()
                    if open_ends > (len(one) > 1):
                        continue
                    if len(one) > 1:
                        yield Remnant(*spelled.span(at, at + len(one)), PERSON, first)
                    yield Remnant(*spelled.span(start, end), PERSON, second)

    def _literally(self, spelled: Plain) -> Iterator[Remnant]:
        for needle, (type_, original) in self._literal.items():
            for at in _places(spelled.text, needle):
                before = spelled.text[at - 1 : at] if at else ""
                behind = spelled.text[at + len(needle) : at + len(needle) + 1]
                if not (before.isalnum() or behind.isalnum()):
                    yield Remnant(*spelled.span(at, at + len(needle)), type_, original)

    def _digits(self, spelled: Plain) -> Iterator[Remnant]:
        for groups in numerals.runs(spelled.text):
            at = 0
            for digits, start, end, apart in numerals.numbers_within(groups):
                if start >= at and (number := self.numbers.match(digits, apart)) is not None:
                    start -= _opened(spelled.text, start, end)
                    yield Remnant(*spelled.span(start, end), *number)
                    at = end


def _is_inflected(word: str, name: str) -> bool:
    ending = word.removeprefix(name)
    return word.startswith(name) and (not ending or ending in _PLAIN_ENDINGS or is_ending(ending))


def _opened(text: str, start: int, end: int) -> int:
    """How many signs before its first digit belong to a number: + or the ( of its area."""
    before = text[start - 1 : start] if start else ""
    return int(before == "+" or (before == "(" and ")" in text[start:end]))


def _place_match(word: str) -> WordMatch:
    spelled = plain(word).text
    if is_common(spelled) or is_dictionary_word(spelled):
        return WordMatch.AS_WRITTEN
    return WordMatch.WITHIN_WORDS if len(spelled) >= _PLACE_WITHIN_WORDS else WordMatch.ALONE


def _as_written(text: str, place: tuple[int, int], original: str) -> bool:
    """Whether a common word is the name: in its case or with a capital, within a login, or the
    whole of a text."""
    start, end = place
    written = text[start:end]
    if original.islower() or not written.islower():
        return True
    before, behind = text[start - 1 : start] if start else "", text[end : end + 2]
    if before in ("_", "@", "/", "=") or behind[:1] == "_" or behind[:1].isdigit():
        return True
    if (behind[:1] == "." and behind[1:].isalnum()) or (before and before == behind[:1] == '"'):
        return True
    return text.strip() == written


def _tokens(text: str, spelled: Plain) -> Iterator[_Token]:
    for match in _TOKEN.finditer(spelled.text):
        start, end = match.span()
        joints = [at for at in range(start + 1, end) if _joined(text, spelled, at)]
        if start and spelled.text[start - 1] == "\\" and spelled.text[start] in _ESCAPED:
            joints = sorted({start + 1, *joints} - {end})
        yield _Token(match[0], start, tuple(joints))


def _joined(text: str, spelled: Plain, at: int) -> bool:
    """Whether a word begins within letters in a row: camelCase, or behind an apostrophe."""
    if spelled.starts is None or spelled.ends is None:
        return text[at].isupper() and text[at - 1].islower()
    before, start = spelled.starts[at - 1], spelled.starts[at]
    if any(c in APOSTROPHES for c in text[spelled.ends[at - 1] : start]):
        return True
    return text[start].isupper() and text[before].islower()


def _places(text: str, needle: str) -> Iterator[int]:
    at = text.find(needle)
    while at >= 0:
        yield at
        at = text.find(needle, at + 1)


def _apart(remnants: Iterable[Remnant]) -> Iterator[Remnant]:
    """From left to right; of those that begin together the longest."""
    end = 0
    for remnant in sorted(remnants, key=lambda r: (r.start, -r.end)):
        if remnant.start >= end:
            end = remnant.end
            yield remnant
