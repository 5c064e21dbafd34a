"""A text in the parts that are held against examples: sentences, since examples are such, and a
sentence among others says little in a vector of them all."""

from __future__ import annotations

import re

SIZE = 100
"""Characters up to which short sentences and lines are joined."""
LONGEST = 240
"""Of a part; a longer sentence is cut between words."""
_SENTENCE = re.compile(r"(?:[^.!?;:\n\r]|[.!?;:](?!\s))+[.!?;:]?")
_LETTERS = re.compile(r"[^\W\d_]{2}")


def spans(text: str) -> list[tuple[int, int]]:
    """Start and end of those that say something: they hold every word of two letters or more."""
    parts: list[tuple[int, int]] = []
    start = end = 0
    for sentence in _SENTENCE.finditer(text):
        if end > start and sentence.end() - start > SIZE:
            parts.append((start, end))
            start = sentence.start()
        elif end <= start:
            start = sentence.start()
        end = sentence.end()
        while end - start > LONGEST:
            cut = text.rfind(" ", start + SIZE, start + LONGEST) + 1 or start + LONGEST
            parts.append((start, cut))
            start = cut
    if end > start:
        parts.append((start, end))
    return [(start, end) for start, end in parts if _LETTERS.search(text, start, end)]
