"""What is left of surrogates in an answer when all that could be put back was."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from gateway.classify.pseudonyms.values import numerals
from gateway.classify.pseudonyms.values.spelling import plain

_LEAST_LETTERS = 6  # from which a shortened name is still the name
_LONGEST = 32
_CUT_OFF = 2  # letters that may be missing or others at either end


class Traces:
    """Looks for parts of surrogates."""

    def __init__(self, replaced: Iterable[tuple[str, str]]) -> None:
        """`replaced`: surrogates with their originals, whose own words tell of neither."""
        self._words: set[str] = set()
        self._windows: set[str] = set()
        for surrogate, original in replaced:
            spelled = plain(surrogate).text
            for word in set(_letters(spelled)).difference(_letters(plain(original).text), _OURS):
                if len(word) >= _LEAST_LETTERS:
                    head = max(_LEAST_LETTERS, len(word) - _CUT_OFF)
                    tail = max(_LEAST_LETTERS - 1, len(word) - _CUT_OFF)
                    self._words |= {word[:head], word[-tail:]}
            digits = numerals.only_digits(surrogate)
            for at in range(len(digits) - numerals.WINDOW + 1):
                self._windows.add(digits[at : at + numerals.WINDOW])
            if len(digits) > numerals.WINDOW:
                self._windows.add(digits[-numerals.TAIL :])

    def count(self, text: str) -> int:
        """The places in a text."""
        if not text or not (self._words or self._windows):
            return 0
        spelled = _bare(text)
        places = len(set(self._places(spelled)))
        for groups in numerals.runs(spelled):
            places += self._is_number("".join(group.digits for group in groups))
        return places

    def _places(self, text: str) -> Iterator[int]:
        """Where the words begin that have a part of a surrogate in them."""
        for part in self._words:
            at = text.find(part)
            while at >= 0:
                start = at
                while start and text[start - 1].isalpha() and at - start < _LONGEST:
                    start -= 1
                yield start
                at = text.find(part, at + len(part))

    def forget(self) -> None:
        self._words, self._windows = set(), set()

    def _is_number(self, digits: str) -> bool:
        lengths = (numerals.TAIL, numerals.WINDOW)
        return any(
            digits[at : at + length] in self._windows
            for length in lengths
            for at in range(len(digits) - length + 1)
        )


_DASHES = {code: "-" for code in range(0x2010, 0x2016)}
_OURS = frozenset({"example"})  # of e-mail addresses that belong to nobody


def _bare(text: str) -> str:
    """Without accents and case. An answer may be long, so this is less than `plain` does."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return decomposed.translate(_DASHES).encode("ascii", "ignore").decode().lower()


def _letters(text: str) -> list[str]:
    return "".join(c if c.isalpha() else " " for c in text).split()
