"""Events of one answer that differ in nothing but what is said.

A model says one word after the other, and each of them comes in an event that is otherwise the
same, byte for byte. Who has read one of them has read all, but for the word; so that one is looked
for as bytes, and is a string of JSON or is not.
"""

from __future__ import annotations

import re
from operator import itemgetter

_STRING = (  # what stands between the quotation marks (RFC 8259, section 7), surrogates in pairs
    rb'(?:[^"\\\x00-\x1f]++'
    rb'|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    rb"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*+"
)
_KEYS = rb'"(?:content|reasoning_content|reasoning|text|arguments)"\s*:\s*'
_TEXT_FIELD = re.compile(rb'%b"(%b)"' % (_KEYS, _STRING))
_STRINGS = re.compile(_STRING)


_PLAIN = bytes(range(0x20, 0x7F)).translate(None, b'"\\')
"""What stands for itself in a string of JSON, in ASCII."""
_MOST_FRAMES = 256


class Alike:
    """Those that are like one event, whatever they say."""

    __slots__ = ("_before", "_behind", "_between", "_framed_end", "_frames", "_line_text")

    def __init__(self, before: bytes, behind: bytes) -> None:
        self._before, self._behind = before, behind
        self._line_text = itemgetter(slice(len(before), 2 - len(behind)))  # of its line
        self._between = behind + before
        self._framed_end = behind + b"\r\n"  # of a chunk
        self._frames: dict[int, bytes] = {}  # how a chunk of so many bytes begins

    @classmethod
    def to(cls, data: bytes) -> Alike | None:
        """`data` is of one that was read: JSON in one line. A key with its quotation marks stands
        in no string, so what is found is a value. None: it says nothing where we look."""
        match = _TEXT_FIELD.search(data)
        if match is None or b"\n" in data:
            return None
        start, end = match.span(1)
        return cls(b"data: " + data[:start], data[end:] + b"\n\n")

    def is_chunk(self, chunk: bytes) -> bool:
        """Whether this is all of a chunk of a body, with its frame, and one of them is in it."""
        frame = self._frames.get(len(chunk)) or self._chunk_frame(chunk)
        return (
            frame is not None
            and len(chunk) >= len(frame) + len(self._framed_end)
            and chunk.startswith(frame)
            and chunk.endswith(self._framed_end)
            and _are_strings(chunk[len(frame) : -len(self._framed_end)])
        )

    def _chunk_frame(self, chunk: bytes) -> bytes | None:
        """How a chunk of this length begins; kept, if that may be one of them."""
        start = chunk.find(b"\r\n") + 2
        frame = b"%x\r\n%b" % (len(chunk) - start - 2, self._before)
        if not chunk.startswith(frame) or len(chunk) < len(frame) + len(self._framed_end):
            return None
        if len(self._frames) == _MOST_FRAMES:
            self._frames.clear()
        self._frames[len(chunk)] = frame
        return frame

    def all_in(self, text: bytes) -> int:
        """How many they are, if there is nothing else in it; else 0."""
        if not text.endswith(self._behind):
            return 0
        end, count = self.run(text, 0)
        return count if end == len(text) else 0

    def run(self, text: bytes, at: int) -> tuple[int, int]:
        """Where the events end that stand in `text` from `at` on and are alike; how many. Words
        are cut out where they would stand if all events were alike, and put in again: what comes
        out is compared. To look for what stands between two words would take longer."""
        before = self._before
        if not text.startswith(before, at):
            return at, 0
        pieces = (text[at:] if at else text).split(b"\n")  # one byte is looked for much faster
        lines = pieces[: (len(pieces) - 1) // 2 * 2 : 2]  # than two; an empty one follows each
        texts = list(map(self._line_text, lines))
        alike = back = 0
        most = tried = len(texts)
        while alike < most:
            again = self._saying(texts[:tried])
            if text.startswith(again, at):
                alike = tried
                length = len(again)
                tried = (alike + most + 1) // 2
            else:  # mostly at the end, so it goes back from there in ever larger steps
                most = tried - 1
                tried = max(most - back, (alike + most + 1) // 2)
                back = 2 * back + 1
        # None of them can end in the next, whatever stands between them.
        if not alike or not _are_strings(b" ".join(texts[:alike])):
            return at, 0
        return at + length, alike

    def _saying(self, texts: list[bytes]) -> bytes:
        return self._before + self._between.join(texts) + self._behind


def _are_strings(words: bytes) -> bool:
    """Whether this may stand between quotation marks in JSON: plain words, as most are, or others
    that say so by what is in them."""
    if not words.translate(None, _PLAIN):
        return True
    return _STRINGS.fullmatch(words) is not None and (words.isascii() or _is_utf8(words))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
