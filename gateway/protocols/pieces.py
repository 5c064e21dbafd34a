"""Bytes that come in pieces, held in a little more memory than they measure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

_SMALL_BYTES: Final = 2048  # an object of its own costs more than 2 % of such a piece
_JOINED_BYTES: Final = 64 * 1024  # growing a larger one might copy too much at once
LARGE_BYTES: Final = 1 << 20
"""More is joined in a thread of its own: that copy is made without Python's lock."""


async def joined(pieces: Sequence[bytes | bytearray]) -> bytes:
    """All of them in one."""
    if sum(map(len, pieces)) <= LARGE_BYTES:
        return b"".join(pieces)
    return await asyncio.to_thread(b"".join, pieces)


class PieceBuffer:
    """Small pieces are joined as they come: one octet each would cost forty."""

    __slots__ = ("_at", "_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes | bytearray] = []
        self._at = 0  # what has been cut off the first of them
        self.size = 0  # bytes, all together

    def add(self, data: bytes) -> None:
        size = len(data)
        self.size += size
        pieces = self._pieces
        # guard: A8.piece-joining
        if size < _SMALL_BYTES and pieces and len(pieces[-1]) < _JOINED_BYTES:
            last = pieces[-1]
            if not isinstance(last, bytearray):
                pieces[-1] = last = bytearray(last)
            last += data
        elif size:
            pieces.append(data)

    def first(self, count: int) -> bytes:
        """So many of the first octets, or all that there are."""
        begins, at = b"", self._at
        for piece in self._pieces:
            begins += piece[at : at + count - len(begins)]
            if len(begins) == count:
                break
            at = 0
        return begins

    def cut(self, count: int) -> bytes:
        """So many of the first octets, which must be there; the others stay where they are, so
        that many small messages in one large piece are not copied again for each."""
        if self._at + count > len(self._pieces[0]):  # guard: A8.piece-slicing always
            size, whole = self.size, self.take()
            self._pieces, self.size = [whole], size
        first, end = self._pieces[0], self._at + count
        chunk = bytes(first[self._at : end])
        self.size -= count
        self._at = end
        if end == len(first):
            del self._pieces[0]
            self._at = 0
        return chunk

    def part(self, count: int) -> PieceBuffer:
        """So many of the first octets, which must be there, in pieces of their own."""
        part, at, used = PieceBuffer(), self._at, 0
        while part.size < count:
            piece = self._pieces[used]
            data = bytes(piece[at : at + count - part.size])
            part.add(data)
            at += len(data)
            if at == len(piece):
                at, used = 0, used + 1
        del self._pieces[:used]
        self._at = at
        self.size -= count
        return part

    async def take_aside(self) -> bytes:
        """All of them; none are left."""
        if self.size <= LARGE_BYTES:
            return self.take()
        pieces, at = self._pieces, self._at
        self.clear()
        pieces[0] = pieces[0][at:]
        return await joined(pieces)

    def take(self) -> bytes:
        """The same at once."""
        pieces, at = self._pieces, self._at
        self.clear()
        if at:
            pieces[0] = pieces[0][at:]
        if len(pieces) == 1 and isinstance(pieces[0], bytes):
            return pieces[0]
        return b"".join(pieces)

    def clear(self) -> None:
        self._pieces = []
        self._at = self.size = 0
