"""The calls of a client's connection, and what has come of their answers: counted as it comes, and
refused as soon as its beginning says that it is too large."""

from __future__ import annotations

import asyncio
import re
from copy import copy
from typing import Any, Protocol

from gateway.core.held_bytes import UNCOUNTED_BYTES, AnswerShare
from gateway.protocols.http2 import BadStream, Code
from gateway.protocols.http2.hpack import Field
from gateway.protocols.http2.message import (
    PREFIX_BYTES,
    GrpcStatusError,
    NoRoom,
    code_name,
    decode_message,
    is_grpc,
    read_prefix,
    too_large,
)
from gateway.protocols.http2.request import CONNECTION_FIELDS
from gateway.protocols.http2.sender import Stream
from gateway.protocols.pieces import LARGE_BYTES, PieceBuffer

_CODES_BY_HTTP_STATUS = {  # of an answer that is not gRPC's (http-grpc-status-mapping.md)
    400: "INTERNAL",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "UNIMPLEMENTED",
    429: "UNAVAILABLE",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "UNAVAILABLE",
}
_CONTROLS = re.compile(rb"[\0\r\n]")  # RFC 9113, section 8.2.1


class Client(Protocol):
    """The connection, as far as its calls know it."""

    def make_room(self, call: StreamedCall) -> None: ...
    def give_up_on(self, call: Http2Call, why: GrpcStatusError) -> None: ...
    def cancel(self, call: Http2Call) -> None: ...


class Http2Call(Stream):
    """`answer` is its message, in pieces where it is large, or how it failed. Who does not wait for
    it any more cancels it."""

    length: int | None = None  # that the answer says it has
    answering = False  # its header fields have come
    received_bytes = 0  # of the answer, all together

    def __init__(self, answer: Any, held: AnswerShare | None, max_bytes: int) -> None:
        """`max_bytes` is of one message."""
        self.answer: asyncio.Future[bytes | PieceBuffer | GrpcStatusError] = answer
        self.share = held
        self.max_bytes = max_bytes
        self.pieces = PieceBuffer()

    def fail(self, why: GrpcStatusError) -> None:
        if not self.answer.done():
            self.answer.set_result(why)

    def refused(self) -> GrpcStatusError | None:
        """Why no more of it is taken."""
        size = self._message_bytes()
        if size > self.max_bytes:  # guard: A8.answer-bound
            return GrpcStatusError("RESOURCE_EXHAUSTED", too_large(size, self.max_bytes))
        # guard: A9.grpc-answers -> if not self._counts(self.pieces.size) and False:
        if not self._counts(self.pieces.size):
            return NoRoom("too many bytes of answers are held")
        return None

    def whole(self) -> bytes | PieceBuffer:
        """The answer, once all has come. Raises Status for what is not one message."""
        pieces = self.pieces
        prefix = pieces.cut(PREFIX_BYTES) if pieces.size >= PREFIX_BYTES else b""
        compressed, length = read_prefix(prefix) if prefix else (0, -1)
        if length != pieces.size:
            raise GrpcStatusError("INTERNAL", "the answer is not one message")
        if compressed:
            raise _compressed()
        self.share = None  # it is the caller's from now on
        return pieces if length > LARGE_BYTES else pieces.take()

    def woken(self) -> None:
        """More of it has come."""

    def ended(self) -> None:
        """Nothing more comes of it."""
        self._counts(0)  # guard: A9.grpc-abandoned

    def _counts(self, size: int) -> bool:
        """Whether there is room for so many bytes of it."""
        share = self.share
        return share is None or share.hold(self, size if size > UNCOUNTED_BYTES else 0)

    def _message_bytes(self) -> int:
        """Of the first message that was not taken, as far as is known."""
        return max(self._announced_bytes(), self.pieces.size - PREFIX_BYTES)

    def _announced_bytes(self) -> int:
        begins = self.pieces.first(PREFIX_BYTES)
        # guard: A9.announced-message -> return 0
        return int(read_prefix(begins)[1]) if len(begins) == PREFIX_BYTES else 0


