"""Whether a text could be in a language that the model does not know: what `Languages` says of few
texts, and costs a millisecond, cannot be so for most.

Languages counts everyday words in parts of a text, and unknown words in stretches of prose. Both
counts have bounds in the letters of `kinds`, which are there anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.classify.names.model.languages import (
    LAPPED,
    LAPPED_PROSE,
    LEAST_UNKNOWN,
    MARGIN,
    PART,
    PROSE,
)

_FEW = 1  # words of other languages: with as many English ones as these allow, less than five
_BAR = "\n |-"  # between the strings of a call
_ROW = re.compile("[a-z][A-Z]{3,}|[A-Z]{4,}")
_SPACED = re.compile("_+([a-z])")
_NO_SMALL_WORD = str.maketrans("", "", "xXaAbB")


def may_be_foreign(letters: str) -> bool:
    """`letters`: the two of each token, in a row."""
    seconds = letters[1::2]
    others = sum(map(seconds.count, "oObB"))
    return (others > _FEW and _may_be_another(letters)) or (
        sum(map(seconds.count, "uU")) >= LEAST_UNKNOWN and _may_be_unknown(seconds)
    )


def _may_be_another(letters: str) -> bool:
    """A language has at most as many everyday words in a part as there are English ones among
    them, and those that English has not."""
    whole = _words(letters)
    stretches = letters.split(_BAR)
    parts = [whole] if len(stretches) == 1 else [whole, *map(_words, stretches)]
    return any(
        _others(part, at, end) > max(_FEW, (MARGIN - 1) * _english(part, at, end))
        for part in parts
        for at, end in _blocks(len(part))
    )


def _words(letters: str) -> str:
    return letters[1::2].replace(" ", "").replace("_", "").lower()


def _blocks(words: int) -> Iterator[tuple[int, int]]:
    for at in range(0, max(1, words - LAPPED), PART):
        yield at, at + PART + LAPPED


def _others(part: str, start: int, end: int) -> int:
    return part.count("o", start, end) + part.count("b", start, end)


def _english(part: str, start: int, end: int) -> int:
    return part.count("e", start, end) + part.count("a", start, end)


def _may_be_unknown(seconds: str) -> bool:
    if "_" in seconds:
        seconds = _SPACED.sub(lambda m: m[1].upper(), seconds).replace("_", "")
    rows = "".join(_ROW.findall(seconds.replace(" ", "")))
    prose = rows.translate(_NO_SMALL_WORD).lower()
    return any(
        prose.count("u", at, at + PROSE) >= LEAST_UNKNOWN
        for at in range(0, max(1, len(prose) - LAPPED_PROSE), LAPPED_PROSE)
    )
