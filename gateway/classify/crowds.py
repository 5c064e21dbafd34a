"""Texts with more candidates for numbers than a verdict is worth: tables of nothing else, or made
to keep a scanner busy.

What looks like a card, an account, a person's number or an address of the Internet is checked one
by one, and so is what stands behind the words for a secret: 20 to 50 microseconds each (measured
November 2026). A text with more of them than `MOST` is restricted without checking them all: among
so many, some would be valid by chance.
"""

from __future__ import annotations

import re

from gateway.classify import TooMany

MOST = 1000
_SHORTEST = 2  # characters of one
_CANDIDATE = re.compile(
    r"(?<![\d.])(?:\d{4}[ .-]?\d{4}[ .-]?\d{4}|\d{9,})"
    r"|(?<!\d)\d{1,3}\.\d{1,3}\.\d{1,3}\.\d"
    r"|(?<![\w:])(?:[0-9a-f]{0,4}::|(?:[0-9a-f]{1,4}:){3})"
    r"|passw|pwd|secret"
    r"|[A-Z]{2}[ -]?\d\d(?:[ -]?[A-Z0-9]){11}",
    re.IGNORECASE,
)


class Crowd:
    """Counts over all forms of one text, once there is room for that many in them."""

    def __init__(self, most: int = MOST) -> None:
        self._left = most
        self._least_chars = most * _SHORTEST
        self._chars = 0
        self._uncounted: list[str] = []

    def add(self, text: str) -> None:
        """Raises TooMany."""
        self._chars += len(text)
        self._uncounted.append(text)
        if self._chars < self._least_chars:
            return
        for form in self._uncounted:
            for _ in _CANDIDATE.finditer(form):
                self._left -= 1
                if self._left < 0:
                    raise TooMany
        self._uncounted = []
