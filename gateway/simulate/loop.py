"""The event loop: calls arrive, batches end, clouds answer, the scheduler's timer goes off.

It drives the gateway's own scheduler on a virtual clock. With several gateways one of them owns the
servers of the model and decides; the others forward to it, which costs a hop each way.

Where the cloud has a limit or fails, an attempt there may come to nothing. The call then goes where
`gateway.pipeline.dispatcher` would send it: back into the queue as one that does not leave again,
while it has a try left, a second try is in hand and a server could still make it.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

import numpy as np
from numpy.typing import NDArray

from gateway.core.errors import DeadlineExceeded
from gateway.scheduling.calls import (
    Action,
    CloudPermission,
    QueuedCall,
    Release,
    Scheduling,
    SpillNow,
)
from gateway.scheduling.estimates.latency import CloudLatency
from gateway.simulate.modelled_cloud import Ending, ModelledCloud
from gateway.simulate.workload import Floats, Workload

WAITING, ONPREM, CLOUD, REFUSED, FAILED = range(5)
_REFRESH_S = 0.05  # as the live queue: the cloud opens and closes without a call ending

_Event = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class SimulatedWorld:
    """What the modelled servers and networks do that the scheduler is not told of."""

    network_s: float = 0.0  # one way from the owner to a server
    batch_spread: float = 0.0  # sigma of a lognormal factor on a batch's time
    gateways: int = 1
    hop_s: float = 0.0005  # one way between two gateways
    aging_s: float = 10.0  # by which a step of priority sets a call back
    seed: int = 0


@dataclass(slots=True)
class VirtualClock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(slots=True)
class _ModelServer:
    busy: int = 0  # places that execute
    queue: deque[tuple[tuple[int, ...], float]] = field(default_factory=deque)  # and when sent


@dataclass(frozen=True, slots=True)
class SimulatedOutcome:
    """How every call ended; `done_s` is inf for one that was not answered."""

    place: NDArray[np.int64]
    done_s: Floats
    batches: int
    busy_s: float
    span_s: float


class Simulation:
    def __init__(
        self,
        calls: Workload,
        scheduler: Scheduling,
        servers: Sequence[str],
        cloud: CloudLatency,
        world: SimulatedWorld | None = None,
        modelled: ModelledCloud | None = None,
        clock: VirtualClock | None = None,
    ) -> None:
        """Without `modelled` the cloud takes every call and answers it."""
        self._workload = calls
        self._scheduler = scheduler
        self._world = world = world or SimulatedWorld()
        self._rng = np.random.default_rng(world.seed)
        self._servers = {name: _ModelServer() for name in servers}
        self._slots = calls.mode.max_batch if calls.mode.alone else 1
        self._cloud = cloud
        self._modelled = modelled
        self._clock = clock or VirtualClock()
        self._looks = False
        self._tried = [0] * len(calls)  # attempts that went out and failed
        self._events: list[tuple[float, int, _Event]] = []
        self._order = count()
        self._timer_s = math.inf
        self._batches = 0
        self._busy_s = 0.0
        n = len(calls)
        self._work: list[float] = calls.work.tolist()
        self._cloud_s: list[float] = calls.cloud_s.tolist()
        entry = self._rng.integers(world.gateways, size=n)
        self._hop_s: list[float] = np.where(entry > 0, world.hop_s, 0.0).tolist()
        self._place = [WAITING] * n
        self._done_s = [math.inf] * n

    def run(self, report: Callable[[float], None] | None = None) -> SimulatedOutcome:
        """`report` hears the share of the calls that have arrived, now and then."""
        arrivals = sorted(self._calls(), key=lambda arrival: arrival[0])
        at, n, now_s = 0, len(arrivals), 0.0
        every = max(1, n // 20)
        while at < n or self._events:
            if at < n and (not self._events or arrivals[at][0] <= self._events[0][0]):
                now_s, call = arrivals[at]
                self._refresh(now_s)
                self._arrives(call, now_s)
                at += 1
                if report is not None and at % every == 0:
                    report(at / n)
            else:
                now_s, _, event = heapq.heappop(self._events)
                self._refresh(now_s)
                event(now_s)
            self._set_timer(now_s)
        return SimulatedOutcome(
            place=np.array(self._place),
            done_s=np.array(self._done_s),
            batches=self._batches,
            busy_s=self._busy_s,
            span_s=now_s,
        )

    def _calls(self) -> list[tuple[float, QueuedCall]]:
        """Each with the time at which the owner hears of it. Its answer needs the hop back."""
        w = self._workload
        columns = zip(
            w.arrive_s.tolist(), w.budget_s.tolist(), w.penalty.tolist(), w.expected_price.tolist(),
            w.restricted.tolist(), self._work, self._hop_s,
            (~w.restricted & ~w.stays & w.leaves).tolist(),
            (w.priority * self._world.aging_s).tolist(), strict=True,
        )  # fmt: skip
        return [
            (
                arrive_s + hop_s,
                QueuedCall(
                    id=at,
                    arrived_s=arrive_s,
                    deadline_s=arrive_s + budget_s - hop_s,
                    penalty=penalty,
                    price=price,
                    work=work,
                    leave=CloudPermission.FREELY if leaves else CloudPermission.NEVER,
                    restricted=restricted,
                    cloud=self._cloud.tail(work) if leaves else None,
                    later_s=later_s,
                ),
            )
            for at, (
                arrive_s, budget_s, penalty, price, restricted, work, hop_s, leaves, later_s,
            ) in enumerate(columns)
        ]  # fmt: skip

    def _at(self, when_s: float, event: _Event) -> None:
        heapq.heappush(self._events, (when_s, next(self._order), event))

    def _refresh(self, now_s: float) -> None:
        """What the live queue looks at before every decision."""
        self._clock.now_s = now_s
        if self._modelled is not None:
            self._scheduler.limits.cloud_room = self._modelled.room()
            if not self._looks and self._scheduler.waiting:
                self._looks = True
                self._at(now_s + _REFRESH_S, self._schedule_refresh)

    def _schedule_refresh(self, now_s: float) -> None:
        self._looks = False
        self._do(self._scheduler.tick(now_s), now_s)
        self._refresh(now_s)

    def _arrives(self, call: QueuedCall, now_s: float) -> None:
        if self._modelled is not None:
            self._modelled.retries.calls += 1
            if not self._modelled.open:
                call = _without_cloud(call)
        self._do(self._scheduler.arrive(call, now_s), now_s)

    def _set_timer(self, now_s: float) -> None:
        wake_s = self._scheduler.wake_s
        if wake_s != self._timer_s:
            self._timer_s = wake_s
            if wake_s < math.inf:
                self._at(max(wake_s, now_s), partial(self._wake, wake_s))

    def _wake(self, meant_s: float, now_s: float) -> None:
        if meant_s == self._timer_s:  # else another timer has taken its place
            self._timer_s = math.inf
            self._do(self._scheduler.tick(now_s), now_s)

    # What the scheduler wants

    def _do(self, actions: list[Action], now_s: float) -> None:
        for action in actions:
            if isinstance(action, Release):
                self._release(action, now_s)
            elif isinstance(action, SpillNow):
                self._leave(action.call, now_s)
            else:
                call_id = int(action.call.id)
                self._end(call_id, REFUSED)
                if self._modelled is not None and self._tried[call_id]:
                    self._modelled.retries.give_back()

    def _release(self, action: Release, now_s: float) -> None:
        ids = tuple(int(call.id) for call in action.calls)
        for call_id in ids:
            self._end(call_id, ONPREM)
        reached = partial(self._reach, action.server, ids, now_s)
        self._at(now_s + self._world.network_s, reached)

    def _leave(self, call: QueuedCall, now_s: float) -> None:
        call_id = int(call.id)
        self._end(call_id, CLOUD)
        takes_s = self._cloud_s[call_id]
        if self._modelled is None:
            self._done_s[call_id] = now_s + takes_s + self._hop_s[call_id]
            self._at(now_s + takes_s, partial(self._cloud_answered, call_id))
            return
        ending = self._modelled.send(takes_s, call.deadline_s - now_s)
        if ending is None:
            self._at(now_s, partial(self._come_back, call))
        else:
            self._at(now_s + ending.after_s, partial(self._cloud_ended, call, ending))

    def _cloud_ended(self, call: QueuedCall, ending: Ending, now_s: float) -> None:
        assert self._modelled is not None
        call_id = int(call.id)
        self._modelled.ended(ending, ending.after_s)
        if ending.error is None:
            self._done_s[call_id] = now_s + self._hop_s[call_id]
            self._cloud.observe(call.work, ending.after_s)
        elif not isinstance(ending.error, DeadlineExceeded):
            self._tried[call_id] += 1
            self._come_back(call, now_s)

    def _come_back(self, call: QueuedCall, now_s: float) -> None:
        """The cloud failed it, or was closed when it came to the door."""
        assert self._modelled is not None
        cloud, call_id = self._modelled, int(call.id)
        tried, left_s = self._tried[call_id], call.deadline_s - now_s
        another = tried < cloud.tries
        another &= any(cloud.worth_another(name, left_s) for name in self._servers)
        if another and (not tried or cloud.retries.take()):
            self._place[call_id] = WAITING
            cloud.counts.returned += 1
            self._do(self._scheduler.arrive(_without_cloud(call), now_s), now_s)
        else:
            self._place[call_id] = FAILED

    def _end(self, call_id: int, place: int) -> None:
        if self._place[call_id] != WAITING:
            raise AssertionError(f"call {call_id} ended twice")
        self._place[call_id] = place

    # The world

    def _reach(self, name: str, ids: tuple[int, ...], sent_s: float, now_s: float) -> None:
        server = self._servers[name]
        server.queue.append((ids, sent_s))
        if server.busy < self._slots:
            self._begin(name, server, now_s)

    def _begin(self, name: str, server: _ModelServer, now_s: float) -> None:
        ids, sent_s = server.queue.popleft()
        mode = self._workload.mode
        took_s = mode.fixed_s + mode.per_work_s * sum(self._work[i] for i in ids)
        if self._world.batch_spread:
            took_s *= float(self._rng.lognormal(0.0, self._world.batch_spread))
        server.busy += 1
        self._busy_s += took_s / self._slots
        self._batches += 1
        self._at(now_s + took_s, partial(self._batch_ended, name))
        answered = partial(self._answered, name, ids, sent_s)
        self._at(now_s + took_s + self._world.network_s, answered)

    def _batch_ended(self, name: str, now_s: float) -> None:
        server = self._servers[name]
        server.busy -= 1
        if server.queue:
            self._begin(name, server, now_s)

    def _answered(self, name: str, ids: tuple[int, ...], sent_s: float, now_s: float) -> None:
        for call_id in ids:
            self._done_s[call_id] = now_s + self._hop_s[call_id]
            if self._modelled is not None:
                self._modelled.served_onprem(name, now_s - sent_s)
        for call_id in ids:
            self._do(self._scheduler.ended(call_id, True, now_s), now_s)

    def _cloud_answered(self, call_id: int, now_s: float) -> None:
        self._cloud.observe(self._work[call_id], self._cloud_s[call_id])


def _without_cloud(call: QueuedCall) -> QueuedCall:
    return replace(call, leave=CloudPermission.NEVER, cloud=None, price=0.0)
