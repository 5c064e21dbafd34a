"""What was restricted, marked for all workers: the next turn of a conversation comes to any.

Marks are digests under a key of these processes. A mark has a few places where it may be; the
oldest makes room, and leaves a doubt for its tenant behind (`gateway.classify.taint`). Tenants are
known by a part of a digest: two of one part doubt, and look, too much and never too little. A mark
that cannot be written leaves everybody in doubt.
"""

from __future__ import annotations

import functools
import hashlib
import struct

from gateway.deadline import Clock
from gateway.workers.memory import Memory, Unshared

_WAYS = 8
_TENANTS = 4096
_MARK = struct.Struct("=8sHd")  # a digest, a tenant's place, when it is over
_SET = struct.Struct("=" + "8sHd" * _WAYS)
_FIELDS = 3  # of a mark
_MOMENT = struct.Struct("=d")
_DIGEST_BYTES = 8


class Marks:
    """For `Taint`, in place of its own shelves: no mark is ever had by one worker alone."""

    def __init__(
        self, memory: Memory, at: int, workers: int, worker: int, room: int, keep_s: float,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._memory, self._bytes = memory, memory.bytes
        self._keep_s, self._clock = keep_s, clock
        self._unwritten = struct.Struct(f"={workers}d")
        self._everybody, self._own = at, at + 8 * (worker - 1)
        self._held = at + self._unwritten.size  # by tenant: until when there is any mark of it
        self._doubts = self._held + 8 * _TENANTS
        self._marks = self._doubts + 8 * _TENANTS
        self._sets = _sets(room)

    @staticmethod
    def room(workers: int, marks: int) -> int:
        """Bytes that it takes."""
        return 8 * workers + 16 * _TENANTS + _sets(marks) * _WAYS * _MARK.size

    def holds_any(self, tenant: str) -> bool:
        (until_s,) = _MOMENT.unpack_from(self._bytes, self._held + 8 * _place(tenant))
        return bool(until_s > self._clock())

    def get(self, tenant: str, key: bytes) -> bool | None:
        marks = _SET.unpack_from(self._bytes, self._set(key))
        digests = marks[::_FIELDS]
        if key not in digests:  # as mostly
            return None
        now_s, until_s = self._clock(), marks[2::_FIELDS]
        for way, digest in enumerate(digests):
            if digest == key and until_s[way] > now_s:
                return True
        return None

    def put(self, tenant: str, key: bytes) -> None:
        """Raises nothing: what is lost for it, or cannot be kept, is left in doubt here."""
        until_s = self._clock() + self._keep_s
        try:
            with self._memory:
                self._write(_place(tenant), key, until_s)
        except Unshared:  # its own place, which nobody else writes
            _MOMENT.pack_into(self._bytes, self._own, until_s)

    @property
    def key(self) -> bytes:
        return self._memory.key

    def doubtful_until_s(self, tenant: str) -> float:
        (until_s,) = _MOMENT.unpack_from(self._bytes, self._doubts + 8 * _place(tenant))
        everybody: tuple[float, ...] = self._unwritten.unpack_from(self._bytes, self._everybody)
        return float(max(until_s, *everybody))

    def _write(self, tenant: int, key: bytes, until_s: float) -> None:
        at = self._place_for(key)
        lost, of, good_s = _MARK.unpack_from(self._bytes, at)
        if lost != key and good_s > self._clock():
            self._raise(self._doubts + 8 * of, good_s)
        _MARK.pack_into(self._bytes, at, key, tenant, until_s)
        self._raise(self._held + 8 * tenant, until_s)

    def _place_for(self, key: bytes) -> int:
        """Where it is, or else the oldest of its places."""
        at = self._set(key)
        marks = _SET.unpack_from(self._bytes, at)
        digests, until_s = marks[::_FIELDS], marks[2::_FIELDS]
        way = digests.index(key) if key in digests else until_s.index(min(until_s))
        return at + way * _MARK.size

    def _raise(self, at: int, until_s: float) -> None:
        if _MOMENT.unpack_from(self._bytes, at)[0] < until_s:
            _MOMENT.pack_into(self._bytes, at, until_s)

    def _set(self, key: bytes) -> int:
        return self._marks + int.from_bytes(key, "little") % self._sets * _WAYS * _MARK.size


def _sets(room: int) -> int:
    """For twice as many, as not all sets are filled alike."""
    return max(1, -(-2 * room // _WAYS))


@functools.lru_cache(4096)
def _place(tenant: str) -> int:
    digest = hashlib.blake2b(tenant.encode(), digest_size=_DIGEST_BYTES).digest()
    return int.from_bytes(digest, "little") % _TENANTS
