"""A table of counters in the memory of all workers: by name, what is used and who is inside.

A slot has four numbers for whoever keeps a limit, the time from which nothing of it is worth
knowing, and for each worker how many it has inside: what a worker leaves behind when it dies is
taken out by its number.
"""

from __future__ import annotations

import functools
import hashlib
import struct

from gateway.cluster.workers.memory import Memory, Unshared

COUNT = 32768  # of keys and tenants that are in use within the same minute
_PROBES = 32  # places where a name may be
_KEY_BYTES = 16
_NOBODY = bytes(_KEY_BYTES)
_MOST_KNOWN = 8192
Numbers = tuple[float, float, float, float]


class Slots:
    """Everything here is called with the memory held."""

    def __init__(self, memory: Memory, at: int, workers: int, count: int = COUNT) -> None:
        self._bytes, self._at, self._count = memory.bytes, at, count
        self._workers = workers
        self._head = struct.Struct("=16sd4d")
        self._inside = struct.Struct(f"={workers}i")
        self._size = self._head.size + self._inside.size
        self._known: dict[bytes, int] = {}  # where names were last

    @staticmethod
    def room(workers: int, count: int = COUNT) -> int:
        """Bytes that it takes."""
        return count * (struct.calcsize("=16sd4d") + struct.calcsize(f"={workers}i"))

    def find(self, name: str, now_s: float) -> int:
        """Where it is, or a place for it that nobody needs. Raises Unshared: there is none."""
        key = _key(name)
        at = self._known.get(key, -1)
        if at >= 0 and self._bytes[at : at + _KEY_BYTES] == key:
            return at
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        at = self._known[key] = self._find_slot(key, now_s)
        return at

    def _find_slot(self, key: bytes, now_s: float) -> int:
        first = int.from_bytes(key[:8], "little") % self._count
        free = -1
        for step in range(_PROBES):
            at = self._at + (first + step) % self._count * self._size
            stored = self._bytes[at : at + _KEY_BYTES]
            if stored == key:
                return at
            if free < 0 and (stored == _NOBODY or self._rests(at, now_s)):
                free = at
            if stored == _NOBODY:
                break
        if free < 0:
            raise Unshared("more keys and tenants are in use at once than there is room for")
        self._head.pack_into(self._bytes, free, key, 0.0, 0.0, 0.0, 0.0, 0.0)
        self._inside.pack_into(self._bytes, free + self._head.size, *([0] * self._workers))
        return free

    def numbers(self, at: int) -> Numbers | None:
        """None: nothing has been written there."""
        _, rests_s, a, b, c, d = self._head.unpack_from(self._bytes, at)
        return (a, b, c, d) if rests_s else None

    def write(self, at: int, rests_s: float, numbers: Numbers) -> None:
        key = self._bytes[at : at + _KEY_BYTES]
        self._head.pack_into(self._bytes, at, key, rests_s, *numbers)

    def inside(self, at: int) -> int:
        """Of all workers."""
        return sum(self._inside.unpack_from(self._bytes, at + self._head.size))

    def add(self, at: int, worker: int, calls: int) -> None:
        at += self._head.size + 4 * (worker - 1)
        (before,) = _INT.unpack_from(self._bytes, at)
        _INT.pack_into(self._bytes, at, max(0, before + calls))

    def forget(self, worker: int) -> None:
        """It has died: nothing of it is inside any more."""
        for slot in range(self._count):
            at = self._at + slot * self._size
            if self._bytes[at : at + _KEY_BYTES] != _NOBODY:
                # guard: O5.dead-worker
                _INT.pack_into(self._bytes, at + self._head.size + 4 * (worker - 1), 0)

    def _rests(self, at: int, now_s: float) -> bool:
        _, rests_s, *_ = self._head.unpack_from(self._bytes, at)
        # guard: O5.slot-eviction -> return True
        return bool(now_s >= rests_s) and not self.inside(at)


_INT = struct.Struct("=i")


@functools.lru_cache(4096)
def _key(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=_KEY_BYTES).digest()
