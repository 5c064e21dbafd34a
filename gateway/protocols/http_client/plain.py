"""Whole answers that are plainly written and come in one read, as nearly all do: read in one go.

There is one way to read such an answer, so no parser has to be asked: a 200 of HTTP/1.1, lines that
all end alike, each name once, values of visible ASCII, nothing that changes what a connection or a
body is, and behind it as many bytes as its `content-length` says. Whatever is not of this form goes
to the parser. They take all that is, and read it alike (tests/unit/backends/test_plain.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_STATUS = b"HTTP/1.1 200 OK"
_FIELD = re.compile(rb"\r\n([A-Za-z0-9_-]+): ?(?! )([\x20-\x7e]*)(?<! )(?=\r\n)")
_LENGTH = re.compile(rb"(?i:\r\ncontent-length): ?([0-9]+)\r\n")
_OTHER_BODIES = frozenset((b"transfer-encoding", b"content-encoding", b"upgrade"))
_CONNECTION_FIELDS = frozenset((b"connection", b"proxy-connection"))
_MAX_HEAD_BYTES = 16 * 1024


class PlainAnswerReader:
    """Of one connection, where answers may begin like the one before but for their length."""

    __slots__ = ("_before", "_behind", "headers")

    def __init__(self) -> None:
        self.headers: Mapping[bytes, bytes] = {}
        """Of the answer that was read last, without its length: the body is as long as it is."""
        self._before = self._behind = b""  # of the length in that head

    def read(self, data: bytes) -> bytes | None:
        """The body, if this is one answer and of the form above; else None."""
        end = data.find(b"\r\n\r\n") + 4
        if self._behind and data.startswith(
            b"%b%d%b" % (self._before, len(data) - end, self._behind)
        ):
            return data[end:]
        return data[end:] if self._read_anew(data[:end], len(data) - end) else None

    def _read_anew(self, head: bytes, size: int) -> bool:
        if not len(_STATUS) < len(head) < _MAX_HEAD_BYTES:
            return False
        first, *fields = _FIELD.split(head[:-2])
        names = b"\n".join(fields[0::3]).lower().split(b"\n")
        headers = dict(zip(names, fields[1::3], strict=False))
        if (
            first != _STATUS
            or b"".join(fields[2::3]) != b"\r\n"  # what is left between the fields, and behind them
            or len(names) != len(headers)
            or headers.pop(b"content-length", b"") != b"%d" % size
            or not _OTHER_BODIES.isdisjoint(headers)
            or not _stays(headers)
        ):
            return False
        length = _LENGTH.search(head)
        assert length is not None
        self.headers = headers
        self._before, self._behind = head[: length.start(1)], head[length.end(1) :]
        return True


def _stays(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the connection does, by what is said of it."""
    if _CONNECTION_FIELDS.isdisjoint(headers):
        return True
    return b"proxy-connection" not in headers and headers[b"connection"].lower() == b"keep-alive"
