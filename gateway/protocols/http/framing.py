"""Where each head and body of a connection ends, and the refusal of what RFC 9112 does not write.

The parser (httptools) is lenient: it takes bare CR and LF, folded lines, several spaces in a
request line. What another parser on the way could read in another way is refused here, before it is
parsed.
"""

from __future__ import annotations

import re

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_HEAD = re.compile(
    rb"%b [\x21-\x7e\x80-\xff]+ HTTP/1\.[01]\r\n(?:%b:%b\r\n)*\r\n" % (_TOKEN, _TOKEN, _VALUE)
)
_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
_LENGTHS = re.compile(rb"(?i)\ncontent-length:[ \t]*([^\r]*)\r")
_CODINGS = re.compile(rb"(?i)\ntransfer-encoding:[ \t]*([^\r]*)\r")
_NUMBER = re.compile(rb"[0-9]{1,18}")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;%b)?" % _VALUE)
_TRAILER = re.compile(rb"%b:%b" % (_TOKEN, _VALUE))
_LONGEST_LINE = 16 * 1024  # of a chunk's size or a trailer
_END = b"\r\n\r\n"


class NotStrict(Exception):
    """A head or a chunk is not as RFC 9112 has it."""


class Framing:
    """Of one connection."""

    __slots__ = ("_chunks", "_head", "_known", "_left")

    def __init__(self) -> None:
        self._head = b""  # of the next message, as far as it has come
        self._left = 0  # bytes of a body
        self._chunks: Chunks | None = None
        self._known = True  # where the message ends; else it is refused by its head, as the last

    @property
    def rests(self) -> bool:
        """Whether what comes next is the beginning of a message."""
        return not self._head and not self._left and self._chunks is None and self._known

    def pieces(self, data: bytes) -> list[bytes]:
        """What came, cut where heads and messages end. Raises NotStrict."""
        pieces: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            begin = at
            if not self._known:
                at = end
            elif self._left:
                at = min(end, at + self._left)
                self._left -= at - begin
            elif self._chunks is not None:
                at = self._chunks.read(data, at)
                if self._chunks.ended:
                    self._chunks = None
            else:
                at = self._read_head(data, at)
            pieces.append(data[begin:at])
        return pieces

    def _read_head(self, data: bytes, at: int) -> int:
        held = len(self._head)
        text = self._head + data[at:]
        if text.startswith(b"\r\n"):  # an empty line may stand before a request (section 2.2)
            self._head = b""
            return at + 2 - held
        end = text.find(_END, max(0, held - 3)) + len(_END)
        if end < len(_END):
            if _BARE.search(text, max(0, held - 1)):
                raise NotStrict
            self._head = text
            return len(data)
        self._head = b""
        self._begin(text[:end])
        return at + end - held

    def _begin(self, head: bytes) -> None:
        if not _HEAD.fullmatch(head):
            raise NotStrict
        lengths, codings = _LENGTHS.findall(head), _CODINGS.findall(head)
        if codings:
            self._known = not lengths and len(codings) == 1 and _is_chunked(codings[0])
            self._chunks = Chunks()
        elif lengths:
            length = lengths[0].rstrip(b" \t")
            self._known = len(lengths) == 1 and _NUMBER.fullmatch(length) is not None
            self._left = int(length) if self._known else 0


def _is_chunked(coding: bytes) -> bool:
    return coding.rstrip(b" \t").lower() == b"chunked"


class Chunks:
    """A body in chunks, with what stands around them."""

    __slots__ = ("_last", "_left", "_line", "ended")

    def __init__(self) -> None:
        self._line = b""  # that has not ended
        self._left = -1  # bytes of a chunk, its end included; none: a line is to come
        self._last = False  # the last chunk has come, and trailers follow
        self.ended = False

    def read(self, data: bytes, at: int) -> int:
        """How far of `data` it goes. Raises NotStrict."""
        end = len(data)
        while at < end and not self.ended:
            if self._left > 2:
                piece = min(end - at, self._left - 2)
                self._left -= piece
                at += piece
            elif self._left > 0:
                if data[at] != b"\r\n"[2 - self._left]:
                    raise NotStrict
                self._left -= 1
                at += 1
            else:
                at = self._read_line(data, at)
        return at

    def _read_line(self, data: bytes, at: int) -> int:
        newline = data.find(b"\n", at)
        end = len(data) if newline < 0 else newline + 1
        line = self._line + data[at:end]
        if len(line) > _LONGEST_LINE:
            raise NotStrict
        if newline < 0:
            self._line = line
            return end
        self._line = b""
        if not line.endswith(b"\r\n"):
            raise NotStrict
        self._take(line[:-2])
        return end

    def _take(self, line: bytes) -> None:
        if self._last:
            if not line:
                self.ended = True
            elif not _TRAILER.fullmatch(line):
                raise NotStrict
            return
        size = _SIZE.fullmatch(line)
        if size is None:
            raise NotStrict
        length = int(size[1], 16)
        self._last = length == 0
        self._left = length + 2 if length else 0
