"""The servers of one group, with all calls that they have."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from typing import Final

from gateway.scheduling.calls import QueuedCall
from gateway.scheduling.estimates.batches import BatchModel
from gateway.scheduling.servers.gpu_shares import GpuShares
from gateway.scheduling.servers.instance import Instance, ServerStatus
from gateway.scheduling.servers.sharing import SharedGpu

_NONE: Final = 1 << 30


class Servers:
    def __init__(
        self,
        models: Mapping[str, BatchModel],
        gpus: Mapping[str, SharedGpu] | None = None,
        round_trip_s: float = 0.0,
    ) -> None:
        """`gpus`: those that have other models as well."""
        self._statuses = {name: ServerStatus(round_trip_s=round_trip_s) for name in models}
        self.gpus = GpuShares(self._statuses, gpus or {})
        self._instances: list[Instance] = []
        for name, model in models.items():
            self._add(name, model)
        self._with: dict[int | str, Instance] = {}
        self._find_up()

    def _add(self, name: str, model: BatchModel) -> None:
        """One more instance; an idle one."""
        status, number = self._statuses[name], len(self._instances)
        self._instances.append(Instance(number, name, model, status))
        heapq.heappush(status.idle, number)

    @property
    def first_model(self) -> BatchModel:
        """What a call's share of a batch is reckoned with, wherever it will be."""
        return self._instances[0].model

    def model(self, name: str) -> BatchModel:
        """What is known of a server's time."""
        return next(i.model for i in self._instances if i.server == name)

    def mark_up(self, name: str, up: bool) -> None:
        """A server that goes down gets no more batches; the calls that it has stay its own until
        they are told of."""
        self._statuses[name].up = up
        if up:
            for instance in self._instances:
                if instance.server == name:
                    instance.model.as_usual()
        self._find_up()

    def grow(self, name: str, instances: int) -> None:
        """So many of a server's instances execute batches side by side. It only grows."""
        own = [i for i in self._instances if i.server == name]
        for _ in range(instances - len(own)):
            self._add(name, own[0].model)
        self._find_up()

    def limit(self, name: str, calls: float) -> None:
        self._statuses[name].most = calls

    def in_flight(self, name: str) -> int:
        """Calls that were released to a server and have not ended."""
        return self._statuses[name].in_flight

    def send(self, instance: Instance, calls: tuple[QueuedCall, ...], now_s: float) -> None:
        instance.send(calls, now_s)
        sent = self._with
        for call in calls:
            sent[call.id] = instance

    def adopt(self, name: str, call: QueuedCall, now_s: float) -> None:
        """A server has this call already."""
        busy = [i for i in self._instances if i.server == name]
        self.send(min(busy, key=lambda i: len(i.bursts)), (call,), now_s)

    def ended(self, call_id: int | str, now_s: float, answered: bool) -> bool:
        """A call ended, with a server or anywhere else. True: a batch has ended with it."""
        # guard: A2.single-release -> instance = self._with.get(call_id)
        instance = self._with.pop(call_id, None)
        return instance is not None and instance.ended(call_id, now_s, answered)

    def idle(self) -> Instance | None:
        """The first of those that could begin a batch now, if no other model has its turn."""
        status = self._only_up
        if status is not None:
            if not status.idle or (status.gpu.shared and not status.alone):
                return None
            return self._instances[status.idle[0]]
        count = _NONE
        for status in self._statuses_up:
            if not status.alone:
                return None
            if status.idle and status.idle[0] < count:
                count = status.idle[0]
        return None if count == _NONE else self._instances[count]

    def send_at_once(
        self, call: QueuedCall, idle: Instance, now_s: float, ahead: bool
    ) -> Instance | None:
        """Send a call that meets nobody, where `idle` has found an instance: to the first to end a
        batch of one. None where batches that are sent `ahead` may stand before it, or no server
        takes another call."""
        status, instance = self._only_up, idle
        if status is None:
            first = self._first_to_end(now_s, ahead)
            if first is None:
                return None
            instance = first
        # guard: S4.express-ahead minus 1
        elif (ahead and status.running) or status.most - status.in_flight < 1.0:
            return None
        instance.send_one(call, now_s)
        self._with[call.id] = instance
        return instance

    def _first_to_end(self, now_s: float, ahead: bool) -> Instance | None:
        best, least_s = None, math.inf
        for status in self._statuses_up:
            if ahead and status.running:  # guard: S4.express-ahead
                return None
            if status.idle and status.most - status.in_flight >= 1.0:
                instance = self._instances[status.idle[0]]
                end_s = now_s + instance.model.predict_s(1.0)
                first = best is None or instance.number < best.number
                if end_s < least_s or (end_s == least_s and first):
                    best, least_s = instance, end_s
        return best

    def start_s(self, now_s: float) -> float:
        """When the next batch could begin; inf: no server is up."""
        up = self.up
        if len(up) == 1:
            return up[0].free_s(now_s)
        if self.idle() is not None:
            return now_s
        return min((instance.free_s(now_s) for instance in up), default=math.inf)

    def least_s(self, work: float, now_s: float) -> float:
        """What a batch takes for certain, at the fastest that is up, or was."""
        return min(instance.least_s(work, now_s) for instance in self.up or self._instances)

    def _find_up(self) -> None:
        self.up = [i for i in self._instances if i.status.up]
        self._statuses_up = [s for s in self._statuses.values() if s.up]
        self._only_up = self._statuses_up[0] if len(self._statuses_up) == 1 else None
