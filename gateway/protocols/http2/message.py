"""What gRPC puts into HTTP/2: messages in DATA, statuses in trailers (PROTOCOL-HTTP2.md)."""

from __future__ import annotations

from struct import Struct
from typing import Final
from urllib.parse import quote, unquote_to_bytes

PREFIX_BYTES: Final = 5
"""Before a message: whether it is compressed, and its length."""

read_prefix: Final = Struct(">BI").unpack_from

STATUSES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip

_PLAIN: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


class GrpcStatusError(Exception):
    """How a call ended that was not answered: a code of gRPC, and words."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details

    def __copy__(self) -> GrpcStatusError:
        """The same without a traceback, for several to raise."""
        made = type(self).__new__(type(self), self.details)
        GrpcStatusError.__init__(made, self.code, self.details)
        return made


class NoConnection(GrpcStatusError):
    """None could be made: nothing was sent."""

    def __init__(self, details: str) -> None:
        super().__init__("UNAVAILABLE", details)


class NoRoom(GrpcStatusError):
    """Too many bytes of answers are held here."""

    def __init__(self, details: str) -> None:
        super().__init__("RESOURCE_EXHAUSTED", details)


def framed(message: bytes) -> bytes:
    """A message as DATA has it, not compressed."""
    return prefix(len(message)) + message


def prefix(length: int) -> bytes:
    """What stands before a message of so many bytes that is not compressed."""
    return b"\x00" + length.to_bytes(4)


def too_large(size: int, most: int) -> str:
    return f"Received message larger than max ({size} vs. {most})"


def code_number(code: str) -> bytes:
    return b"%d" % STATUSES.index(code)


def code_name(number: bytes) -> str:
    """UNKNOWN for what nobody knows."""
    number_ = int(number) if number.isdigit() and len(number) < 3 else -1
    return STATUSES[number_] if 0 <= number_ < len(STATUSES) else "UNKNOWN"


def decode_message(raw: bytes) -> str:
    return unquote_to_bytes(raw).decode("utf-8", "replace")


def encode_message(words: str) -> bytes:
    """As `grpc-message` has it: UTF-8 with percent signs for what is no printable ASCII."""
    return quote(words, safe=_PLAIN, errors="replace").encode()


def is_grpc(kind: bytes) -> bool:
    """Whether a content type is gRPC's."""
    return kind[:16] == b"application/grpc" and kind[16:17] in (b"", b"+", b";")
