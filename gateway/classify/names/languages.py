"""Whether a text is in a language that the names model was measured on.

Words that are everyday words in other languages only, or letters of scripts that it never saw,
tell. Short texts and code, which have no everyday words, get the benefit: they are mostly English
words, and what is left over is a word or two. The tables (`languages.npz`: CRC-32 of a word in
lower case, a bit for each language that has it among its 200 most frequent) come from wordfreq
(CC BY-SA 4.0).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gateway.classify.names.lexicon import word_hash
from gateway.classify.names.words import Gap, Words

LEAST_WORDS = 5  # everyday words of one other language, before they count as a text in it
MARGIN = 1.35  # so many times more everyday words than the best measured language has
_PART, _LAPPED = 200, 100  # words that are judged apart: a text may change its language
_LONGEST = 20  # characters; no everyday word is longer
_OTHER_LETTERS = re.compile(r"[^\W\d_a-zA-Z\u00aa-\u024f\u1e00-\u1eff]{2,}")
_MATHS = re.compile("[\U0001d400-\U0001d7ff\u2100-\u214f\uff21-\uff5a]")
_WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR")
_LETTERS_OF_A_NAME = 5


class Languages:
    def __init__(
        self,
        hashes: npt.NDArray[np.uint32],
        masks: npt.NDArray[np.uint64],
        names: list[str],
        measured: frozenset[str],
    ) -> None:
        self._masks = dict(zip(map(int, hashes), map(int, masks), strict=True))
        self._names = names
        self._measured = measured

    @classmethod
    def load(cls, path: Path, measured: frozenset[str]) -> Languages:
        with np.load(path) as found:
            return cls(found["hashes"], found["masks"], [str(n) for n in found["names"]], measured)

    def foreign(self, text: str, words: Words) -> str | None:
        """The language or script that the model does not know; None when there is none."""
        if not text.isascii() and (script := foreign_script(text)):
            return script
        for first, last in (*_stretches(words), (0, len(words))):
            for at in range(first, max(first + 1, last - _LAPPED), _PART):
                part = words.words[at : min(last, at + _PART + _LAPPED)]
                if language := self._other_language(part):
                    return language
        return None

    def _other_language(self, words: Sequence[str]) -> str | None:
        counts: Counter[int] = Counter()
        for word in words:
            if len(word) <= _LONGEST and (mask := self._masks.get(word_hash(word))):
                counts[mask] += 1
        best_known, best_other, name = 0.0, 0.0, None
        for at, language in enumerate(self._names):
            score = float(sum(n for mask, n in counts.items() if mask >> at & 1))
            if language in self._measured:
                best_known = max(best_known, score)
            elif score > best_other:
                best_other, name = score, language
        return name if best_other >= LEAST_WORDS and best_other > MARGIN * best_known else None


def _stretches(words: Words) -> Iterator[tuple[int, int]]:
    """The strings of a call, which are joined by a line with a bar alone (memory.BETWEEN): each may
    have a language of its own. Nothing where there is but one."""
    first = 0
    for at, word in enumerate(words.words):
        if word == "|" and words.gaps[at] == Gap.LINE:
            yield first, at
            first = at + 1
    if first:
        yield first, len(words)


def foreign_script(text: str) -> str | None:
    """The script of letters that no measured language has, if there are enough for a name."""
    letters: Counter[str] = Counter()
    for match in _OTHER_LETTERS.finditer(text):
        run = _MATHS.sub("", match[0])
        if len(run) < 2:
            continue
        script = _script(run[0])
        letters[script] += len(run)
        enough = 2 if script.startswith(_WITHOUT_SPACES) else _LETTERS_OF_A_NAME
        if letters[script] >= enough:
            return script.lower()
    return None


@lru_cache(4096)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").split()[0]
