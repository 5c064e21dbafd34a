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

from gateway.protocols.http.head import MAX_HEAD_BYTES, MAX_HEADERS, MAX_PATH_BYTES, HttpHead

_REQUEST = re.compile(r"POST ((?:/[A-Za-z0-9_~@:-][A-Za-z0-9._~@:-]*)+) HTTP/1\.1")
_FIELD = re.compile(r"\r\n([A-Za-z0-9_-]+): ?(?! )([\x20-\x7e]*)(?<! )(?=\r\n|\Z)")
_HOST = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]{1,5})?")
_LENGTH = re.compile(rb"(?i:\r\ncontent-length): ?([0-9]+)(?=\r\n|\Z)")
_END = b"\r\n\r\n"
_CONNECTION_FIELDS = frozenset({"connection", "transfer-encoding", "upgrade", "proxy-connection"})


class PlainHead(HttpHead):
    """Without `content-length`: the body has come with it, and is as long as it said."""

    __slots__ = ()

    def __init__(self, path: str, headers: Mapping[str, str]) -> None:
        self.method, self.version, self.query = "POST", "1.1", b""
        self.path = path
        self.headers = headers
        self.plain = True
        self.authority = None
        self._fields = None
        self.known = None


class PlainHeadReader:
    """Of one connection, where most requests are like the one before but for their length: those
    have its very head."""

    __slots__ = ("_before", "_behind", "_last")

    def __init__(self) -> None:
        self._last: HttpHead
        self._before = _END  # of the length in the last head; no head has this
        self._behind = b""

    def read(self, data: bytes) -> tuple[HttpHead, bytes] | None:
        """The head and the body, if that is all there is and it is of the form above."""
        raw, end, body = data.partition(_END)
        if not end:
            return None
        if raw == b"%b%d%b" % (self._before, len(body), self._behind):
            return self._last, body
        head = _plain(raw, len(body))
        if head is None:
            return None
        length = _LENGTH.search(raw)
        assert length is not None
        self._last = head
        self._before, self._behind = raw[: length.start(1)], raw[length.end(1) :]
        return head, body


def _plain(raw: bytes, size: int) -> HttpHead | None:
    """`raw`: without its end. `size`: of what is behind it."""
    if len(raw) >= MAX_HEAD_BYTES:
        return None
    line, *fields = _FIELD.split(raw.decode("latin-1"))
    names = "\n".join(fields[0::3]).lower().split("\n")
    headers = dict(zip(names, fields[1::3], strict=False))
    request = _REQUEST.fullmatch(line)
    if (
        request is None
        or len(request[1]) > MAX_PATH_BYTES
        or any(fields[2::3])  # what is left between the fields, and behind the last
        or not len(names) == len(headers) <= MAX_HEADERS
        or headers.pop("content-length", None) != str(size)
        or (not _CONNECTION_FIELDS.isdisjoint(headers) and not _only_stays(headers))
        or not _HOST.fullmatch(headers.get("host", ""))
    ):
        return None
    return PlainHead(request[1], headers)


def _only_stays(headers: Mapping[str, str]) -> bool:
    """Whether all that is said of the connection is that it stays, as it would anyway."""
    stays = headers.get("connection", "").lower() == "keep-alive"
    return stays and len(_CONNECTION_FIELDS.intersection(headers)) == 1
