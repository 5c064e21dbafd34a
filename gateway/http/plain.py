"""Requests that come whole and plainly written, as nearly all calls do: read in one go.

There is one way to read such a head, so no parser has to be asked: a POST of HTTP/1.1 to a plain
path, lines that all end alike, each name once, values of visible ASCII, nothing that changes what a
connection does, and behind it as many bytes as its `content-length` says. Whatever is not of this
form goes to the parser, and is checked by `head`. They take all that is, and read it alike
(tests/unit/http/test_plain.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gateway.http.head import MAX_HEAD_BYTES, MAX_HEADERS, MAX_PATH_BYTES, Head

_REQUEST = re.compile(r"POST ((?:/[A-Za-z0-9_~@:-][A-Za-z0-9._~@:-]*)+) HTTP/1\.1")
_FIELD = re.compile(r"\r\n([A-Za-z0-9_-]+): ?(?! )([\x20-\x7e]*)(?<! )(?=\r\n)")
_HOST = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]{1,5})?")
_CHANGES = frozenset({"transfer-encoding", "upgrade", "proxy-connection"})


class PlainHead(Head):
    __slots__ = ()

    def __init__(self, path: str, headers: Mapping[str, str]) -> None:
        self.method, self.version, self.query = "POST", "1.1", b""
        self.path = path
        self.headers = headers
        self.plain = True
        self._fields = None


def read(data: bytes) -> tuple[Head, bytes] | None:
    """The head and the body, if that is all there is and it is of the form above."""
    end = data.find(b"\r\n\r\n")
    if not 0 < end < MAX_HEAD_BYTES:
        return None
    line, *fields = _FIELD.split(data[: end + 2].decode("latin-1"))
    names = "\n".join(fields[0::3]).lower().split("\n")
    headers = dict(zip(names, fields[1::3], strict=False))
    request = _REQUEST.fullmatch(line)
    if (
        request is None
        or len(request[1]) > MAX_PATH_BYTES
        or "".join(fields[2::3]) != "\r\n"  # what is left between the fields, and behind the last
        or not len(names) == len(headers) <= MAX_HEADERS
        or headers.get("content-length") != str(len(data) - end - 4)
        or headers.get("connection", "keep-alive").lower() != "keep-alive"
        or not _CHANGES.isdisjoint(headers)
        or not _HOST.fullmatch(headers.get("host", ""))
    ):
        return None
    return PlainHead(request[1], headers), data[end + 4 :]
