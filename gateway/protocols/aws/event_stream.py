"""Messages of `application/vnd.amazon.eventstream` out of bytes, bounded and checked.

By "Amazon event stream encoding" of the Smithy 2.0 specification: a prelude with the length of the
message and of its headers and a CRC-32 of both, the headers, the payload, and a CRC-32 of all that.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterator
from struct import Struct
from typing import Final

from gateway.core.errors import UpstreamFailed

MEDIA: Final = b"application/vnd.amazon.eventstream"
EventMessage = tuple[dict[str, str], bytes]
"""The headers that are strings, and the payload."""
_PRELUDE: Final = Struct(">III")
_CRC: Final = Struct(">I")
_PRELUDE_BYTES: Final = 12
_CRC_BYTES: Final = 4
_BYTES: Final = 6
_STRING: Final = 7
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value, by its type; the others say their length."""


class MessageReader:
    """Bytes in, messages out. `max_message_bytes` bounds what an unfinished one may hold."""

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._pieces: list[bytes] = []  # of a message that is not yet complete
        self._held = 0
        self._needed = _PRELUDE_BYTES  # bytes, before there is something to read
        self._raw_headers = b""  # of the last message: those of most are the same
        self._headers: dict[str, str] = {}

    @property
    def held(self) -> int:
        """Bytes of a message that is not yet complete."""
        return self._held

    def feed(self, chunk: bytes) -> Iterator[EventMessage]:
        """Those that the next read completes. Raises UpstreamFailed for what is none, and for one
        that is too large."""
        self._pieces.append(chunk)
        self._held += len(chunk)
        if self._held < self._needed:
            return
        data, at = chunk if self._held == len(chunk) else b"".join(self._pieces), 0
        self._pieces, self._held, self._needed = [], 0, _PRELUDE_BYTES
        while len(data) - at >= _PRELUDE_BYTES:
            length, headers_length, crc = _PRELUDE.unpack_from(data, at)
            if crc32(data[at : at + _PRELUDE_BYTES - _CRC_BYTES]) != crc:  # guard: S15.prelude-crc
                raise _unreadable()
            if length < _PRELUDE_BYTES + headers_length + _CRC_BYTES:
                raise _unreadable()
            if length > self._max_message_bytes:  # guard: S15.message-bound
                raise UpstreamFailed(
                    f"the endpoint sent an event of more than {self._max_message_bytes} bytes"
                )
            start, payload_at = at + _PRELUDE_BYTES, at + _PRELUDE_BYTES + headers_length
            end = at + length - _CRC_BYTES
            if end + _CRC_BYTES > len(data):
                self._needed = length
                break
            (crc,) = _CRC.unpack_from(data, end)
            if crc32(data[at:end]) != crc:  # guard: S15.message-crc
                raise _unreadable()
            if data[start:payload_at] != self._raw_headers:
                self._raw_headers = data[start:payload_at]
                self._headers = dict(_headers(self._raw_headers))
            yield self._headers, data[payload_at:end]
            at = end + _CRC_BYTES
        self._pieces, self._held = [data[at:]], len(data) - at


def _headers(raw: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    try:
        while at < len(raw):
            name_end = at + 1 + raw[at]
            name, kind = raw[at + 1 : name_end], raw[name_end]
            at = name_end + 1
            if kind in _SIZES:
                at += _SIZES[kind]
                continue
            end = at + 2 + int.from_bytes(raw[at : at + 2], "big")
            if kind == _STRING:
                yield name.decode(), raw[at + 2 : end].decode()
            elif kind != _BYTES:
                raise _unreadable()
            at = end
    except (IndexError, UnicodeDecodeError):
        raise _unreadable() from None
    if at != len(raw):
        raise _unreadable()


def _unreadable() -> UpstreamFailed:
    return UpstreamFailed("the endpoint's event stream has a message that cannot be read")
