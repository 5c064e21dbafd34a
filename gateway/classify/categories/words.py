"""The words of a text in one spelling: what values of tables are compared by.

Letters and digits count, runs of each are words of their own; case, accents, width and all that
stands between words do not. So "PX-204", "px 204" and "Px204" are one value.
"""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[^\W\d_]+|\d+")
_ASCII_WORD = re.compile(r"[a-z]+|[0-9]+")
_MARKS = re.compile("[\u0300-\u036f]+")


def words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return _WORD.findall(_MARKS.sub("", folded).casefold())
