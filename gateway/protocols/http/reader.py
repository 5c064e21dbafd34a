"""Requests out of the bytes of one connection, read by httptools.

Heads are bounded while they come, and stay what they were once read: a small body and its trailers
come in one read, so only here can they be kept apart, and trailers are read by nobody. What
httptools takes and RFC 9112 does not is refused by `framing` before it is parsed.

Most requests of a connection have the very head of the one before but for their length, and come
whole: such a head is known, and not read again.
"""

from __future__ import annotations

import re
from typing import Protocol

import httptools

from gateway.protocols.http.framing import Framing
from gateway.protocols.http.head import MAX_HEAD_BYTES, MAX_PATH_BYTES, Field, HttpHead

_MOST_BYTES = MAX_HEAD_BYTES + MAX_PATH_BYTES
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"(?i:\r\ncontent-length):[ \t]*([0-9]+)")


class HeadTooLarge(Exception):
    """The head, or the trailers, have more than MAX_HEAD_BYTES."""


class BodyReceiver(Protocol):
    def receive(self, data: bytes) -> None: ...
    def receive_end(self) -> None: ...


class RequestReceiver(Protocol):
    def begin_request(self, head: HttpHead, keeps: bool) -> BodyReceiver | None:
        """What its body goes to. `keeps`: whether the caller takes another answer on this
        connection."""
        ...


class RequestReader:
    """Bytes in, requests out. What is refused ends it."""

    def __init__(self, receiver: RequestReceiver) -> None:
        self._receiver = receiver
        self._framing = Framing()
        self._renew_parser()
        self.parses = False  # a request, of which it has not seen the end
        self.awaits_head = True
        self._body: BodyReceiver | None = None
        self._fields: list[Field] = []
        self._target = b""
        self._head_without_upgrade = b""
        self._framing_bytes = 0  # that came since the last head, piece of a body, or end of one
        self._raw_head = b""  # of a request that came whole, alone, in one read
        self.forget()

    def forget(self) -> None:
        """What is known of the last head: others answer its calls now."""
        self._known: HttpHead | None = None
        self._before = self._behind = b""  # of the length in it

    def repeated(self, data: bytes) -> tuple[HttpHead, bytes] | None:
        """The head and the body, if this is one whole request and its head is the last one's."""
        known = self._known
        if known is None or self.parses or not self._framing.rests:
            return None
        raw, end, body = data.partition(_END)
        if raw != b"%b%d%b" % (self._before, len(body), self._behind) or not end:
            return None
        return known, body

    def read(self, data: bytes) -> None:
        """Raises NotStrict, httptools.HttpParserError or HeadTooLarge."""
        self._framing_bytes += len(data)
        begins = not self.parses and self._framing.rests
        pieces = self._framing.pieces(data)
        alone = begins and len(pieces) == 2 and self._framing.rests
        self._raw_head = pieces[0] if alone else b""
        for piece in pieces:
            self._feed(piece)
        if self._framing_bytes > _MOST_BYTES:
            raise HeadTooLarge

    def _renew_parser(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _feed(self, data: bytes) -> None:
        """No upgrade is offered, and who asks for one is served as if it had not (RFC 9110,
        section 7.8). The parser would not: it takes the body of such a request for the next one.
        """
        try:
            self._parser.feed_data(data)
            return
        except httptools.HttpParserUpgrade as upgrade:
            (at,) = upgrade.args
        left = memoryview(data)[at:]
        while True:
            self._renew_parser()
            self._parser.feed_data(self._head_without_upgrade)
            if not left:
                return
            try:
                self._parser.feed_data(left)
                return
            except httptools.HttpParserUpgrade as upgrade:
                (at,) = upgrade.args
                left = left[at:]

    # httptools

    def on_message_begin(self) -> None:
        self.parses = self.awaits_head = True
        self._fields = []
        self._target = b""

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.awaits_head:  # else it is a trailer
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser.should_upgrade():
            self._head_without_upgrade = self._rebuilt_head()
            return
        self.awaits_head = False
        self._framing_bytes = 0
        version, fields = parser.get_http_version(), self._fields
        keeps = version == "1.1" and parser.should_keep_alive()
        raw, self._raw_head = self._raw_head, b""
        length = _LENGTH.search(raw) if keeps else None
        if length is not None:  # the body has come, and is as long as it says
            fields = [field for field in fields if field[0] != b"content-length"]
        head = HttpHead(parser.get_method().decode("latin-1"), self._target, version, fields)
        if length is not None:
            self._known = head
            self._before, self._behind = raw[: length.start(1)], raw[length.end(1) : -len(_END)]
        self._body = self._receiver.begin_request(head, keeps)

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        if self._body is not None:
            self._body.receive(body)

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return
        self.parses = False
        self._framing_bytes = 0
        body, self._body = self._body, None
        if body is not None:
            body.receive_end()

    def _rebuilt_head(self) -> bytes:
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        if method == b"CONNECT":
            raise httptools.HttpParserError("a proxy's method")
        lines = [b"%b %b HTTP/%b" % (method, self._target, version)]
        lines += [b"%b: %b" % each for each in self._fields if each[0] != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))
