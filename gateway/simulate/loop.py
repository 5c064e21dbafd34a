"""The event loop: calls arrive, batches end, clouds answer, the scheduler's timer goes off.

It drives the gateway's own scheduler on a virtual clock. With several gateways one of them owns the
servers of the model and decides; the others forward to it, which costs a hop each way.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import numpy as np
from numpy.typing import NDArray

from gateway.scheduling.calls import Action, Call, Leave, Release, Scheduling, Spill
from gateway.scheduling.latency import CloudLatency
from gateway.simulate.workload import Floats, Workload

WAITING, ONPREM, CLOUD, REFUSED = range(4)

_Event = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class World:
    """What the modelled servers and networks do that the scheduler is not told of."""

    network_s: float = 0.0  # one way from the owner to a server
    batch_spread: float = 0.0  # sigma of a lognormal factor on a batch's time
    gateways: int = 1
    hop_s: float = 0.0005  # one way between two gateways
    seed: int = 0


@dataclass(slots=True)
class _ModelServer:
    busy: bool = False
    queue: deque[tuple[int, ...]] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How every call ended; `done_s` is inf for a refused one."""

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
        world: World | None = None,
    ) -> None:
        self._workload = calls
        self._scheduler = scheduler
        self._world = world = world or World()
        self._rng = np.random.default_rng(world.seed)
        self._servers = {name: _ModelServer() for name in servers}
        self._cloud = cloud
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

    def run(self, tell: Callable[[float], None] | None = None) -> Outcome:
        """`tell` hears the share of the calls that have arrived, now and then."""
        arrivals = sorted(self._calls(), key=lambda arrival: arrival[0])
        at, n, now_s = 0, len(arrivals), 0.0
        every = max(1, n // 20)
        while at < n or self._events:
            if at < n and (not self._events or arrivals[at][0] <= self._events[0][0]):
                now_s, call = arrivals[at]
                self._do(self._scheduler.arrive(call, now_s), now_s)
                at += 1
                if tell is not None and at % every == 0:
                    tell(at / n)
            else:
                now_s, _, event = heapq.heappop(self._events)
                event(now_s)
            self._set_timer(now_s)
        return Outcome(
            place=np.array(self._place),
            done_s=np.array(self._done_s),
            batches=self._batches,
            busy_s=self._busy_s,
            span_s=now_s,
        )

    def _calls(self) -> list[tuple[float, Call]]:
        """Each with the time at which the owner hears of it. Its answer needs the hop back."""
        w = self._workload
        columns = zip(
            w.arrive_s.tolist(), w.budget_s.tolist(), w.penalty.tolist(), w.price.tolist(),
            w.restricted.tolist(), self._work, self._hop_s, strict=True,
        )  # fmt: skip
        return [
            (
                arrive_s + hop_s,
                Call(
                    id=at,
                    arrived_s=arrive_s,
                    deadline_s=arrive_s + budget_s - hop_s,
                    penalty=penalty,
                    price=price,
                    work=work,
                    leave=Leave.NEVER if restricted else Leave.FREELY,
                    restricted=restricted,
                    cloud=self._cloud.tail(work),
                ),
            )
            for at, (arrive_s, budget_s, penalty, price, restricted, work, hop_s) in enumerate(
                columns
            )
        ]

    def _at(self, when_s: float, event: _Event) -> None:
        heapq.heappush(self._events, (when_s, next(self._order), event))

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
                ids = tuple(int(call.id) for call in action.calls)
                for call_id in ids:
                    self._end(call_id, ONPREM)
                self._at(now_s + self._world.network_s, partial(self._reach, action.server, ids))
            elif isinstance(action, Spill):
                call_id = int(action.call.id)
                self._end(call_id, CLOUD)
                took_s = self._cloud_s[call_id]
                self._done_s[call_id] = now_s + took_s + self._hop_s[call_id]
                self._at(now_s + took_s, partial(self._cloud_answered, call_id))
            else:
                self._end(int(action.call.id), REFUSED)

    def _end(self, call_id: int, place: int) -> None:
        if self._place[call_id] != WAITING:
            raise AssertionError(f"call {call_id} ended twice")
        self._place[call_id] = place

    # The world

    def _reach(self, name: str, ids: tuple[int, ...], now_s: float) -> None:
        server = self._servers[name]
        server.queue.append(ids)
        if not server.busy:
            self._begin(name, server, now_s)

    def _begin(self, name: str, server: _ModelServer, now_s: float) -> None:
        ids = server.queue.popleft()
        mode = self._workload.mode
        took_s = mode.fixed_s + mode.per_work_s * sum(self._work[i] for i in ids)
        if self._world.batch_spread:
            took_s *= float(self._rng.lognormal(0.0, self._world.batch_spread))
        server.busy = True
        self._busy_s += took_s
        self._batches += 1
        self._at(now_s + took_s, partial(self._batch_ended, name))
        answered = partial(self._answered, ids)
        self._at(now_s + took_s + self._world.network_s, answered)

    def _batch_ended(self, name: str, now_s: float) -> None:
        server = self._servers[name]
        server.busy = False
        if server.queue:
            self._begin(name, server, now_s)

    def _answered(self, ids: tuple[int, ...], now_s: float) -> None:
        for call_id in ids:
            self._done_s[call_id] = now_s + self._hop_s[call_id]
        for call_id in ids:
            self._do(self._scheduler.completed(call_id, now_s), now_s)

    def _cloud_answered(self, call_id: int, now_s: float) -> None:
        self._cloud.observe(self._work[call_id], self._cloud_s[call_id])
