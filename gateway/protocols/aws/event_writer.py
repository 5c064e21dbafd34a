"""Messages of `application/vnd.amazon.eventstream` as bytes ("Amazon event stream encoding" of the
Smithy 2.0 specification)."""

from __future__ import annotations

from binascii import crc32
from struct import Struct
from typing import Final

MEDIA: Final = "application/vnd.amazon.eventstream"
_PRELUDE: Final = Struct(">II")
_CRC: Final = Struct(">I")
_AROUND_BYTES: Final = _PRELUDE.size + 2 * _CRC.size
_STRING: Final = 7


def headers(**named: str) -> bytes:
    """Of a message; an underscore is a hyphen, and each name begins with a colon."""
    made = b""
    for name, value in named.items():
        key, data = f":{name.replace('_', '-')}".encode(), value.encode()
        made += bytes((len(key),)) + key + bytes((_STRING,)) + len(data).to_bytes(2, "big") + data
    return made


def message(head: bytes, payload: bytes) -> bytes:
    """`head`: of `headers`."""
    length = _AROUND_BYTES + len(head) + len(payload)
    prelude = _PRELUDE.pack(length, len(head))
    begun = prelude + _CRC.pack(crc32(prelude)) + head + payload
    return begun + _CRC.pack(crc32(begun))
