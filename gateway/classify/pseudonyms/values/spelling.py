"""A text in one plain spelling, with the place in the text that each of its characters came from.

Case, diacritics, compatibility forms (NFKC), kinds of apostrophes, hyphens and spaces, characters
of no width, percent-encoding, character references and `\\u` escapes make no difference in it.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

_SPECIAL = re.compile(
    r"\\+u(?P<escape>[0-9A-Fa-f]{4})|(?P<octets>(?:%[0-9A-Fa-f]{2})+)"
    r"|(?P<reference>&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});)|['`]|[^\x00-\x7f]"
)
_ESCAPE = re.compile(r"\\+u([0-9A-Fa-f]{4})")
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});")
_LATIN = "A-Za-z\u00c0-\u024f"
_INVISIBLE = re.compile(f"(?<=[{_LATIN}])[\u00ad\u200b-\u200d\u2060\u2061\ufeff]+(?=[{_LATIN}])")
APOSTROPHES = "'`\u00b4\u02b9\u02bb\u02bc\u02bd\u055a\u2018\u2019\u201b\u2032\uff07"
_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u207b\u2212\u30fb\ufe58\ufe63\uff0d"
_LETTERS = {
    "ł": "l", "đ": "d", "ð": "d", "ø": "o", "\u0131": "i", "ħ": "h", "ŧ": "t",
    "æ": "ae", "œ": "oe", "þ": "th", "ŋ": "n",
}  # fmt: skip
"""What Unicode does not decompose."""


@dataclass(frozen=True, slots=True)
class Plain:
    """The plain spelling, and for each of its characters the span that it came from."""

    text: str = field(repr=False)
    starts: tuple[int, ...] | None
    ends: tuple[int, ...] | None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The part of the text as written; `start` < `end`."""
        if self.starts is None or self.ends is None:
            return start, end
        return self.starts[start], self.ends[end - 1]


def plain(text: str) -> Plain:
    if text.isascii() and not any(sign in text for sign in "%&`\\'"):
        return Plain(text.lower(), None, None)
    characters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for match in _SPECIAL.finditer(text):
        start, end = match.span()
        characters.append(text[at:start].lower())
        starts.extend(range(at, start))
        ends.extend(range(at + 1, start + 1))
        for folded, first, last in _read(match):
            characters.append(folded)
            starts.extend([first] * len(folded))
            ends.extend([last] * len(folded))
        at = end
    characters.append(text[at:].lower())
    starts.extend(range(at, len(text)))
    ends.extend(range(at + 1, len(text) + 1))
    return Plain("".join(characters), tuple(starts), tuple(ends))


def _read(match: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    """What a sign or an encoded stretch is, and where it stands."""
    start, end = match.span()
    decoded = _decoded(match) if end - start > 1 else None
    if decoded is None:
        for at, c in enumerate(match[0], start):
            yield _folded(c), at, at + 1
    else:
        for c in decoded:
            yield _folded(c), start, end


def spelled_plainly(text: str) -> str:
    return plain(text).text


def legible(text: str) -> str:
    """The text with letters in the place of their `\\u` escapes and character references, without
    characters of no width between letters, and with accents in one character with their letters:
    all that says the same to whoever parses it. Escapes of signs and controls stay."""
    if "\\u" in text:
        text = _ESCAPE.sub(_letter, text)
    if "&" in text:
        text = _REFERENCE.sub(_referred, text)
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", text))


def _letter(match: re.Match[str]) -> str:
    c = chr(int(match[1], 16))
    return c if c.isalnum() else match[0]


def _referred(match: re.Match[str]) -> str:
    c = html.unescape(match[0])
    return c if c.isalnum() else match[0]


def _decoded(match: re.Match[str]) -> str | None:
    if match["escape"]:
        point = int(match["escape"], 16)
        return None if 0xD800 <= point < 0xE000 else chr(point)
    if match["octets"]:
        try:
            return bytes.fromhex(match["octets"].replace("%", "")).decode()
        except UnicodeDecodeError:
            return None
    decoded = html.unescape(match["reference"])
    return None if decoded == match["reference"] else decoded


@lru_cache(maxsize=4096)  # of characters, which are nobody's
def _folded(c: str) -> str:
    if c in APOSTROPHES:
        return ""
    if c < "\x80":
        return c.lower()
    if c in _HYPHENS:
        return "-"
    category = unicodedata.category(c)
    if category == "Cf" or c == "\u034f" or "\ufe00" <= c <= "\ufe0f":
        return ""
    if category == "Zs":
        return " "
    if (digit := unicodedata.decimal(c, None)) is not None:
        return str(digit)
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", c).casefold())
    bare = (part for part in folded if not unicodedata.combining(part))
    return "".join(_LETTERS.get(part, part) for part in bare)
