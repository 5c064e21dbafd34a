"""Events of one answer that differ in nothing but what is said.

A model says one word after the other, and each of them comes in an event that is otherwise the
same, byte for byte. Who has read one of them has read all, but for the word; so that one is looked
for as bytes, and is a string of JSON or is not.
"""

from __future__ import annotations

import re

_STRING = (  # what stands between the quotation marks (RFC 8259, section 7), surrogates in pairs
    rb'(?:[^"\\\x00-\x1f]++'
    rb'|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    rb"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*+"
)
_KEYS = rb'"(?:content|reasoning_content|reasoning|text|arguments)"\s*:\s*'
_SAID = re.compile(rb'%b"(%b)"' % (_KEYS, _STRING))
_STRINGS = re.compile(_STRING)


class Alike:
    """Those that are like one event, whatever they say."""

    __slots__ = ("_before", "_before_bytes", "_behind", "_between", "_end", "_end_bytes")

    def __init__(self, before: bytes, behind: bytes) -> None:
        self._before, self._behind = before, behind
        self._between = behind + before
        self._end = behind + b"\r\n"  # of a chunk
        self._before_bytes, self._end_bytes = len(before), len(self._end)

    @classmethod
    def to(cls, data: bytes) -> Alike | None:
        """`data` is of one that was read: JSON in one line. A key with its quotation marks stands
        in no string, so what is found is a value. None: it says nothing where we look."""
        found = _SAID.search(data)
        if found is None or b"\n" in data:
            return None
        start, end = found.span(1)
        return cls(b"data: " + data[:start], data[end:] + b"\n\n")

    def in_chunk(self, chunk: bytes) -> bytes | None:
        """The one that is all of this chunk of a body, which has come with its frame; else None."""
        start = chunk.find(b"\r\n") + 2
        said = chunk[start + self._before_bytes : -self._end_bytes]
        if (
            chunk == b"%x\r\n%b%b%b" % (len(chunk) - start - 2, self._before, said, self._end)
            and _STRINGS.fullmatch(said) is not None
            and (said.isascii() or _is_utf8(said))
        ):
            return chunk[start:-2]
        return None

    def run(self, text: bytes, at: int) -> tuple[int, int]:
        """Where the events end that stand in `text` from `at` on and are alike; how many."""
        before, behind = self._before, self._behind
        if not text.startswith(before, at):
            return at, 0
        said = text[at + len(before) :].split(self._between)
        last, whole, _ = said[-1].partition(behind)
        if whole:
            said[-1] = last
        else:  # it has not come as far
            said.pop()
        words = b" ".join(said)  # none of them can end in the next
        if not _STRINGS.fullmatch(words) or not (words.isascii() or _is_utf8(words)):
            return at, 0
        count = len(said)
        length = len(words) + count * (len(self._between) - 1) + 1
        return (at + length, count) if count else (at, 0)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
