"""Several workers in one process: views of one memory, each with its own number."""

from __future__ import annotations

import subprocess
import sys

from gateway.cluster.workers.counts import SharedLimitStore
from gateway.cluster.workers.marks import SharedMarks
from gateway.cluster.workers.memory import Memory
from gateway.cluster.workers.slots import Slots
from gateway.config import LimitSettings
from gateway.core.deadline import Deadline
from gateway.core.operations.chat import CHAT
from gateway.core.types import DocumentCall, InferenceRequest, Quota, WireProtocol
from gateway.pipeline.admission import Admission
from gateway.pipeline.rate_limits import RateLimits
from tests.unit.spill.clock import HandClock

WORKERS = 3
_HOLD = """
import fcntl, sys
fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def request(tenant: str = "acme", *quotas: Quota, call_id: str = "id") -> InferenceRequest:
    return InferenceRequest(
        id=call_id, protocol=WireProtocol.OPENAI, tenant=tenant, model="m",
        payload=DocumentCall(CHAT, {"model": "m", "max_tokens": 99}),
        deadline=Deadline(1e9, lambda: 0.0), quotas=quotas,
    )  # fmt: skip


class Machine:
    def __init__(self, slots: int = 64, marks: int = 64, keep_s: float = 60.0) -> None:
        self.times = HandClock()
        size = Slots.room(WORKERS, slots) + SharedMarks.room(WORKERS, marks)
        self.memory = Memory.new(size)
        self._slots, self._marks, self._keep_s = slots, marks, keep_s

    def slots(self) -> Slots:
        return Slots(self.memory, self.memory.begins, WORKERS, self._slots)

    def limits(self, worker: int) -> RateLimits:
        return RateLimits(self.times, store=self.limit_store(worker))

    def admission(self, worker: int, **limits: int) -> Admission:
        return Admission(LimitSettings(**limits), self.limit_store(worker))

    def limit_store(self, worker: int) -> SharedLimitStore:
        return SharedLimitStore(self.memory, self.slots(), worker, self.times)

    def marks(self, worker: int) -> SharedMarks:
        at = self.memory.begins + Slots.room(WORKERS, self._slots)
        return SharedMarks(self.memory, at, WORKERS, worker, self._marks, self._keep_s, self.times)

    def held_elsewhere(self) -> subprocess.Popen[bytes]:
        """By a process that has stopped with it, however long the test takes; it lets go when it is
        killed."""
        fd = self.memory.fd
        process = subprocess.Popen(
            [sys.executable, "-c", _HOLD, str(fd)],
            pass_fds=[fd],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        return process

    def close(self) -> None:
        self.memory.close()
