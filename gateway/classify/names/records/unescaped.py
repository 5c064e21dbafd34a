"""A text whose escapes are undone in place, with the way back to what was written.

A record inside a string of another one has its quotes and lines escaped, once or more often; a form
has its letters as percent signs or entities. Readers of records look through all of that.
"""

from __future__ import annotations

import html
import json
import re
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.classify.names.records.keys import folded

_LEVELS = 4  # of records inside strings of records
_ESCAPE = re.compile(
    r"[\\%&=](?:(?<=\\)(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbf\"'/\\])"
    r"|(?<=%)[0-9a-fA-F]{2}(?:%[0-9a-fA-F]{2})*"
    r"|(?<=&)(?:\#\d{1,6}|\#[xX][0-9a-fA-F]{1,5}|[a-zA-Z]{2,8});"
    r"|(?<==)(?:\r?\n|[0-9A-F]{2}(?:=[0-9A-F]{2})+))"
)
"""The sign stands alone in front so that `re` looks for nothing else first."""
_MARKS = re.compile(r"[\\%&=](?:(?<!=)|\r?\n|[0-9A-F]{2}=[0-9A-F]{2})")
_ONE = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}


@dataclass(frozen=True, slots=True)
class Unescaped:
    """`places`: where each character was written, and where the text ended; none if nothing was
    escaped."""

    text: str = field(repr=False)
    folded: str = field(repr=False)
    places: Sequence[int] | None = field(default=None, repr=False)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the characters from `start` to `end` were written."""
        return (start, end) if self.places is None else (self.places[start], self.places[end])


def unescaped(text: str) -> Unescaped:
    """The text as a reader of records wants it. One without escapes costs next to nothing."""
    whole = text
    places: list[int] | None = None
    for _ in range(_LEVELS):
        if not _MARKS.search(whole):
            break
        undone, moved = _once(whole)
        if undone is None:
            break
        whole, places = undone, moved if places is None else [places[at] for at in moved]
    return Unescaped(whole, folded(whole), places)


def undone(text: str) -> Unescaped:
    """The same without the way back, for whoever asks where nothing was written."""
    whole = text
    for _ in range(_LEVELS):
        if not _MARKS.search(whole):
            break
        before, whole = whole, _ESCAPE.sub(_written, whole)
        if whole == before:
            break
    return Unescaped(whole, folded(whole))


def plain_json(document: object) -> str:
    """A document as JSON whose strings have their lines and quotes as they are."""
    written = json.dumps(document, ensure_ascii=False)
    if "\\" not in written:
        return written
    return "\\".join(
        part.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t").replace("\\r", "\r")
        for part in written.split(r"\\")
    )


def _written(match: re.Match[str]) -> str:
    meaning = _meaning(match[0])
    return match[0] if meaning is None else meaning


def _once(text: str) -> tuple[str | None, list[int]]:
    """One level less, or None, and where each character was before."""
    pieces: list[str] = []
    places: list[int] = []
    at = 0
    for match in _ESCAPE.finditer(text):
        meaning = _meaning(match[0])
        if meaning is None:
            continue
        start, end = match.span()
        pieces += (text[at:start], meaning)
        places += range(at, start)
        places += [start] * len(meaning)
        at = end
    if not pieces:
        return None, places
    places += range(at, len(text) + 1)
    return "".join((*pieces, text[at:])), places


def _meaning(escape: str) -> str | None:
    head = escape[0]
    if head == "\\":
        if escape[1] in "ux":
            return chr(int(escape[2:], 16))
        return _ONE.get(escape[1], escape[1])
    if head == "%":
        return urllib.parse.unquote(escape, errors="replace")
    if head == "&":
        meaning = html.unescape(escape)
        return meaning if meaning != escape else None
    if escape[1] in "\r\n":
        return ""
    octets = bytes.fromhex(escape.replace("=", ""))
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return None
