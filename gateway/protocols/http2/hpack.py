"""Header compression (RFC 7541).

Calls on one connection have nearly the same heads, so blocks of the same bytes come again and
again. A block that does not change the dynamic table means the same until something does: what was
made of it is kept, and found by its bytes. For the same reason nothing is put into the peer's table
but what all calls share, once: from then on those fields are a few bytes that never change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from gateway.protocols.http2 import Code, Http2Error
from gateway.protocols.http2.hpack_tables import STATIC, huffman_decoded

T = TypeVar("T")
Field = tuple[bytes, bytes]

TABLE_BYTES = 4096
"""Of either direction: what a peer may use unasked, and as much as we use of a peer's."""

FIELD_BYTES = 32
"""What a field counts besides its name and its value (section 4.1)."""

_STATIC_FIELDS = len(STATIC)
_STATIC_PLACES = {field: at for at, field in enumerate(STATIC, 1)}
_MOST_BITS = 28  # of an integer: far above any size that is taken
_MOST_KNOWN = 64
_LONGEST_KNOWN = 1024
_MOST_KNOWN_BYTES = 128 * 1024  # of fields: a few octets may stand for the whole table
_MOST_LISTS = 8  # times what a list may count: what is beyond is no mistake but a bomb
_MOST_RESIZES = 2  # at the beginning of a block (RFC 7541, section 4.2)
_LONGEST_CODE = 30  # bits of the Huffman code that one octet has


class Decoder(Generic[T]):
    """Blocks of one direction of one connection, in the order in which they come.

    `read` is given the fields of each block, or None for one whose fields count more than
    `max_list_bytes`; it must give the same for the same fields. What is beyond is read for the
    table's sake alone, and nothing is decoded that the table cannot hold.
    """

    def __init__(self, read: Callable[[list[Field] | None], T], max_list_bytes: int) -> None:
        self._read = read
        self._max_list_bytes = max_list_bytes
        self._table: deque[Field] = deque()  # the newest first
        self._bytes = 0
        self._most_bytes = TABLE_BYTES
        self.known: dict[bytes, T] = {}  # what `decode` gives at once
        self._known_bytes = 0  # of their fields
        self._left = 0  # of what the list of the block may count
        self._changed = False

    def decode(self, block: bytes) -> T:
        """Raises Broken: behind a block that cannot be read, no other can."""
        decoded = self.known.get(block)
        if decoded is not None:
            return decoded
        self._changed = False
        try:
            fields = self._fields(block)
        except IndexError:
            raise Http2Error(Code.COMPRESSION_ERROR, "a header block is cut short") from None
        if self._changed:
            self.known.clear()  # guard: A8.block-cache
            self._known_bytes = 0
            return self._read(fields)
        decoded = self._read(fields)
        if len(block) <= _LONGEST_KNOWN and self._left >= 0:
            self._known_bytes += self._max_list_bytes - self._left
            if len(self.known) >= _MOST_KNOWN or self._known_bytes > _MOST_KNOWN_BYTES:
                self.known.clear()
                self._known_bytes = self._max_list_bytes - self._left
            self.known[block] = decoded
        return decoded

    def _fields(self, block: bytes) -> list[Field] | None:
        fields: list[Field] = []
        at, end, resizes = 0, len(block), 0
        self._left = self._max_list_bytes
        least = self._max_list_bytes * (1 - _MOST_LISTS)
        while at < end:
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 0x7F)
                field = self._indexed(index)
            elif first & 0x40:
                field, at = self._literal(block, at, 0x3F, self._most_bytes)
                self._add(field)
            elif first & 0x20:
                size, at = _integer(block, at, 0x1F)
                resizes += 1
                if fields or size > TABLE_BYTES or resizes > _MOST_RESIZES:
                    raise Http2Error(Code.COMPRESSION_ERROR, "a table size that was not offered")
                self._resize(size)
                continue
            else:
                field, at = self._literal(block, at, 0x0F, 0)
            self._left = left = self._left - len(field[0]) - len(field[1]) - FIELD_BYTES
            if left >= 0:  # else the rest is read for the table's sake alone
                fields.append(field)
            elif left < least:  # guard: A8.field-list-size
                raise Http2Error(Code.ENHANCE_YOUR_CALM, "header fields without end")
        return fields if self._left >= 0 else None  # guard: A8.field-size -> return fields

    def _literal(self, block: bytes, at: int, mask: int, table_bytes: int) -> tuple[Field, int]:
        """`table_bytes`: what the table may hold, if the field is put into it."""
        index, at = _integer(block, at, mask)
        most = max(self._left, table_bytes)
        if index:
            name = self._indexed(index)[0]
        else:
            name, at = _string(block, at, most)
        value, at = _string(block, at, most)
        return (name, value), at

    def _indexed(self, index: int) -> Field:
        if 0 < index <= _STATIC_FIELDS:
            return STATIC[index - 1]
        if not 0 < index - _STATIC_FIELDS <= len(self._table):
            raise Http2Error(Code.COMPRESSION_ERROR, "a header field that is in no table")
        return self._table[index - _STATIC_FIELDS - 1]

    def _add(self, field: Field) -> None:
        self._changed = True
        self._bytes += len(field[0]) + len(field[1]) + FIELD_BYTES
        self._table.appendleft(field)
        self._evict()

    def _resize(self, size: int) -> None:
        self._changed = True
        self._most_bytes = size
        self._evict()

    def _evict(self) -> None:
        while self._bytes > self._most_bytes:
            name, value = self._table.pop()
            self._bytes -= len(name) + len(value) + FIELD_BYTES


