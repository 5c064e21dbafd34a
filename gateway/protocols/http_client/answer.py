"""Answers out of the bytes of one connection, one after the other, read by httptools."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import httptools

from gateway.core.errors import GatewayError, UpstreamFailed
from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare

MAX_HEAD_BYTES = 64 * 1024
_ASIDE_BYTES = 256 * 1024  # of a whole answer: more is joined and read in a thread of its own
_JOINED_BYTES = 64 * 1024  # of pieces of a body: joining larger ones might copy too much at once


class AnswerReader:
    """Bytes in, a head and pieces of a body out."""

    status: int
    headers: Mapping[bytes, bytes]  # names in lower case
    _fields: dict[bytes, bytes]

    def __init__(self, max_body_bytes: int) -> None:
        self.max_body_bytes = max_body_bytes
        self.pieces: list[bytes] = []  # of the body, which nobody has taken yet
        self.on_body = self.pieces.append  # what the parser calls: no function of ours for each
        self._parser = httptools.HttpResponseParser(self)
        self.feed: Callable[[bytes], None] = self._parser.feed_data
        """Raises HttpParserError or HttpParserUpgrade; `failure` says why, unless it is no HTTP."""
        self.whole = False  # the body will be taken whole
        self.begin()

    def begin(self) -> None:
        """Await an answer, behind one that ended well."""
        self.status, self._fields = 0, {}
        self.pieces.clear()
        self.head_done = self.done = self.keeps = False
        self.until_close = False  # its body ends with the connection
        self.failure: GatewayError | None = None  # why it is not taken

    @property
    def ended(self) -> bool:
        """All of it has come and was taken."""
        return self.done and not self.pieces

    def take(self) -> bytes:
        """What has come and was not taken yet."""
        pieces = self.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return data

    # httptools

    def on_message_begin(self) -> None:
        if self.done:
            self._stop("the endpoint answered twice")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.head_done:  # trailers of a chunked body come later, and count for nothing
            name = name.lower()
            if name in self._fields and name in (b"content-length", b"content-type"):
                self._stop("the endpoint's answer has a header twice that must stand once")
            self._fields[name] = value

    def on_headers_complete(self) -> None:
        if self.done:
            return
        self.status = self._parser.get_status_code()
        if 100 <= self.status < 200:  # an interim answer; the real one follows
            return
        self.head_done = True
        self.keeps = self._parser.should_keep_alive()
        self.headers = fields = self._fields
        coding = fields.get(b"transfer-encoding")
        # guard: A9.announced-size
        if self.whole and _is_over(fields.get(b"content-length"), self.max_body_bytes):
            self.failure = too_large(self.max_body_bytes)
            raise ValueError
        self.until_close = (
            b"content-length" not in fields and coding is None and self.status not in (204, 304)
        )
        if fields.get(b"content-encoding", b"identity") != b"identity":
            self._stop("the endpoint compressed an answer for which nobody asked it to")

    def on_message_complete(self) -> None:
        if not self.head_done:
            self._fields = {}
        elif self.failure is None:
            self.done = True

    def _stop(self, why: str) -> None:
        """Nothing behind this is read any more: what a callback raises stops the parser."""
        self.failure = UpstreamFailed(why)
        raise ValueError(why)


class WholeBody:
    """The pieces of a whole answer's body, counted in the budget of answers; small ones are joined
    as they come, since each has an object of its own."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.share: AnswerShare | None = None  # what the call holds of answers
        self.begin()

    def begin(self) -> None:
        self.size = self._closed_bytes = self._closed_pieces = 0

    @property
    def is_large(self) -> bool:
        """It is still to be joined, and read where the loop goes on."""
        return self.size > _ASIDE_BYTES

    def gather(self) -> int:
        """Join what has come. How many bytes there are."""
        pieces, closed = self._pieces, self._closed_pieces
        fresh = pieces[closed:]
        if len(fresh) > 1:  # guard: A9.chunk-joining
            joined = b"".join(fresh)
            pieces[closed:] = [joined]
            fresh = [joined]
        if fresh:
            # The open piece, if any, is among them: it grows until it is worth an object.
            self.size = self._closed_bytes + len(fresh[0])
            if len(fresh[0]) >= _JOINED_BYTES:
                self._closed_bytes, self._closed_pieces = self.size, closed + 1
        return self.size

    def has_room(self, size: int) -> bool:
        """Whether so many bytes of it may be held; they are counted then."""
        return size <= UNCOUNTED_BYTES or self.share is None or self.share.hold(self, size)

    def release(self) -> None:
        share, self.share = self.share, None
        if share is not None:
            share.hold(self, 0)  # guard: A9.abandoned-release


def too_large(most_bytes: int) -> UpstreamFailed:
    return UpstreamFailed(
        f"the endpoint's answer has more than {most_bytes} bytes (limits.max_answer_bytes)",
        reason="answer_too_large",
    )


def _is_over(length: bytes | None, most_bytes: int) -> bool:
    return length is not None and length.isdigit() and int(length[:18]) > most_bytes
