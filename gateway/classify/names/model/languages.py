"""Whether a text is in a language that the names model was measured on.

Words that are everyday words in other languages only, or letters of scripts that it never saw,
tell; of letters, two in a row or three anywhere are enough. Short texts and code, which have no
everyday words, get the benefit: they are mostly English words, and what is left over is a word or
two. Languages that there is no table of are told by words that are common in none of the measured
ones. The tables (`languages.npz`: CRC-32 of a word in
lower case, a bit for each language that has it among its 200 most frequent) come from wordfreq
(CC BY-SA 4.0).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gateway.classify import ScannerUnfit
from gateway.classify.names.canaries import OTHER_SCRIPTS
from gateway.classify.names.model.lexicon import Lexicon, word_hash
from gateway.classify.names.model.words import TextWords, WordGap

LEAST_WORDS = 5  # everyday words of one other language, before they count as a text in it
_LEAST_DIFFERENT = 3  # of them: `["hi", "hi", "hi"]` is code
MARGIN = 1.35  # so many times more everyday words than the best measured language has
PART, LAPPED = 200, 100  # words that are judged apart: a text may change its language
UNKNOWN = "unknown"
"""In place of the name of a language that there is no table of."""
PROSE, LAPPED_PROSE, _LEAST_PROSE, _LEAST_ROW = 20, 10, 8, 4
"""Words of a stretch that is judged by unknown words, how far the next one begins, how many of
three letters and more must be different, and how many stand in a row."""
_UNKNOWN_SHARE, _EVERYDAY_SHARE = 0.6, 0.25
LEAST_UNKNOWN = 5  # unknown words of a stretch: that share of the least prose
PLACEHOLDERS = frozenset(
    (  # noqa: SIM905 - what typesetters put in the place of a text
        "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt "
        "ut labore et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco "
        "laboris nisi aliquip ex ea commodo consequat duis aute irure in reprehenderit voluptate "
        "velit esse cillum eu fugiat nulla pariatur excepteur sint occaecat cupidatat non proident "
        "sunt culpa qui officia deserunt mollit anim id est laborum"
    ).split()
)
_LONGEST = 20  # characters; no everyday word is longer
_KNOWN_WORDS = 20_000  # whose languages are kept
_NOT_LATIN = re.compile(
    "[^\x00-\u036f\u1d00-\u1dbf\u1dc0-\u1eff\u2000-\u2bff\u2e00-\u2e7f\u3000-\u3003"
    "\ufe00-\ufe2f\ufeff\ufff9-\uffff\U0001f000-\U0001faff\U000e0000-\U000e01ef]+"
)
"""Runs that may be letters of another script: neither Latin with its marks, nor signs, nor emoji.
Asked of text in compatibility form (NFKC), in which mathematical letters are the plain ones."""
_LATIN_SIGNS = frozenset({"LATIN", "COMBINING", "MODIFIER", "VARIATION"})
_UNASSIGNED = (range(0x0370, 0x2000), range(0x2C00, 0xE000), range(0x10000, 0x1D000),
               range(0x1E000, 0x1F000), range(0x20000, 0x40000))  # fmt: skip
"""Where scripts are that a later version of Unicode than Python's may bring."""
_RUN, _TOTAL = 2, 3
"""Letters and vowel signs of other scripts that make a text foreign: so many in a row, or so many
anywhere, for names have two, and some writers put a space between signs."""
_WHOLE_WORDS = frozenset({"CJK", "HANGUL"})
"""Of these scripts, whose signs are words or syllables, two anywhere are enough."""
_GREEK = "GREEK"
_GREEK_RUN, _GREEK_TOTAL, _GREEK_SPACED = 3, 5, 5
"""Greek letters are signs of mathematics one by one and in pairs, so of these it takes more: in a
row, in rows of two and more, or one by one with nothing but a space or a point between them."""
_SPACED_GREEK = re.compile(
    r"[\u0370-\u03ff\u1f00-\u1fff](?:[\s.|\u00b7_-]{1,2}[\u0370-\u03ff\u1f00-\u1fff]){4,}"
)


