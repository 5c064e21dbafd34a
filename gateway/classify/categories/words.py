"""The words of a text in one spelling: what values of tables are compared by.

Letters and digits count, runs of each are words of their own; case, accents, width and all that
stands between words do not. So "PX-204", "px 204" and "Px204" are one value. Where a script sets no
spaces between words, or joins other words to a name, each sign is a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_SIGNS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\U00020000-\U0003134f"
"""Kana, Han and Hangul."""
_WORD = re.compile(rf"[{_SIGNS}]|[^\W\d_{_SIGNS}]+|\d+")
_ASCII_WORD = re.compile(r"[a-z]+|[0-9]+")
_SIGN = re.compile(f"[{_SIGNS}]")
_MARKS = re.compile("[\u0300-\u036f]+")


def words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return _WORD.findall(unicodedata.normalize("NFC", _MARKS.sub("", folded).casefold()))


def size(own: Sequence[str]) -> int:
    """Letters and digits of words; a sign says as much as two."""
    return sum(2 if _SIGN.match(word) else len(word) for word in own)
