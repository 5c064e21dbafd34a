"""The queue in front of the servers of one model: the scheduler, with calls that really wait.

`gateway.scheduling` decides and knows neither tasks nor sockets; here its actions become what
happens to calls. An action is carried out in the same step in which it was decided, so that a
burst of arrivals finds the state that the one before it left (BEHAVIOURS S2).
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gateway.core import timeouts
from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import DeadlineExceeded, DeadlineUnmeetable, GatewayError, Saturated
from gateway.core.structs import value
from gateway.scheduling.arrivals import Arrivals, Waiter
from gateway.scheduling.calls import (
    Action,
    CloudPermission,
    QueuedCall,
    Refuse,
    Release,
    Scheduling,
    SpillNow,
)

_AT_LEAST_S = 0.001
"""Timers count whole milliseconds; one that fires early finds nothing to do and is set again."""
_AGAIN_S = 60.0  # at the latest: nobody knows more
_REFRESH_S = 0.05
"""While calls wait: servers come and go, and the cloud opens and closes, without a call ending."""


class Spilled(Exception):
    """The call is to leave: a clear one that has no room here, or is worth less than who has."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class NoServer(Exception):
    """None of the group's servers takes calls any more."""


@dataclass(frozen=True, slots=True)
class ServerNow:
    """What the scheduler cannot know of a server by itself."""

    name: str
    up: bool
    most: float = math.inf  # calls at once, while it starts slowly


@value
class QueueConditions:
    """Read before every decision."""

    servers: tuple[ServerNow, ...]
    cloud_room: float  # how many calls the cloud takes now; 0 when none may leave


class Grant:
    """The right to have one call with a server. Given back exactly once."""

    door: None = None  # it goes by the server's own
    __slots__ = ("_call", "_group", "_released", "queued_s", "server")

    def __init__(self, group: ModelQueue, call: QueuedCall, server: str, queued_s: float) -> None:
        self._group, self._call = group, call
        self._released = False
        self.server = server
        self.queued_s = queued_s

    def release(self, answered: bool) -> None:
        """`answered`: whether the time that it took says how fast the server is."""
        if not self._released:  # guard: A2.single-release always
            self._released = True
            self._group.ended(self._call, answered)


