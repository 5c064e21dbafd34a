"""What was restricted, marked for all workers: the next turn of a conversation comes to any.

Marks are digests under a key of these processes. A mark has a few places where it may be; the
oldest makes room, and fades (`gateway.classify.conversations.faded`). Tenants are known by a part
of a digest: two of one part look too much and never too little. A mark that cannot be written
leaves everybody in doubt until it is written, which is tried again once a second.
"""

from __future__ import annotations

import functools
import hashlib
import struct

from gateway.classify.conversations.faded import NOT_MARKED, Faded
from gateway.cluster.workers.memory import Memory, Unshared
from gateway.core.deadline import Clock

_WAYS = 8
_TENANTS = 4096
_STANDING = 12  # the bit from which on a tenant's place is followed by what is known of a mark
_MARK = struct.Struct("=8sHd")  # a digest, a tenant's place and its standing, when it is over
_SET = struct.Struct("=" + "8sHd" * _WAYS)
_FIELDS = 3  # of a mark
_MOMENT = struct.Struct("=d")
_DIGEST_BYTES = 8
_MOST_UNWRITTEN = 1024  # that are tried again; what is beyond them leaves a doubt until it is over
_TRY_AGAIN_S = 1.0


class SharedMarks:
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
        after = self._marks + self._sets * _WAYS * _MARK.size
        self._faded = Faded(memory.bytes, after, room, keep_s, clock)
        self._waiting: dict[tuple[str, bytes], tuple[int, float]] = {}  # to be written
        # guard: C18.doubt-persists -> self._lost_until_s = 0.0
        self._lost_until_s = self._moment(self._own)  # of the worker that had this number before
        self._again_s = 0.0

    @staticmethod
    def room(workers: int, marks: int) -> int:
        """Bytes that it takes."""
        exact = _sets(marks) * _WAYS * _MARK.size
        return 8 * workers + 16 * _TENANTS + exact + Faded.size(marks)

    def holds_any(self, tenant: str) -> bool:
        until_s = self._moment(self._held + 8 * _place(tenant))
        return until_s > self._clock() or self._has_faded(tenant)

    def get(self, tenant: str, key: bytes) -> int:
        marks = _SET.unpack_from(self._bytes, self._set(key))
        digests = marks[::_FIELDS]
        if key in digests:
            now_s, until_s = self._clock(), marks[2::_FIELDS]
            for slot, digest in enumerate(digests):
                if digest == key and until_s[slot] > now_s:
                    return int(marks[_FIELDS * slot + 1]) >> _STANDING
        return self._faded.get(key) if self._has_faded(tenant) else NOT_MARKED

    def put(self, tenant: str, key: bytes, standing: int) -> None:
        """Raises nothing: what cannot be written is left in doubt here."""
        until_s = self._clock() + self._keep_s
        try:
            with self._memory:
                self._write(_place(tenant), key, standing, until_s)
                self._write_waiting()
        except Unshared:  # its own place, which nobody else writes
            _MOMENT.pack_into(self._bytes, self._own, until_s)  # guard: O5.unwritten-mark
            self._again_s = self._clock() + _TRY_AGAIN_S
            before = self._waiting.get((tenant, key), (NOT_MARKED, 0.0))[0]
            if len(self._waiting) < _MOST_UNWRITTEN or before:
                self._waiting[tenant, key] = (max(standing, before), until_s)
            else:
                self._lost_until_s = until_s

    @property
    def key(self) -> bytes:
        return self._memory.key

    def doubtful_until_s(self, tenant: str) -> float:
        if self._waiting and self._clock() >= self._again_s:
            self._try_again()
        everybody: tuple[float, ...] = self._unwritten.unpack_from(self._bytes, self._everybody)
        return max(everybody)

    def _moment(self, at: int) -> float:
        return float(_MOMENT.unpack_from(self._bytes, at)[0])

    def _has_faded(self, tenant: str) -> bool:
        return self._moment(self._doubts + 8 * _place(tenant)) > self._clock()

    def _try_again(self) -> None:
        try:
            with self._memory:
                self._write_waiting()
        except Unshared:
            self._again_s = self._clock() + _TRY_AGAIN_S

    def _write_waiting(self) -> None:
        """Within the lock. Ends the doubt, but for what could not even wait."""
        if not self._waiting:
            return
        for (tenant, key), (standing, until_s) in self._waiting.items():
            self._write(_place(tenant), key, standing, until_s)
        self._waiting.clear()
        _MOMENT.pack_into(self._bytes, self._own, self._lost_until_s)  # guard: C18.lost-mark

    def _write(self, tenant: int, key: bytes, standing: int, until_s: float) -> None:
        at, now_s = self._place_for(key), self._clock()
        lost, stored_key, good_s = _MARK.unpack_from(self._bytes, at)
        if good_s > now_s:
            if lost == key:
                standing = max(standing, stored_key >> _STANDING)  # guard: C18.shared-precedence
            else:
                faded_s = self._faded.add(lost, good_s)  # guard: O5.evicted-mark -> faded_s = 0.0
                self._raise(self._doubts + 8 * (stored_key % _TENANTS), faded_s)
        _MARK.pack_into(self._bytes, at, key, tenant | standing << _STANDING, until_s)
        self._raise(self._held + 8 * tenant, until_s)

    def _place_for(self, key: bytes) -> int:
        """Where it is, or else the oldest of its places."""
        at = self._set(key)
        marks = _SET.unpack_from(self._bytes, at)
        digests, until_s = marks[::_FIELDS], marks[2::_FIELDS]
        slot = digests.index(key) if key in digests else until_s.index(min(until_s))
        return at + slot * _MARK.size

    def _raise(self, at: int, until_s: float) -> None:
        if self._moment(at) < until_s:
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