class Encoder:
    """Blocks that begin with one of a few lists of fields, each of which is put into the peer's
    table once, and end with fields that are not kept. Nothing is ever thrown out of that table."""

    def __init__(self, table_bytes: int = TABLE_BYTES) -> None:
        """`table_bytes`: what the peer's table may have."""
        self._room = min(table_bytes, TABLE_BYTES)
        self._resized = (
            _encode_integer(self._room, 0x1F, 0x20) if table_bytes < TABLE_BYTES else b""
        )
        self._entered: dict[Field, int] = {}  # fields in the table, by their turn
        self.blocks: dict[tuple[Field, ...], bytes] = {}  # what `begin` gives at once

    def begin(self, fields: tuple[Field, ...]) -> bytes:
        """Of the next block, which must be sent before another is begun."""
        block = self.blocks.get(fields)
        return self._begin(fields) if block is None else block

    def _begin(self, fields: tuple[Field, ...]) -> bytes:
        entered, resized = len(self._entered), self._resized
        self._resized = b""
        block = b"".join([self._field(field) for field in fields])
        if entered == len(self._entered):
            if len(self.blocks) >= _MOST_KNOWN:
                self.blocks.clear()
            self.blocks[fields] = block
        else:
            # guard: A8.encoder-cache -> self.blocks[fields] = block
            self.blocks.clear()  # the others' places have changed
        return resized + block

    def _field(self, field: Field) -> bytes:
        at = _STATIC_PLACES.get(field)
        if at is None and field in self._entered:
            at = _STATIC_FIELDS + 1 + len(self._entered) - self._entered[field]
        if at is not None:
            return _encode_integer(at, 0x7F, 0x80)
        size = len(field[0]) + len(field[1]) + FIELD_BYTES
        if size > self._room:
            return literal(*field)
        self._room -= size
        self._entered[field] = len(self._entered) + 1
        return b"\x40" + _encode_string(field[0]) + _encode_string(field[1])


def literal(name: bytes, value: bytes) -> bytes:
    """A field that is not put into the table."""
    size = len(value)
    if size < 0x7F and len(name) < 0x7F:
        return b"\x00%c%b%c%b" % (len(name), name, size, value)
    return b"\x00" + _encode_string(name) + _encode_string(value)


def _encode_string(text: bytes) -> bytes:
    return _encode_integer(len(text), 0x7F, 0) + text


def _encode_integer(number: int, mask: int, flags: int) -> bytes:
    """Section 5.1: in the low bits of an octet that has these flags, and as many more as needed."""
    if number < mask:
        return bytes((flags | number,))
    encoded = bytearray((flags | mask,))
    number -= mask
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    for shift in range(0, _MOST_BITS, 7):
        octet = block[at]
        at += 1
        number += (octet & 0x7F) << shift
        if octet < 0x80:
            return number, at
    raise Http2Error(Code.COMPRESSION_ERROR, "a header block has an integer without an end")


def _string(block: bytes, at: int, most_bytes: int) -> tuple[bytes, int]:
    """One that is certain to have more than so many octets is not decoded: it stands for itself."""
    coded = block[at] & 0x80
    size, at = _integer(block, at, 0x7F)
    end = at + size
    if end > len(block):
        raise Http2Error(Code.COMPRESSION_ERROR, "a header block is cut short")
    text = block[at:end]
    if coded and size * 8 // _LONGEST_CODE <= most_bytes:
        text = huffman_decoded(text)
    return text, end
