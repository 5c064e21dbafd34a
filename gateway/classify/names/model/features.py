"""What the tagger sees of a word: row numbers in its tables.

A row of `COLUMNS` numbers a word, int32:

| columns | what | rows of its table |
|---|---|---|
| 0-3 | word pieces of the word without accents, in lower case (arXiv:1609.08144) | 30522 |
| 4-11 | the word, its prefixes and suffixes and inner 4-grams, hashed | HASHED |
| 12 | case | 9 |
| 13 | the sign itself, or a class of characters | 64 |
| 14 | length, up to 12 | 13 |
| 15 | how common the word is in the eight languages | 8 |
| 16 | in how many of them it is common | 9 |
| 17, 18, 19 | given name, surname, place: how widely known | 4, 4, 2 |
| 20 | what stands before it | 4 |

Rows depend on the word alone but for the last column, so they are computed once a word and kept.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gateway.classify.names.model.lexicon import Lexicon
from gateway.classify.names.model.words import TextWords, letter_case

PIECES, HASHES = 4, 8
COLUMNS = 21
GAP = 20
HASHED = 24_576
SIGNS = "_.,;:!?'\"`()[]{}<>/\\|@#$%^&*-+=~\u2019“”„«»\u2013—…•·°§€£¿¡"
MAX_LENGTH = 12
_LONGEST = 40  # characters of a word that count: what is longer is no word of a language
_LONGEST_PIECE = 18  # characters, in MiniLM's vocabulary
_CACHED_WORDS = 50_000


def plain(word: str) -> str:
    """Lower case, without accents."""
    lower = word.lower()
    if lower.isascii():
        return lower
    parts = unicodedata.normalize("NFKD", lower)
    return "".join(c for c in parts if not unicodedata.combining(c)) or lower


def _hashed(kind: str, text: str) -> int:
    return 1 + zlib.crc32((kind + text).encode("utf-8", "replace")) % (HASHED - 1)


def hashes(word: str) -> list[int]:
    """Rows of the word and of parts of it; accents kept, case not."""
    lower = word.lower()[:_LONGEST]
    hashes = [_hashed("w", lower)]
    if len(lower) > 1:
        hashes += [_hashed("p", lower[:2]), _hashed("s", lower[-2:])]
    if len(lower) > 2:
        hashes += [_hashed("p", lower[:3]), _hashed("s", lower[-3:])]
    if len(lower) > 3:
        hashes += [_hashed("s", lower[-4:])]
    if len(lower) > 5:
        middle = len(lower) // 2
        hashes += [_hashed("m", lower[1:5]), _hashed("m", lower[middle - 2 : middle + 2])]
    return hashes + [0] * (HASHES - len(hashes))


def sign_feature(word: str) -> int:
    if len(word) == 1 and (at := SIGNS.find(word)) >= 0:
        return 1 + at
    if word.isascii():
        return 0
    return 61 if word.isalpha() else 62


class WordPieces:
    """Greedy longest match over a vocabulary, as BERT's tokenizer does it; the first `PIECES`."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._rows = vocabulary
        self._unknown = vocabulary["[UNK]"]

    def tokenize(self, word: str) -> list[int]:
        text = plain(word)[:_LONGEST]
        rows: list[int] = []
        at = 0
        while at < len(text) and len(rows) < PIECES:
            for end in range(min(len(text), at + _LONGEST_PIECE), at, -1):
                piece = text[at:end] if at == 0 else "##" + text[at:end]
                if (row := self._rows.get(piece)) is not None:
                    rows.append(row)
                    at = end
                    break
            else:
                return [self._unknown]
        return rows


class Features:
    """Rows of words, kept for the words seen last. Bounded: 50,000 words of 40 characters at most,
    some 10 MB."""

    def __init__(self, vocabulary: Mapping[str, int], lexicon: Lexicon) -> None:
        self._pieces = WordPieces(vocabulary)
        self.lexicon = lexicon
        self._cache: dict[str, bytes] = {}

    def rows(self, words: TextWords) -> npt.NDArray[np.int32]:
        """(words, COLUMNS) int32."""
        rows = b"".join([self._cache.get(word) or self._keep(word) for word in words.words])
        table = np.frombuffer(bytearray(rows), dtype=np.int32).reshape(-1, COLUMNS)
        table[:, GAP] = words.gaps
        return table

    def _keep(self, word: str) -> bytes:
        # One form of the same word, however its accents are written. Cut first: normalising takes
        # time that grows with the square of a run of accents.
        row = self._row(unicodedata.normalize("NFC", word[:_LONGEST]))
        if len(word) <= _LONGEST:
            if len(self._cache) >= _CACHED_WORDS:
                self._cache.clear()
            self._cache[word] = row
        return row

    def _row(self, word: str) -> bytes:
        pieces = self._pieces.tokenize(word)
        known = self.lexicon.find(word)
        row = (
            *pieces,
            *[0] * (PIECES - len(pieces)),
            *hashes(word),
            int(letter_case(word)),
            sign_feature(word),
            min(len(word), MAX_LENGTH),
            known.frequency,
            known.languages,
            known.given,
            known.surname,
            known.place,
            0,
        )
        return np.array(row, dtype=np.int32).tobytes()
