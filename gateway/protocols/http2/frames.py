"""Frames (RFC 9113, sections 4 and 6): what they are made of, and how they are written."""

from __future__ import annotations

from struct import Struct
from typing import Final

from gateway.protocols.http2 import Code, Http2Error

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITISED: Final = 0x20

HEADER_TABLE_SIZE: Final = 0x1
ENABLE_PUSH: Final = 0x2
MAX_CONCURRENT_STREAMS: Final = 0x3
INITIAL_WINDOW_SIZE: Final = 0x4
MAX_FRAME_SIZE: Final = 0x5
MAX_HEADER_LIST_SIZE: Final = 0x6

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES: Final = 9
PRIORITY_BYTES: Final = 5  # of a PRIORITY frame, and of HEADERS with the flag
USUAL_FRAME_BYTES: Final = 1 << 14  # what anybody takes
USUAL_WINDOW: Final = (1 << 16) - 1
MOST_WINDOW: Final = (1 << 31) - 1

_HEAD: Final = Struct(">IBI")
_MESSAGE: Final = Struct(">IBIBI")
read_head: Final = _HEAD.unpack_from
write_head: Final = _HEAD.pack
"""A frame's head in three numbers: its length before the octet of its kind, its flags, and its
stream behind a reserved bit."""
write_message_head: Final = _MESSAGE.pack
"""With the prefix of gRPC's message behind it, all of which is in that frame."""

_NUMBER: Final = Struct(">I")
_SETTING: Final = Struct(">HI")


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return head(len(payload), kind, flags, stream) + payload


def head(size: int, kind: int, flags: int, stream: int) -> bytes:
    return write_head(size << 8 | kind, flags, stream)


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join([_SETTING.pack(*each) for each in values.items()]))


def read_settings(payload: bytes) -> dict[int, int]:
    """The last value of each parameter, as RFC 9113 has it take effect (section 6.5.3); of the
    table's size the least, at which the peer may have thrown entries out (RFC 7541, section 4.2).
    Raises Http2Error."""
    if len(payload) % _SETTING.size:
        raise Http2Error(Code.FRAME_SIZE_ERROR, "SETTINGS that end within one")
    pairs = list(_SETTING.iter_unpack(payload))
    values = dict(pairs)  # guard: A8.last-setting -> values = dict(reversed(pairs))
    if HEADER_TABLE_SIZE in values:  # guard: A8.table-minimum
        values[HEADER_TABLE_SIZE] = min(value for name, value in pairs if name == HEADER_TABLE_SIZE)
    return values


def window_update(stream: int, count: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(count))


def reset(stream: int, code: Code) -> bytes:
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def goaway(last: int, code: Code) -> bytes:
    return frame(GOAWAY, 0, 0, _NUMBER.pack(last) + _NUMBER.pack(code))


def number(payload: bytes, at: int = 0) -> int:
    number: int = _NUMBER.unpack_from(payload, at)[0]
    return number


def unpadded(flags: int, payload: bytes) -> bytes:
    """What is between the length of the padding and the padding."""
    if not flags & PADDED:
        return payload
    if not payload:
        raise Http2Error(Code.FRAME_SIZE_ERROR, "a padded frame without the length of its padding")
    if payload[0] >= len(payload):
        raise Http2Error(Code.PROTOCOL_ERROR, "padding that is longer than its frame")
    return payload[1 : len(payload) - payload[0]]
