"""Marks that lost their place in the exact memory, kept as a few bits each until they are over.

Bloom filters, one for each quarter of the time that a mark counts. A mark is never lost; what was
never marked is taken for marked once in a million look-ups while a filter holds no more than it was
made for, and more often beyond that. A filter is emptied when all of its marks are over.
"""

from __future__ import annotations

import math
import mmap
import struct

from gateway.core.deadline import Clock

NOT_MARKED, DOUBTFUL, MASKABLE, STAYS = range(4)
"""What is known of a beginning: nothing; that it may be marked; that it holds what may leave as
surrogates alone; that it stays. The larger wins."""
_PARTS = 4  # of the time that a mark counts
_FILTERS = _PARTS + 1  # that hold marks at once
_TIMES_ROOM = 4  # marks that one filter is made for, per mark of the exact memory
_BITS = 32  # per mark
_PROBES = 12
_LEAST_ROOM = 1024
_HEAD = struct.Struct("=qq")  # the quarter that a filter is for, and how many marks are in it


class Faded:
    """In `memory` from `at` on. Whoever shares it holds a lock around `add`, and none around
    `get`."""

    def __init__(
        self, memory: bytearray | mmap.mmap, at: int, room: int, keep_s: float, clock: Clock
    ) -> None:
        """`room`: marks of the exact memory; `keep_s`: seconds for which a mark counts."""
        self._memory, self._at, self._clock = memory, at, clock
        self._part_s = keep_s / _PARTS
        self._room = _made_for(room)
        self._bytes = self._room * _BITS // 8

    @staticmethod
    def size(room: int) -> int:
        """Bytes that it takes."""
        return _FILTERS * (_HEAD.size + _made_for(room) * _BITS // 8)

    def add(self, digest: bytes, expires_s: float) -> float:
        """Keep a mark at least until then; returns until when, a quarter longer at the most."""
        quarter = math.floor(expires_s / self._part_s) + 1
        head = self._head(quarter % _FILTERS)
        holds, count = _HEAD.unpack_from(self._memory, head)
        begin = head + _HEAD.size
        if holds != quarter:
            _HEAD.pack_into(self._memory, head, 0, 0)
            # guard: C18.filter-reset
            self._memory[begin : begin + self._bytes] = bytes(self._bytes)
            count = 0
        fresh = False
        for bit in self._probes(digest):
            place, mask = begin + (bit >> 3), 1 << (bit & 7)
            before = self._memory[place]
            if not before & mask:
                self._memory[place] = before | mask
                fresh = True
        _HEAD.pack_into(self._memory, head, quarter, count + fresh)
        return quarter * self._part_s

    def get(self, digest: bytes) -> int:
        """STAYS for a mark, DOUBTFUL where its filter holds more than it was made for."""
        now_s, standing = self._clock(), NOT_MARKED
        probes: list[int] = []
        for number in range(_FILTERS):
            head = self._head(number)
            quarter, count = _HEAD.unpack_from(self._memory, head)
            if not count or quarter * self._part_s <= now_s:
                continue
            probes = probes or self._probes(digest)
            begin = head + _HEAD.size
            for bit in probes:
                if not self._memory[begin + (bit >> 3)] & (1 << (bit & 7)):
                    break
            else:
                standing = max(standing, STAYS if count <= self._room else DOUBTFUL)
        return standing

    def _head(self, number: int) -> int:
        return self._at + number * (_HEAD.size + self._bytes)

    def _probes(self, digest: bytes) -> list[int]:
        low, high = struct.unpack("<II", digest[:8])
        bits = self._bytes * 8
        return [(low + probe * (high | 1)) % bits for probe in range(_PROBES)]


def _made_for(room: int) -> int:
    return max(_LEAST_ROOM, _TIMES_ROOM * room)
