"""The GPUs that the servers of a group have together with other models."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping

from gateway.scheduling.estimates.demand import WaitStretch
from gateway.scheduling.servers.instance import ServerStatus
from gateway.scheduling.servers.sharing import SharedGpu


class GpuShares:
    def __init__(self, statuses: Mapping[str, ServerStatus], gpus: Mapping[str, SharedGpu]) -> None:
        """`gpus`: by server, those that have other models as well, or may have."""
        self._statuses = statuses
        self._joined = tuple(gpus)
        self.possible = bool(gpus)
        """Whether any has other models as well, or may have."""
        for name, gpu in gpus.items():
            statuses[name].gpu, statuses[name].number = gpu, gpu.join()
        self._first = next(iter(statuses.values()))
        self.demand = self._first.gpu.demand
        """By which the worth of calls is classed: that of the first server's GPU."""

    @property
    def shared(self) -> bool:
        return self.possible and any(s.gpu.shared for s in self._statuses.values())

    @property
    def in_turns(self) -> bool:
        """Whether the models of the first server take turns."""
        return self._first.gpu.turns and self._first.up

    def stretch(self, reserve: float, margin: float, now_s: float) -> WaitStretch:
        """By the arrivals of all of these."""
        return self._first.gpu.stretch(reserve, margin, now_s)

    def observe_demand(self, density: float, gpu_s: float, now_s: float, memory_s: float) -> None:
        """A call came that is worth so much per second: to each server its share of them."""
        up = [status for status in self._statuses.values() if status.up]
        for status in up:
            if status.gpu.shared:
                share_s = gpu_s / len(up)
                status.gpu.observe_demand(status.number, density, share_s, now_s, memory_s)

    def want(self, due_s: float, servers: Container[str]) -> None:
        """The first call that waits is due then, and may be sent to these servers."""
        for name, status in self._statuses.items():
            if status.gpu.shared:
                status.gpu.wants(status.number, due_s if name in servers else math.inf)

    def retire(self, now_s: float) -> None:
        """Nothing more will be sent by these: the other models of their GPUs need not wait."""
        for status in self._statuses.values():
            status.gpu.wants(status.number, math.inf)
            status.gpu.idle(status.number, now_s)

    def leave(self) -> None:
        """Give the numbers on the GPUs back: the next to join each gets the same."""
        joined, self._joined = self._joined, ()
        for name in joined:
            status = self._statuses[name]
            status.gpu.leave(status.number)
