"""Words that are known: how common, and whether as names. A table of hashes, no text.

File: `.npz` with `steps` (uint32: from one CRC-32 of a word in lower
case to the next, sorted) and `facts` (uint16):
bits 0-2 frequency (0 unknown, else 1-7 from rare to common), 3-6 in how many languages it is
common, 7-8 given name, 9-10 surname (0 no, 1 rare to 3 widely known), 11 place. Two words in ten
thousand share a hash; then the rarer one looks like the other.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class LexiconEntry:
    frequency: int = 0
    languages: int = 0
    given: int = 0
    surname: int = 0
    place: int = 0

    def packed(self) -> int:
        return (
            self.frequency
            | self.languages << 3
            | self.given << 7
            | self.surname << 9
            | self.place << 11
        )

    @classmethod
    def unpack(cls, facts: int) -> LexiconEntry:
        return cls(
            facts & 7, (facts >> 3) & 15, (facts >> 7) & 3, (facts >> 9) & 3, (facts >> 11) & 1
        )


UNKNOWN = LexiconEntry()


def word_hash(word: str) -> int:
    return zlib.crc32(word.lower().encode("utf-8", "replace"))


class Lexicon:
    def __init__(self, hashes: npt.NDArray[np.uint32], facts: npt.NDArray[np.uint16]) -> None:
        self._hashes = hashes
        self._facts = facts

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        with np.load(path) as arrays:
            hashes = np.cumsum(arrays["steps"], dtype=np.uint32)
            return cls(hashes, arrays["facts"])

    def find(self, word: str) -> LexiconEntry:
        wanted = np.uint32(word_hash(word))
        at = int(self._hashes.searchsorted(wanted))
        if at < len(self._hashes) and self._hashes[at] == wanted:
            return LexiconEntry.unpack(int(self._facts[at]))
        return UNKNOWN

    def unknown(self, words: Sequence[str]) -> list[bool]:
        """Of each word, whether it is common in none of the languages."""
        wanted = np.fromiter(map(word_hash, words), np.uint32, len(words))
        at = np.minimum(self._hashes.searchsorted(wanted), len(self._hashes) - 1)
        common = (self._hashes[at] == wanted) & (self._facts[at] & 7 > 0)
        unknown: list[bool] = (~common).tolist()
        return unknown


class WordSet:
    """Everyday words of languages that the model was not measured on, and no names: `steps` of an
    `.npz`, as the lexicon's."""

    def __init__(self, hashes: npt.NDArray[np.uint32]) -> None:
        self._hashes = hashes

    @classmethod
    def load(cls, path: Path) -> WordSet:
        with np.load(path) as arrays:
            return cls(np.cumsum(arrays["steps"], dtype=np.uint32))

    def has(self, word: str) -> bool:
        wanted = np.uint32(word_hash(word))
        at = int(self._hashes.searchsorted(wanted))
        return at < len(self._hashes) and bool(self._hashes[at] == wanted)
