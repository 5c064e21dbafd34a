"""Memory that all workers see, and one lock over it.

The lock is one of fcntl(2): the system lets go of it when a worker dies with it, and a process that
one forks has no part in it. It is held for microseconds, on the loop; a worker that was stopped
with it must not stop the others, so they do not wait for long: what cannot be known is answered as
if it were at its worst (`Unshared`).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time

from gateway.cluster.workers import WorkerPlace
from gateway.core import ambient

_PATIENCE_S = 0.05
_PAUSE_S = 0.0002
_KEY_BYTES = 32
_AT = struct.Struct("=32sq")  # a key that only these processes know; workers that died
_PAGE = 4096


class Unshared(Exception):
    """What the workers have in common cannot be read or written now."""


class Memory:
    """Held within `with`, which raises Unshared."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.bytes = mmap.mmap(fd, os.fstat(fd).st_size)

    @classmethod
    def new(cls, size: int) -> Memory:
        """For the parent. Raises OSError."""
        fd = os.memfd_create("spillway-workers")  # not passed on unless asked for
        os.ftruncate(fd, _PAGE + size)
        memory = cls(fd)
        _AT.pack_into(memory.bytes, 0, ambient.random_bytes(_KEY_BYTES), 0)
        return memory

    @classmethod
    def attach(cls, place: WorkerPlace) -> Memory:
        return cls(place.memory)

    @property
    def fd(self) -> int:
        return self._fd

    @property
    def begins(self) -> int:
        """Where there is room for what is shared."""
        return _PAGE

    @property
    def key(self) -> bytes:
        key: bytes = _AT.unpack_from(self.bytes, 0)[0]
        return key

    @property
    def restarts(self) -> int:
        """Of workers; the parent alone counts."""
        restarts: int = _AT.unpack_from(self.bytes, 0)[1]
        return restarts

    def count_restart(self) -> None:
        _AT.pack_into(self.bytes, 0, self.key, self.restarts + 1)

    def __enter__(self) -> None:
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._wait()

    def __exit__(self, *_: object) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def _wait(self) -> None:
        until_s = ambient.monotonic_s() + _PATIENCE_S
        while True:
            time.sleep(_PAUSE_S)
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if ambient.monotonic_s() >= until_s:
                    # guard: O5.uncountable-refusal -> return
                    raise Unshared("another worker has stopped with it") from None

    def close(self) -> None:
        self.bytes.close()
        os.close(self._fd)