class Languages:
    def __init__(
        self,
        hashes: npt.NDArray[np.uint32],
        masks: npt.NDArray[np.uint64],
        names: list[str],
        measured: frozenset[str],
        lexicon: Lexicon | None = None,
    ) -> None:
        """`lexicon`: the common words of all measured languages, if there is one of them."""
        by_hash = dict(zip(map(int, hashes), map(int, masks), strict=True))
        self._mask: Callable[[str], int] = lru_cache(_KNOWN_WORDS)(
            lambda word: by_hash.get(word_hash(word), 0)
        )
        self._names = names
        self._measured = measured
        self._lexicon = lexicon
        self._bits = np.arange(len(names), dtype=np.uint64)
        self._known = np.array([name in measured for name in names], dtype=np.bool_)
        bits = {name: 1 << at for at, name in enumerate(names)}
        self._english = bits.get("en", 0)
        self._not_measured = sum(bit for name, bit in bits.items() if name not in measured)

    @classmethod
    def load(
        cls, path: Path, measured: frozenset[str], lexicon: Lexicon | None = None
    ) -> Languages:
        """Raises ScannerUnfit when it takes letters of another script for clear text (C8)."""
        with np.load(path) as arrays:
            names = [str(name) for name in arrays["names"]]
            languages = cls(arrays["hashes"], arrays["masks"], names, measured, lexicon)
        if missed := missed_scripts():
            raise ScannerUnfit(f"letters of other scripts pass for text: {', '.join(missed)}")
        return languages

    def letter(self, word: str) -> str:
        """Of a word in small letters: e if it is an everyday word of English, o if it is one of a
        language that is not measured, else v."""
        mask = self._mask(word) if len(word) <= _LONGEST else 0
        if mask & self._english:
            return "e"
        return "o" if mask & self._not_measured else "v"

    def foreign(self, text: str, words: TextWords) -> str | None:
        """The language or script that the model does not know; None when there is none."""
        if not text.isascii() and (script := foreign_script(text)):
            return script
        return self.foreign_words(words)

    def foreign_words(self, words: TextWords) -> str | None:
        """As `foreign`, of text in Latin letters."""
        for first, last in (*_stretches(words), (0, len(words))):
            for at in range(first, max(first + 1, last - LAPPED), PART):
                part = words.words[at : min(last, at + PART + LAPPED)]
                if language := self._other_language(part):
                    return language
        return UNKNOWN if self._is_unknown(words) else None

    def _is_unknown(self, words: TextWords) -> bool:
        """Whether most of the different words of some stretch are common in no measured language,
        and few of them everyday words of one."""
        if self._lexicon is None:
            return False
        prose = list(_prose(words))
        unknown = self._lexicon.unknown(prose)
        for at in range(0, max(1, len(prose) - LAPPED_PROSE), LAPPED_PROSE):
            part = prose[at : at + PROSE]
            by_word = {w: u for w, u in zip(part, unknown[at:], strict=False) if len(w) > 2}
            if len(by_word) < _LEAST_PROSE or sum(by_word.values()) < _UNKNOWN_SHARE * len(by_word):
                continue
            if self._everyday(part) < _EVERYDAY_SHARE * len(part):
                return True
        return False

    def _everyday(self, words: Sequence[str]) -> int:
        """How many are everyday words of the measured language that has most of them."""
        masks = [self._mask(word) for word in words]
        measured = [at for at, name in enumerate(self._names) if name in self._measured]
        return max((sum(mask >> at & 1 for mask in masks) for at in measured), default=0)

    def _other_language(self, words: Sequence[str]) -> str | None:
        often = Counter(word.lower() for word in words if len(word) <= _LONGEST)
        counts = [(mask, n) for word, n in often.items() if (mask := self._mask(word))]
        if not counts:
            return None
        masks, numbers = np.array(counts, dtype=np.uint64).T
        own = masks[:, None] >> self._bits & np.uint64(1)
        scores = numbers @ own
        best_known = int(scores[self._known].max(initial=0))
        scores[self._known | (own.sum(axis=0) < _LEAST_DIFFERENT)] = 0
        best_other = int(scores.max(initial=0))
        if best_other < LEAST_WORDS or best_other <= MARGIN * best_known:
            return None
        return self._names[int(scores.argmax())]


def _prose(words: TextWords) -> Iterator[str]:
    """Words of small letters that stand in a row of some with spaces between them, as in sentences
    and not as in code and lists."""
    row: list[str] = []
    for word, gap in zip(words.words, words.gaps, strict=True):
        is_word = word.isalpha() or (not word.isascii() and _without_marks(word).isalpha())
        if gap != WordGap.SPACE or not is_word:
            yield from _lower_words(row)
            row = []
        if is_word:
            row.append(word)
    yield from _lower_words(row)


def _without_marks(word: str) -> str:
    return "".join(c for c in word if not unicodedata.combining(c))


def _lower_words(row: Sequence[str]) -> Iterator[str]:
    if len(row) >= _LEAST_ROW:
        for word in row:
            if 1 < len(word) <= _LONGEST and word.islower() and word not in PLACEHOLDERS:
                yield word


def _stretches(words: TextWords) -> Iterator[tuple[int, int]]:
    """The strings of a call, which are joined by a line with a bar alone (memory.BETWEEN): each may
    have a language of its own. Nothing where there is but one."""
    first = 0
    for at, word in enumerate(words.words):
        if word == "|" and words.gaps[at] == WordGap.LINE:
            yield first, at
            first = at + 1
    if first:
        yield first, len(words)


def foreign_script(text: str) -> str | None:
    """The script of letters that no measured language has, if there are enough for a name.

    Vowel signs count as letters: an abugida writes most of a word with them."""
    letters: Counter[str] = Counter()
    greek = 0
    for match in _NOT_LATIN.finditer(unicodedata.normalize("NFKC", text)):
        run, before = 0, ""
        for character in match[0]:
            script = _script(character)
            if script is None:
                run, before = 0, ""
                continue
            run = run + 1 if (script == _GREEK) == (before == _GREEK) else 1
            before = script
            if script == _GREEK:
                greek += 2 if run == 2 else run > 2
                if run >= _GREEK_RUN or greek >= _GREEK_TOTAL:
                    return script.lower()
                continue
            letters[script] += 1
            enough = _RUN if script in _WHOLE_WORDS else _TOTAL
            if run >= _RUN or letters.total() >= enough:
                return script.lower()
    return _GREEK.lower() if _SPACED_GREEK.search(text) else None


def missed_scripts() -> list[str]:
    """Canaries that come out wrong: scripts whose letters would not make a text foreign."""
    samples = {
        name: "".join(map(chr, range(first, first + 3))) for name, first in OTHER_SCRIPTS.items()
    }
    return [name for name, letters in samples.items() if foreign_script(letters) is None]


@lru_cache(4096)
def _script(character: str) -> str | None:
    """The first word of its name in the Unicode Character Database, which for most letters and
    their marks is their script; None of what is neither letter nor mark."""
    category = unicodedata.category(character)
    if category == "Cn" and any(ord(character) in block for block in _UNASSIGNED):
        return "UNKNOWN"
    if category[0] not in "LM" and category != "Nl":
        return None
    script = unicodedata.name(character, "UNKNOWN").split()[0]
    return None if script in _LATIN_SIGNS else script
