"""One worker: what it has in common with the others, and its line to the parent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable

from gateway.classify.conversations.taint import TaintMarks
from gateway.cluster.workers import OWNER, WorkerPlace
from gateway.cluster.workers.counts import SharedLimitStore
from gateway.cluster.workers.embedded import ParentSupervisor
from gateway.cluster.workers.frames import Frames, Words
from gateway.cluster.workers.marks import SharedMarks
from gateway.cluster.workers.memory import Memory
from gateway.cluster.workers.slots import Slots
from gateway.config import Settings
from gateway.core.deadline import Clock
from gateway.core.types import Quota
from gateway.pipeline.admission import Admission
from gateway.pipeline.rate_limits import RateLimits

_BEAT_S = 1.0


def shared_bytes(settings: Settings, workers: int) -> int:
    """What the memory of all needs room for."""
    return Slots.room(workers) + SharedMarks.room(workers, settings.classify.memory.taints)


class Worker:
    """`stop` is called when the parent is gone."""

    def __init__(self, place: WorkerPlace, settings: Settings, clock: Clock) -> None:
        self.place = place
        self.memory = Memory.attach(place)
        self._clock = clock
        self._settings = settings
        at = self.memory.begins
        self.slots = Slots(self.memory, at, place.count)
        self._limit_store = SharedLimitStore(self.memory, self.slots, place.number, clock)
        keep = settings.classify.memory
        self.marks: TaintMarks = SharedMarks(
            self.memory, at + Slots.room(place.count), place.count, place.number,
            keep.taints, keep.taint_s, clock,
        )  # fmt: skip
        self.keeper = ParentSupervisor(self.send)
        self.restarted: Callable[[], None] = lambda: None
        self.stop: Callable[[], None] = lambda: None
        self._frames = Frames(self._heard, self._gone)

    @property
    def owns(self) -> bool:
        """Whether its queues are those of all."""
        return self.place.number == OWNER

    def admission(self) -> Admission:
        return Admission(self._settings.limits, self._limit_store)

    def limits(self, on_refusal: Callable[[Quota, str], None]) -> RateLimits:
        return RateLimits(self._clock, on_refusal, self._limit_store)

    async def connect(self) -> None:
        """To the parent, by the socket that it left open."""
        os.set_inheritable(self.place.control, False)
        os.set_inheritable(self.place.memory, False)
        line = socket.socket(fileno=self.place.control)
        line.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self._frames, sock=line)

    async def run(self) -> None:
        """Says that it lives, for as long as it does."""
        while True:
            self.send({"beat": self.keeper.answers()})
            await asyncio.sleep(_BEAT_S)

    def send(self, words: Words) -> None:
        with contextlib.suppress(ConnectionError):  # then it is about to stop
            self._frames.send(words)

    def _heard(self, frames: Frames, words: Words) -> None:
        if "embedded" in words:
            self.keeper.on_servers(words["embedded"])
        elif "restarted" in words:
            self.restarted()

    def _gone(self, frames: Frames) -> None:
        self.stop()
