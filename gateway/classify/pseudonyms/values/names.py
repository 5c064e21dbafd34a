"""The parts of a person's name, and the spellings in which each may stand elsewhere."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from gateway.classify.pseudonyms.values.lists import PARTICLES
from gateway.classify.pseudonyms.values.spelling import spelled_plainly
from gateway.classify.pseudonyms.values.vocabulary import is_common

_NAME = re.compile(r"(?=[^\W\d_])(?:[^\W\d_]|[\u0300-\u036f]|[ .,'\u2019\u2010\u2011-]){2,80}")
_LETTER = r"[^\W\d_][\u0300-\u036f]*"
_PART = re.compile(rf"{_LETTER}(?:{_LETTER}|['\u2019](?={_LETTER}))+")
_MAX_PARTS = 8
_WITHIN_WORDS = 4  # letters from which a name is looked for as a part of words
_PAIR = 5  # letters of two parts of a name that tell of it in one word

_UMLAUTS = (("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("å", "aa"), ("ø", "oe"))
_ENDINGS = frozenset(
    (  # noqa: SIM905 - as a list
        "y i ii ie e o a u ej iej om ami ach em iem owi owie ow ego iego emu iemu ym im ich "
        "ych ze zie ova ove"
    ).split()
)
"""Of the cases of Polish and its neighbours, in plain spelling."""
_SOFTENED = {"k": "ce", "g": "dze", "t": "cie", "h": "sze", "d": "dzie", "r": "rze", "l": "le"}


class WordMatch(Enum):
    """How a word is looked for."""

    WITHIN_WORDS = auto()  # in any case, as a part of words too
    ALONE = auto()  # in any case, as a word of its own
    AS_WRITTEN = auto()  # in the case of the original or in capitals, as a word of its own


@dataclass(frozen=True, slots=True)
class NameWord:
    """A word to look for, in plain spelling, and the part of an original that it tells of."""

    text: str = field(repr=False)
    original: str = field(repr=False)
    how: WordMatch
    stem: bool = False  # with an ending of a grammatical case behind it


def name_parts(name: str) -> list[re.Match[str]]:
    """No parts if it does not look like a name, or like nothing else. Parts joined by hyphens are
    parts of their own; initials are none."""
    if not _NAME.fullmatch(name):
        return []
    parts = [m for m in _PART.finditer(name) if m[0].lower() not in PARTICLES]
    return parts if len(parts) <= _MAX_PARTS else []


def part_words(part: str) -> Iterator[NameWord]:
    """The words that tell of one part of a name."""
    for spelling in _spellings(part):
        how = _how(spelling)
        yield NameWord(spelling, part, how)
        if how is WordMatch.WITHIN_WORDS:
            for stem in _stems(spelling):
                yield NameWord(stem, part, WordMatch.ALONE, stem=True)
    for piece in re.split("['\u2019]", part)[1:]:  # Brien of O'Brien
        if len(piece) >= _WITHIN_WORDS - 1:
            yield NameWord(plain := spelled_plainly(piece), part, _how(plain))


def name_pairs(parts: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Two parts of one name that may stand in one word, such as a login: the words in plain
    spelling, and the parts as they were written. The first may be an initial."""
    plains = [(spelled_plainly(part), part) for part in parts]
    for (one, first), (two, second) in itertools.permutations(plains, 2):
        if len(one) + len(two) >= _PAIR:
            yield one, two, first, second
        if len(two) >= _WITHIN_WORDS:
            yield one[:1], two, first, second


def with_initial(parts: list[str]) -> str | None:
    """The name with its first part cut short, as people write it."""
    return f"{parts[0][0]}. {parts[-1]}" if len(parts) > 1 else None


def is_ending(ending: str) -> bool:
    return ending in _ENDINGS


def _how(word: str) -> WordMatch:
    if is_common(word):
        return WordMatch.AS_WRITTEN
    return WordMatch.WITHIN_WORDS if len(word) >= _WITHIN_WORDS else WordMatch.ALONE


def _spellings(part: str) -> list[str]:
    plain = spelled_plainly(part)
    lowered = part.lower()
    for letter, two in _UMLAUTS:
        lowered = lowered.replace(letter, two)
    without = plain
    for two, one in (("ae", "a"), ("oe", "o"), ("ue", "u")):
        without = without.replace(two, one)
    spellings = [plain, spelled_plainly(lowered)]
    if len(without) >= _WITHIN_WORDS:
        spellings.append(without)
    return list(dict.fromkeys(s for s in spellings if len(s) > 1))


def _stems(word: str) -> Iterator[str]:
    """What is left of a name when its case changes its ending: Ann- of Anna, Mark- of Marek."""
    if word[-1] in "aoy" and len(word) >= _WITHIN_WORDS:
        yield word[:-1]
    if len(word) > _WITHIN_WORDS and (cut := re.fullmatch(r"(.+[^aeiou])i?e([cklr])", word)):
        yield cut[1] + cut[2]


def softened(word: str) -> str | None:
    """The dative of a name in -a, in plain spelling: Monice of Monika."""
    if len(word) < _WITHIN_WORDS or word[-1] != "a" or word[-2] not in _SOFTENED:
        return None
    return word[:-2] + _SOFTENED[word[-2]]
