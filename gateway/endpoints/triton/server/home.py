"""What a Triton leaves on disk and in shared memory, and who takes it away."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from gateway.core import ambient


class ServerDirectory:
    """A private directory and a prefix for shared memory, recognisable when their owner is gone.

    The owner holds a lock, which the kernel releases however it ends: so a later server of the same
    user finds what a killed gateway left in /tmp and /dev/shm, and takes it away.
    """

    PREFIX = "spillway-triton-"
    _SETTLED_S = 10.0  # until then its owner may not have locked it yet

    def __init__(self) -> None:
        self._sweep()
        self.path = Path(tempfile.mkdtemp(prefix=self.PREFIX))
        self.shm = f"{self.path.name}-"
        self._lock = (self.path / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        self._remove(self.path)
        self._lock.close()

    @staticmethod
    def free_shared_memory(prefix: str) -> None:
        for segment in Path("/dev/shm").glob(f"{prefix}*"):
            segment.unlink(missing_ok=True)

    @classmethod
    def _remove(cls, path: Path) -> None:
        cls.free_shared_memory(f"{path.name}-")
        shutil.rmtree(path, ignore_errors=True)

    @classmethod
    def _sweep(cls) -> None:
        for path in Path(tempfile.gettempdir()).glob(f"{cls.PREFIX}*"):
            with contextlib.suppress(OSError):  # locked, another user's, or just removed
                status = path.lstat()
                age_s = ambient.wall_s() - status.st_mtime
                if status.st_uid == os.getuid() and age_s > cls._SETTLED_S:
                    with (path / "lock").open("r+") as lock:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        cls._remove(path)
