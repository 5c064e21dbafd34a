"""The queues and servers as they would be had one policy decided every call until now.

The scheduler is the live one's code; who waits, which batch runs where and what is in the cloud are
its own. Everything else is asked of the live gateway when a call comes: which servers are up, how
many calls each takes, how fast they are, what the cloud can take.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gateway.pipeline.shadow import LearnedFigures
from gateway.pipeline.shadow.servers import Borrowed, BorrowedGpu, LiveGpu, VirtualServer
from gateway.pipeline.shadow.timeline import Timeline
from gateway.scheduling.calls import Action, QueuedCall, Refuse, Release, Scheduling, SpillNow
from gateway.scheduling.executions import Key
from gateway.scheduling.queue import QueueConditions, ServerNow
from gateway.scheduling.queues import NewScheduler

# guard: O4.no-door -> Decided = object; from gateway.endpoints.connectors.egress import CloudDoor
Decided = Callable[[Release | SpillNow | Refuse, QueuedCall, float, float], None]
"""What was decided of a call, when, and when its answer will be there if it is on the premises."""


class Elsewhere:
    """How many calls are in the cloud, by endpoint."""

    def __init__(self) -> None:
        self._until_s: dict[str, list[float]] = {}

    def enters(self, endpoint: str, until_s: float) -> None:
        heapq.heappush(self._until_s.setdefault(endpoint, []), until_s)

    def room(self, capacity: Mapping[str, int], now_s: float) -> dict[str, int]:
        """What each endpoint takes beside those that are there."""
        # guard: O4.own-cloud-load max(0, most - self._there(name, now_s)) -> most
        return {name: max(0, most - self._there(name, now_s)) for name, most in capacity.items()}

    def _there(self, endpoint: str, now_s: float) -> int:
        until_s = self._until_s.get(endpoint)
        if until_s is None:
            return 0
        while until_s and until_s[0] <= now_s:
            heapq.heappop(until_s)
        return len(until_s)


@dataclass(slots=True)
class _ShadowQueue:
    scheduling: Scheduling
    servers: dict[str, VirtualServer]
    shared: Sequence[str]
    capacity: Mapping[str, int] = field(default_factory=dict)  # of the cloud
    known: dict[str, ServerNow] = field(default_factory=dict)
    armed_s: float = math.inf  # the timer that runs


class ShadowWorld:
    def __init__(
        self, figures: LearnedFigures, new_scheduler: NewScheduler, decided: Decided
    ) -> None:
        self._figures = figures
        self._new_scheduler = new_scheduler
        self._decided = decided
        self._changes = figures.changes
        self.elsewhere = Elsewhere()
        self.time = Timeline()
        self._queues: dict[Key, _ShadowQueue] = {}
        self._gpus: dict[str, BorrowedGpu] = {}
        self._on_gpu: dict[str, list[_ShadowQueue]] = {}  # by their numbers there

    @property
    def outdated(self) -> bool:
        """The live queues are not any more what these were made like."""
        return self._figures.changes != self._changes

    def waiting(self) -> dict[str, int]:
        """Calls in the queues, by model."""
        counts: dict[str, int] = {}
        for (model, _), queue in self._queues.items():
            counts[model] = counts.get(model, 0) + queue.scheduling.waiting
        return counts

    def enter(
        self,
        key: Key,
        call: QueuedCall,
        around: QueueConditions,
        capacity: Mapping[str, int],
        now_s: float,
    ) -> None:
        queue = self._looked(key, around, capacity, now_s)
        self._happens(queue, partial(queue.scheduling.arrive, call), now_s)

    def would(
        self,
        key: Key,
        call: QueuedCall,
        around: QueueConditions,
        capacity: Mapping[str, int],
        now_s: float,
    ) -> SpillNow | Refuse | None:
        """What would happen at once to a call that entered now; None: it stays."""
        queue = self._looked(key, around, capacity, now_s)
        queue.scheduling.limits.cloud_room = self._room(queue, now_s)
        return queue.scheduling.would(call, now_s)

    def withdraw(self, key: Key, call: QueuedCall, now_s: float) -> None:
        """Of a call that waits or is with a server: nothing more will be decided of it."""
        queue = self._queues.get(key)
        if queue is not None:
            self._happens(queue, partial(queue.scheduling.cancelled, call.id), now_s)

    # The queues

    def _looked(
        self, key: Key, around: QueueConditions, capacity: Mapping[str, int], now_s: float
    ) -> _ShadowQueue:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = self._new(key, now_s)
        queue.capacity = capacity
        for server in queue.servers.values():
            server.batches.renew()
        self._refresh(queue, around.servers, now_s)
        return queue

    def _new(self, key: Key, now_s: float) -> _ShadowQueue:
        _, names = key
        layout = self._figures.executions.layout(key)
        models = {name: Borrowed(self._figures.batch_model(key, name)) for name in names}
        gpus = {name: self._gpu(name) for name in layout.shared}
        scheduling = self._new_scheduler(models, layout.rows, not layout.alone, gpus)
        for name, instances in layout.instances.items():
            scheduling.grow(name, instances, now_s)
        servers = {n: VirtualServer(model, layout.instances[n]) for n, model in models.items()}
        queue = _ShadowQueue(scheduling, servers, layout.shared)
        for name in layout.shared:
            self._on_gpu.setdefault(name, []).append(queue)
        return queue

    def _gpu(self, server: str) -> BorrowedGpu:
        gpu = self._gpus.get(server)
        if gpu is None:
            live = LiveGpu(server, self._figures.gpus.takes_turns)
            gpu = self._gpus[server] = BorrowedGpu(live=live)
        return gpu

    def _refresh(self, queue: _ShadowQueue, servers: Iterable[ServerNow], now_s: float) -> None:
        scheduling = queue.scheduling
        for server in servers:
            known = queue.known.get(server.name)
            if known == server:
                continue
            queue.known[server.name] = server
            if known is None or known.most != server.most:
                self._happens(queue, partial(scheduling.limit, server.name, server.most), now_s)
            if known is None or known.up != server.up:
                self._happens(queue, partial(scheduling.mark_up, server.name, server.up), now_s)

    def _happens(
        self, queue: _ShadowQueue, event: Callable[[float], list[Action]], now_s: float
    ) -> None:
        queue.scheduling.limits.cloud_room = self._room(queue, now_s)
        for action in event(now_s):
            if isinstance(action, Release):
                self._send(queue, action, now_s)
            else:
                self._decided(action, action.call, now_s, math.inf)
        self._arm(queue, now_s)
        self._pass_on(queue.shared)

    def _room(self, queue: _ShadowQueue, now_s: float) -> float:
        return sum(self.elsewhere.room(queue.capacity, now_s).values())

    def _send(self, queue: _ShadowQueue, batch: Release, now_s: float) -> None:
        server = queue.servers[batch.server]
        end_s = server.ends_s(sum(call.work for call in batch.calls), now_s)
        self.time.at(end_s, partial(self._answered, queue, batch))
        for call in batch.calls:
            self._decided(batch, call, now_s, end_s)
            if call.deadline_s < end_s:
                self.time.at(call.deadline_s, partial(self._expires, queue, call))

    def _expires(self, queue: _ShadowQueue, call: QueuedCall, now_s: float) -> None:
        """With a server, which goes on with its batch."""
        self._happens(queue, partial(queue.scheduling.ended, call.id, False), now_s)

    def _answered(self, queue: _ShadowQueue, batch: Release, now_s: float) -> None:
        def ended(at_s: float) -> list[Action]:
            notify = queue.scheduling.ended
            return [action for call in batch.calls for action in notify(call.id, True, at_s)]

        self._happens(queue, ended, now_s)

    def _arm(self, queue: _ShadowQueue, now_s: float) -> None:
        wake_s = max(queue.scheduling.wake_s, now_s)
        if wake_s < queue.armed_s:  # a later one is set when this has gone off
            queue.armed_s = wake_s
            self.time.at(wake_s, partial(self._wake, queue, wake_s))

    def _wake(self, queue: _ShadowQueue, meant_s: float, now_s: float) -> None:
        if meant_s != queue.armed_s:
            return
        queue.armed_s = math.inf
        if queue.scheduling.wake_s <= now_s:
            self._happens(queue, queue.scheduling.tick, now_s)
        else:
            self._arm(queue, now_s)

    def _pass_on(self, servers: Sequence[str]) -> None:
        """Where models of a server take turns, the next one is told."""
        for name in servers:
            turn = self._gpus[name].whose_turn()
            if turn is not None:
                queue = self._on_gpu[name][turn]
                self.time.at(self.time.now_s, partial(self._happens, queue, queue.scheduling.tick))
