"""Server-sent events out of bytes (WHATWG HTML, section 9.2.6), bounded and without decoding.

The parser never looks inside the text: line ends and field names are ASCII, and no byte of a
multi-byte UTF-8 character is, so that a character may be split between two reads.
"""

from __future__ import annotations

from gateway.errors import UpstreamFailed
from gateway.types import ServerEvent

_BOM = b"\xef\xbb\xbf"


class EventParser:
    """Bytes in, events out. `max_event_bytes` bounds what one unfinished event may hold."""

    def __init__(self, max_event_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes
        self._held = 0  # bytes kept for the event that is not yet complete
        self._line: list[bytes] = []  # pieces of the line that is not yet complete
        self._data: list[bytes] = []
        self._event = b""
        self._after_cr = False  # a LF that comes next belongs to the line already ended
        self._first_line = True  # which a byte order mark may open

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that this chunk completes. Raises UpstreamFailed when one is too large."""
        events, chunk = self._plain(chunk)
        return events + self._by_lines(chunk) if chunk else events

    def _plain(self, chunk: bytes) -> tuple[list[ServerEvent], bytes]:
        """Events of one line of data each, as most are, and what is left to be read line by
        line."""
        if self._held or self._after_cr or len(chunk) > self._max_event_bytes:
            return [], chunk
        end = chunk.rfind(b"\n\n")
        if end < 0 or b"\r" in chunk:
            return [], chunk
        lines = chunk[:end].split(b"\n\n")
        for line in lines:
            if not line.startswith(b"data: ") or b"\n" in line:
                return [], chunk
        self._first_line = False
        return [ServerEvent(line[6:]) for line in lines], chunk[end + 2 :]

    def _by_lines(self, chunk: bytes) -> list[ServerEvent]:
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        events: list[ServerEvent] = []
        for piece in chunk.splitlines(keepends=True):  # of bytes: CR, LF and CRLF alone
            self._hold(len(piece))
            if piece.endswith(b"\n"):
                self._end_line(piece[:-2] if piece.endswith(b"\r\n") else piece[:-1], events)
            elif piece.endswith(b"\r"):
                self._end_line(piece[:-1], events)
            else:
                self._line.append(piece)
        if chunk.endswith(b"\r"):
            self._after_cr = True
        return events

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > self._max_event_bytes:
            raise UpstreamFailed(
                f"the endpoint sent an event of more than {self._max_event_bytes} bytes"
            )

    def _end_line(self, last: bytes, events: list[ServerEvent]) -> None:
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
            events.append(ServerEvent(b"\n".join(self._data), name))
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
