"""Messages of `application/vnd.amazon.eventstream` out of bytes, bounded and checked.

By "Amazon event stream encoding" of the Smithy 2.0 specification: a prelude with the length of the
message and of its headers and a CRC-32 of both, the headers, the payload, and a CRC-32 of all that.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from gateway.core.errors import UpstreamFailed

MEDIA: Final = b"application/vnd.amazon.eventstream"
_PRELUDE: Final = Struct(">III")
_CRC: Final = Struct(">I")
_AROUND_BYTES: Final = _PRELUDE.size + _CRC.size
_LENGTHS_BYTES: Final = 8
_BYTES: Final = 6
_STRING: Final = 7
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value, by its type; the others say their length."""


@dataclass(frozen=True, slots=True)
class EventMessage:
    headers: dict[str, str]  # those that are strings
    payload: bytes = field(repr=False)


class MessageReader:
    """Bytes in, messages out. `max_message_bytes` bounds what an unfinished one may hold."""

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._data = b""
        self._raw_headers = b""  # of the last message: those of most are the same
        self._headers: dict[str, str] = {}

    @property
    def held(self) -> int:
        """Bytes of a message that is not yet complete."""
        return len(self._data)

    def feed(self, chunk: bytes) -> Iterator[EventMessage]:
        """Those that the next read completes. Raises UpstreamFailed for what is none, and for one
        that is too large."""
        data, at = self._data + chunk if self._data else chunk, 0
        self._data = b""
        while len(data) - at >= _PRELUDE.size:
            length, headers_length, crc = _PRELUDE.unpack_from(data, at)
            if crc32(data[at : at + _LENGTHS_BYTES]) != crc:  # guard: S15.prelude-crc
                raise _unreadable()
            if length < _AROUND_BYTES + headers_length:
                raise _unreadable()
            if length > self._max_message_bytes:  # guard: S15.message-bound
                raise UpstreamFailed(
                    f"the endpoint sent an event of more than {self._max_message_bytes} bytes"
                )
            end = at + length
            if end > len(data):
                break
            (crc,) = _CRC.unpack_from(data, end - _CRC.size)
            if crc32(data[at : end - _CRC.size]) != crc:  # guard: S15.message-crc
                raise _unreadable()
            payload_at = at + _PRELUDE.size + headers_length
            headers = self._read_headers(data[at + _PRELUDE.size : payload_at])
            yield EventMessage(headers, data[payload_at : end - _CRC.size])
            at = end
        self._data = data[at:]

    def _read_headers(self, raw: bytes) -> dict[str, str]:
        if raw != self._raw_headers:
            self._headers, self._raw_headers = dict(_headers(raw)), raw
        return self._headers


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
