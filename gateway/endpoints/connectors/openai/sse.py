"""Server-sent events out of bytes (WHATWG HTML, section 9.2.6), bounded and without decoding.

The parser never looks inside the text: line ends and field names are ASCII, and no byte of a
multi-byte UTF-8 character is, so that a character may be split between two reads.
"""

from __future__ import annotations

import re
from collections import deque

from gateway.core.errors import UpstreamFailed
from gateway.core.reply import ServerEvent

_BOM = b"\xef\xbb\xbf"
_TELLING = (b'"finish_reason":"', b'"finish_reason": "', b'_tokens"', b'"error"')
"""What an event of chat or completions is read for, as writers of JSON write it. A key with its
quotation marks stands in no string."""
_OTHER_CHOICE = re.compile(rb'"index": ?+(?!0\b)').search


def find_telling(text: bytes, at: int, end: int) -> int:
    """Where the first word begins for which an event has to be read; `end` where none does. What
    stands before it is part of what choice 0 says, neither its end, nor a failure, nor usage."""
    for sign in _TELLING:
        start = text.find(sign, at, end)
        if start >= 0:
            end = start
    match = _OTHER_CHOICE(text, at, end)
    return end if match is None else match.start()


def tells_nothing(data: bytes) -> bool:
    """Whether one event's data need not be read."""
    return data.startswith(b'{"') and data.endswith(b"}") and _continues_choice(data)


def is_unread_event(text: bytes) -> bool:
    """Whether a read is one event with one line of data, all of it, that need not be read."""
    return (
        text.startswith(b'data: {"')
        and text.endswith(b"}\n\n")
        and text.find(b"\n") == len(text) - 2
        and b"\r" not in text
        and _continues_choice(text)
    )


def _continues_choice(event: bytes) -> bool:
    """Whether `find_telling` finds nothing in one event, as most are: spelled out, for this is
    asked of each token of each stream."""
    return (
        b'"choices"' in event
        and b'"finish_reason":"' not in event
        and b'"finish_reason": "' not in event
        and b'_tokens"' not in event
        and b'"error"' not in event
        and _OTHER_CHOICE(event) is None
    )


def find_unread(text: bytes, at: int) -> tuple[int, int]:
    """Where the events end that stand in `text` from `at` on, each with one line of data, and need
    not be read; how many they are. `at` begins an event, and all lines end alike."""
    end = text.rfind(b"}\n\n", at, find_telling(text, at, len(text)))
    if end < 0:
        return at, 0
    end += 3
    events = text if end - at == len(text) else text[at:end]
    count = events.count(b"}\n\n")
    if (
        count
        and events.startswith(b'data: {"')
        and events.count(b"\ndata: ") == events.count(b'\n\ndata: {"') == count - 1
        and events.count(b'"choices"') == count
    ):
        return end, count
    return at, 0


def _one_line(text: bytes, at: int, end: int) -> tuple[str, bytes | None]:
    """The name and the data of an event of one line of data, with a name before it or without;
    None: it has other lines."""
    name = ""
    if text.startswith(b"event: ", at):
        line = text.find(b"\n", at, end)
        if line < 0:
            return name, None
        name, at = text[at + 7 : line].decode("utf-8", "replace"), line + 1
    if not text.startswith(b"data: ", at) or text.find(b"\n", at, end) >= 0:
        return name, None
    return name, text[at + 6 : end]


class EventParser:
    """Bytes in, events out. `max_event_bytes` bounds what one unfinished event may hold."""

    def __init__(self, max_event_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes
        self._text, self._at = b"", 0  # of the last read, and how far it was read
        self._by_line = False
        self._events: deque[ServerEvent] = deque()  # that were read line by line
        self._held = 0  # bytes kept for the event that is not yet complete
        self._line: list[bytes] = []  # pieces of the line that is not yet complete
        self._data: list[bytes] = []
        self._event = b""
        self._after_cr = False  # a LF that comes next belongs to the line already ended
        self._first_line = True  # which a byte order mark may open

    @property
    def held(self) -> int:
        """Bytes of an event that is not yet complete."""
        return self._held

    @property
    def at_rest(self) -> bool:
        """Whether the next read begins a line of a new event. All events have been taken."""
        return not (self._held or self._line or self._after_cr)

    def feed(self, chunk: bytes) -> None:
        """The next read; all events of the one before it have been taken."""
        self._text, self._at = chunk, 0
        self._by_line = self._after_cr or b"\r" in chunk

    def next(self) -> ServerEvent | None:
        """Of what was fed; None when more is needed. Raises UpstreamFailed when an event is too
        large."""
        while not self._events:
            text, at = self._text, self._at
            end = -1 if self._by_line else text.find(b"\n\n", at)
            if end < 0:
                if at == len(text):
                    return None
                self._at = len(text)
                self._read_lines(text[at:])
                continue
            self._at = end = end + 2
            name, data = _one_line(text, at, end - 2)
            if self._held or data is None:
                self._read_lines(text[at:end])
                continue
            if end - at > self._max_event_bytes:  # as most are: one line of data
                raise self._too_large()
            self._first_line = False
            return ServerEvent(data, name)
        return self._events.popleft()

    def take_unread(self) -> tuple[bytes, int]:
        """The next events as they came, as far as they need not be read, and how many they are."""
        text, at = self._text, self._at
        if self._held or self._by_line or self._events or len(text) > self._max_event_bytes:
            return b"", 0
        self._at, count = find_unread(text, at)
        return text[at : self._at], count

    def _read_lines(self, chunk: bytes) -> None:
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        for piece in chunk.splitlines(keepends=True):  # of bytes: CR, LF and CRLF alone
            self._held += len(piece)
            if self._held > self._max_event_bytes:
                raise self._too_large()
            if piece.endswith(b"\n"):
                self._end_line(piece[:-2] if piece.endswith(b"\r\n") else piece[:-1])
            elif piece.endswith(b"\r"):
                self._end_line(piece[:-1])
            else:
                self._line.append(piece)
        if chunk.endswith(b"\r"):
            self._after_cr = True

    def _too_large(self) -> UpstreamFailed:
        return UpstreamFailed(
            f"the endpoint sent an event of more than {self._max_event_bytes} bytes"
        )

    def _end_line(self, last: bytes) -> None:
        line = b"".join((*self._line, last))
        self._line.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if line:
            self._field(line)
            return
        if self._data:
            name = self._event.decode("utf-8", "replace")
            self._events.append(ServerEvent(b"\n".join(self._data), name))
        self._data, self._event, self._held = [], b"", 0

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value
        else:  # a comment, `id`, `retry`, or unknown: of no use to us, so it is not kept
            self._held -= len(line) + 1