class StreamedCall(Http2Call):
    """One with any number of answers, which `next` gives in turn: the server gets room for more
    when somebody waits for it. `answer` is how it ended, empty where that was well."""

    held = True  # guard: A9.stream-window
    _taken_bytes = 0  # of the last answer, which may still be on its way, until the next has come

    def __init__(
        self, answer: Any, held: AnswerShare | None, max_bytes: int, client: Client
    ) -> None:
        super().__init__(answer, held, max_bytes)
        self._client = client
        self._arrived = asyncio.Event()

    async def next(self) -> bytes | None:
        """None behind the last. Raises Status: at once for want of room, else behind what came
        whole."""
        pieces = self.pieces
        while True:
            if (why := self.refused()) is not None:
                self._client.give_up_on(self, why)
                raise copy(why)  # this frame has `why`
            if PREFIX_BYTES + self._announced_bytes() <= pieces.size:
                break
            if self.answer.done():
                self._check_end()
                return None
            self._client.make_room(self)
            self._arrived.clear()
            await self._arrived.wait()
        compressed, length = read_prefix(pieces.cut(PREFIX_BYTES))
        if compressed:
            self._client.give_up_on(self, _compressed())
            raise _compressed()
        part = pieces.part(length)
        self._taken_bytes = length
        self._counts(pieces.size)  # guard: A9.taken-answer
        return await part.take_aside()

    def close(self) -> None:
        """What was taken last counts until the whole share is closed. Harmless when it has
        ended."""
        self._client.cancel(self)
        self.pieces.clear()
        self._counts(0)  # guard: A9.grpc-abandoned

    def fail(self, why: GrpcStatusError) -> None:
        super().fail(why)
        self.woken()

    def whole(self) -> bytes:
        self._arrived.set()
        return b""

    def woken(self) -> None:
        self._arrived.set()

    def ended(self) -> None:
        """What has come stays until it is taken; unless it was given up."""
        self._counts(self.pieces.size)  # guard: A9.refused-release

    def _check_end(self) -> None:
        """Raises Status."""
        status = self.answer.result()
        if isinstance(status, GrpcStatusError):
            raise copy(status)
        if self.pieces.size:
            raise GrpcStatusError("INTERNAL", "the answers end within a message")

    def _counts(self, size: int) -> bool:
        return super()._counts(size + self._taken_bytes)

    def _message_bytes(self) -> int:
        return self._announced_bytes()


def _compressed() -> GrpcStatusError:
    return GrpcStatusError("INTERNAL", "the answer is compressed, which nobody asked for")


class AnswerHead:
    """What the header fields of an answer say: those before its message, or behind it."""

    __slots__ = ("details", "http", "length", "refused", "status")

    def __init__(self, fields: list[Field] | None) -> None:
        """Raises BadStream."""
        self.status: str | None = None  # of gRPC; there is one at the end
        self.refused: GrpcStatusError | None = None  # it is no answer of gRPC
        self.details = ""
        self.http = b""
        self.length: int | None = None
        if fields is None:
            self.refused = GrpcStatusError(
                "RESOURCE_EXHAUSTED", "received metadata size exceeds limit"
            )
            return
        http, kind, last = b"", b"", b""
        for name, value in fields:
            if name == b"grpc-status":
                self.status = code_name(value)
            elif name == b"grpc-message":
                self.details = decode_message(value)
            elif name == b":status" and not last:
                self.http = http = value
            elif name == b"content-type":
                kind = value
            elif name == b"content-length" and self.length is None and value.isdigit():
                self.length = int(value[:18])
            elif not _may_answer(name) or _CONTROLS.search(value):
                raise BadStream(Code.PROTOCOL_ERROR, "a header field that is none")
            last = name
        if http[:1] == b"1":  # an interim answer; the real one follows
            return
        if http and self.status is None and (http != b"200" or not is_grpc(kind)):
            code = _CODES_BY_HTTP_STATUS.get(int(http), "UNKNOWN") if http.isdigit() else "UNKNOWN"
            words = http.decode("ascii", "replace")
            self.refused = GrpcStatusError(
                code, f"the answer is not gRPC's; its HTTP status is {words}"
            )


def _may_answer(name: bytes) -> bool:
    """Whether a field may stand in an answer, and again where it did before."""
    if not name or name[0] == 0x3A or name != name.lower() or name == b"content-length":
        return False
    return name not in CONNECTION_FIELDS