class WakeTimer:
    """Calls back after the time that it was set to last."""

    __slots__ = ("handle",)

    def __init__(self) -> None:
        self.handle: asyncio.TimerHandle | None = None

    def set(self, after_s: float, callback: Callable[[], None]) -> None:
        """inf: not at all."""
        self.cancel()
        if math.isfinite(after_s):
            loop = asyncio.get_running_loop()
            self.handle = loop.call_later(max(_AT_LEAST_S, after_s), callback)

    def cancel(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None


class ModelQueue:
    def __init__(
        self,
        scheduling: Scheduling,
        read_conditions: Callable[[], QueueConditions],
        clock: Clock,
        acted: Callable[[], None] | None = None,
    ) -> None:
        self.scheduling = scheduling
        self.read_conditions = read_conditions
        self.acted = acted
        """Called when everything that an event asked for has been done. Both are of the settings
        that the queue belongs to."""
        self._clock = clock
        self._waiters: dict[int | str, Waiter] = {}
        self._arrivals = Arrivals(clock, self._decide_together)
        self._todo: deque[Action] = deque()
        self._acting = False
        self._moved = False  # a server went up or down, and those who wait have not been told
        self._timer = WakeTimer()
        self._servers: tuple[ServerNow, ...] = ()  # as they were read last
        self._known: dict[str, ServerNow] = {}
        self._up: frozenset[str] = frozenset()  # of these
        self.on_gpus: dict[str, int] = {}
        """Servers whose GPU it shares with other models, with its number there."""

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    async def enter(self, call: QueuedCall, deadline: Deadline) -> Grant:
        """Wait for a turn at one of the servers. Raises Spilled when the call is to leave, NoServer
        when there is none left, Saturated, DeadlineUnmeetable or DeadlineExceeded."""
        since_s = self._clock()
        granted: asyncio.Future[str] | None = None
        if (most_rows := self.scheduling.limits.max_batch) > 1:
            granted = await self._arrivals.gather(call, most_rows)
            since_s = self._clock()
        if granted is None:
            self._catch_up(since_s)
            if self._up <= call.avoid:
                raise NoServer
            actions = self.scheduling.arrive(call, since_s)
            if len(actions) == 1 and not (self._todo or self._moved):
                first = actions[0]
                if type(first) is Release and first.calls == (call,):
                    self._acted_on()
                    return Grant(self, call, first.server, 0.0)  # at once, as mostly
            granted = asyncio.get_running_loop().create_future()
            self._waiters[call.id] = Waiter(call, granted)
            self._todo.extend(actions)
            self._act()
        turn = self._turn(call, granted, deadline, since_s)
        del granted  # it keeps what it raises, whose traceback has this frame
        return await turn

    def _decide_together(self, arrived: Sequence[Waiter]) -> None:
        now_s = self._clock()
        self._catch_up(now_s)
        calls = []
        for waiter in arrived:
            call, granted = waiter.call, waiter.granted
            if granted.done():  # its caller has left
                continue
            if self._up <= call.avoid:
                granted.set_exception(NoServer())
                continue
            self._waiters[call.id] = waiter
            calls.append(call)
        if calls:
            self._todo.extend(self.scheduling.arrive_together(calls, now_s))
            self._act()

    def _catch_up(self, now_s: float) -> None:
        self._refresh(now_s)
        if self._todo or self._moved:
            self._act()
            self._refresh(now_s)  # what was done may have taken what was seen

    async def _turn(
        self,
        call: QueuedCall,
        granted: asyncio.Future[str] | None,
        deadline: Deadline,
        since_s: float,
    ) -> Grant:
        assert granted is not None
        try:
            server = await _granted(granted, deadline)
        except TimeoutError:
            self._withdraw(call, granted)
            raise _late() from None
        except (Spilled, NoServer, GatewayError):
            raise
        except BaseException:  # the caller left: give back what may have been granted just now
            # guard: A2.cancelled-grant
            self._withdraw(call, granted)  # guard: A2.queue-place
            raise
        finally:
            # guard: A10.queue-turn
            granted = None  # it keeps what it raises, whose traceback has this frame
        return Grant(self, call, server, self._clock() - since_s)

    def would(self, call: QueuedCall) -> SpillNow | Refuse | None:
        """What would happen at once to a call that entered now; None: it stays."""
        now_s = self._clock()
        self._refresh(now_s)
        self._act()
        return self.scheduling.would(call, now_s)

    def shun(self, server: str) -> None:
        """Those who wait and have another place go there: another server, or the cloud."""
        for call_id, waiter in tuple(self._waiters.items()):
            call = waiter.call
            if call_id not in self._waiters:  # what was decided for another moved it
                continue
            avoid = call.avoid | {server}
            if any(s.up and s.name not in avoid for s in self._known.values()):
                waiter.call = changed = replace(call, avoid=avoid)
                self.decide(partial(self.scheduling.changed, changed))
            elif call.leave is CloudPermission.FREELY:
                self._dismiss(call_id, Spilled("spill_slow"))
                self._act()

    def refresh(self) -> None:
        """Something around it has changed: a server went down, the cloud opened."""
        self.decide(self.scheduling.tick)

    def close(self) -> None:
        self._timer.cancel()

    def ended(self, call: QueuedCall, answered: bool) -> None:
        """A released call ended. While nobody waits, what is around it is no matter."""
        self._arrivals.end()  # guard: S12.event-first
        if self._waiters:
            self.decide(partial(self.scheduling.ended, call.id, answered))
        else:
            actions = self.scheduling.ended(call.id, answered, self._clock())
            if actions or self._todo or self._moved or self._acting:
                self._todo.extend(actions)
                self._act()
            else:
                self._acted_on()

    def _withdraw(self, call: QueuedCall, granted: asyncio.Future[str]) -> None:
        if call.id in self._waiters:  # and may be called up now, by what is seen around
            granted.cancel()
            self.decide(partial(self.scheduling.cancelled, call.id))
            self._waiters.pop(call.id, None)
        elif granted.done() and not granted.cancelled() and granted.exception() is None:
            self.ended(call, answered=False)  # guard: A2.granted-turn

    def decide(self, event: Callable[[float], list[Action]]) -> None:
        """Tell the scheduler of an event, and do what it says."""
        self._arrivals.end()
        now_s = self._clock()
        self._refresh(now_s)
        self._todo.extend(event(now_s))
        self._act()

    def _send_away(self) -> None:
        """Who has no server any more is told at once: it may have another place, or a better time
        to come."""
        for call_id, waiter in tuple(self._waiters.items()):
            if self._up <= waiter.call.avoid:
                self._dismiss(call_id, NoServer())

    def _dismiss(self, call_id: int | str, why: Exception) -> None:
        granted = self._waiters.pop(call_id).granted
        if not granted.done():
            granted.set_exception(why)
        self._todo.extend(self.scheduling.cancelled(call_id, self._clock()))

    def _act(self) -> None:
        if self._acting:
            return
        if self._todo or self._moved:
            self._acting = True
            try:
                while self._todo or self._moved:
                    while self._todo:
                        self._do(self._todo.popleft())
                    if self._moved:
                        self._moved = False
                        self._send_away()
            finally:
                self._acting = False
        self._acted_on()

    def _acted_on(self) -> None:
        """An event is over."""
        if self._waiters or self._timer.handle is not None:
            self._set_timer()
        if self.acted is not None:
            self.acted()

    def _refresh(self, now_s: float) -> None:
        around = self.read_conditions()
        self.scheduling.limits.cloud_room = around.cloud_room
        if around.servers is not self._servers:
            self._servers = around.servers
            for server in around.servers:
                before = self._known.get(server.name)
                if before is server:
                    continue
                self._known[server.name] = server
                if before is None or before.most != server.most:
                    self._todo.extend(self.scheduling.limit(server.name, server.most, now_s))
                if before is None or before.up != server.up:
                    self._up = frozenset([s.name for s in self._known.values() if s.up])
                    self._todo.extend(self.scheduling.mark_up(server.name, server.up, now_s))
                    self._moved = True

    def _do(self, action: Action) -> None:
        if isinstance(action, Release):
            for call in action.calls:
                granted = self._waiters.pop(call.id).granted
                if granted.cancelled():  # its caller leaves in this very step
                    self.ended(call, answered=False)  # guard: A2.cancelled-grant
                else:
                    granted.set_result(action.server)
        else:
            granted = self._waiters.pop(action.call.id).granted
            if not granted.done():
                granted.set_exception(refusal(action))

    def _set_timer(self) -> None:
        after_s = self.scheduling.wake_s - self._clock()
        if self._waiters:
            after_s = min(after_s, _REFRESH_S)
        self._timer.set(after_s, self.refresh)


async def _granted(granted: asyncio.Future[str] | None, deadline: Deadline) -> str:
    assert granted is not None
    try:
        if granted.done():
            return granted.result()
        # guard: D1.queue-wait -> with timeouts.within(100000.0):
        with timeouts.within(deadline.remaining_s()):
            return await granted
    finally:
        # guard: A10.queue-grant
        granted = None  # as above


def refusal(action: SpillNow | Refuse) -> Spilled | GatewayError:
    """What the caller of `enter` is told."""
    if isinstance(action, SpillNow):
        return Spilled(action.why)
    again_s = min(max(action.retry_after_s, _AT_LEAST_S), _AGAIN_S)
    if action.why == "queue_full":
        return Saturated(
            "the queue of this model is full", reason="queue_full", retry_after_s=again_s
        )
    if action.why == "deadline_exceeded_in_queue":
        return _late()
    return DeadlineUnmeetable(
        "the on-prem servers cannot answer within the latency budget", retry_after_s=again_s
    )


def _late() -> DeadlineExceeded:
    return DeadlineExceeded(
        "the latency budget ran out in the queue", reason="deadline_exceeded_in_queue"
    )
