"""Who waits for an on-prem model, and in what order (BEHAVIOURS S4).

Triton's own priorities and queue limits stall its batcher (server#8870), so what waits, waits here:
at most a window of calls, the running batch and the next, is with the server. The order is by a
virtual deadline,

    min(deadline, arrival + patience) + priority * aging_s          (seconds)

with nine tenths of the budget for restricted calls, which have nowhere else to go. The key of a
waiting call is constant and newcomers' keys grow with time, so every class is served in the end.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.deadline import Clock
from gateway.errors import DeadlineExceeded, Saturated
from gateway.types import InferenceRequest

_PATIENCE_S = 60.0
_RETRY_S = 1.0
_RESTRICTED_SHARE = 0.9


@dataclass(order=True, slots=True)
class _Waiter:
    key: tuple[float, int]
    granted: asyncio.Future[None] = field(compare=False)


class Turn:
    """The right to have one call with the server. Released exactly once."""

    __slots__ = ("_queue", "_released", "queued_s")

    def __init__(self, queue: OnPremQueue, queued_s: float) -> None:
        self._queue = queue
        self._released = False
        self.queued_s = queued_s

    def release(self) -> None:
        if not self._released:
            self._released = True
            self._queue._leave()


class OnPremQueue:
    """The queue of one model on one server."""

    def __init__(
        self,
        batch: int,
        clock: Clock,
        in_flight_batches: float = 2.0,
        max_waiting: int = 512,
        aging_s: float = 10.0,
        max_in_flight: int = 1 << 30,
        share: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """`share` of the window that may be used now."""
        self.batch = 0
        self.window = 0
        self.in_flight = 0
        self._in_flight_batches = in_flight_batches
        self._max_in_flight = max_in_flight
        self._max_waiting = max_waiting
        self._aging_s = aging_s
        self._clock = clock
        self._share = share
        self._waiting: list[_Waiter] = []
        self._order = itertools.count()
        self.widen(batch)

    def widen(self, batch: int) -> None:
        """The server turns out to execute so many calls at once."""
        if batch > self.batch:
            self.batch = batch
            most = math.ceil(batch * self._in_flight_batches)
            self.window = max(1, min(most, self._max_in_flight))
            self._grant()

    @property
    def _usable(self) -> int:
        return max(1, math.ceil(self.window * self._share()))

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> bool:
        return self.in_flight < self.window or len(self._waiting) < self._max_waiting

    def key(self, request: InferenceRequest, restricted: bool) -> float:
        now_s = self._clock()
        left_s = request.deadline.at_s - now_s
        urgent_s = left_s * _RESTRICTED_SHARE if restricted else left_s
        return now_s + min(urgent_s, _PATIENCE_S) + request.priority * self._aging_s

    def ahead(self, key: float) -> int:
        """Calls that would be served before one with this key."""
        return self.in_flight + sum(1 for w in self._waiting if w.key[0] <= key)

    async def enter(self, request: InferenceRequest, restricted: bool) -> Turn:
        """Wait for a turn. Raises Saturated at once when the queue is full, DeadlineExceeded when
        the call's deadline passes first."""
        if self.in_flight < self._usable and not self._waiting:
            self.in_flight += 1
            return Turn(self, 0.0)
        if len(self._waiting) >= self._max_waiting:
            raise Saturated(
                "the queue of this model is full", reason="queue_full", retry_after_s=_RETRY_S
            )
        waiter = _Waiter(
            (self.key(request, restricted), next(self._order)),
            asyncio.get_running_loop().create_future(),
        )
        heapq.heappush(self._waiting, waiter)
        since_s = self._clock()
        try:
            async with asyncio.timeout(max(0.0, request.deadline.remaining_s())):
                await waiter.granted
        except TimeoutError:
            self._withdraw(waiter)
            raise DeadlineExceeded(
                "the latency budget ran out in the queue", reason="deadline_exceeded_in_queue"
            ) from None
        except BaseException:  # the caller left: give back what may have been granted just now
            self._withdraw(waiter)
            raise
        return Turn(self, self._clock() - since_s)

    def _withdraw(self, waiter: _Waiter) -> None:
        if waiter.granted.done() and not waiter.granted.cancelled():
            self._leave()
        elif waiter in self._waiting:
            self._waiting.remove(waiter)
            heapq.heapify(self._waiting)

    def _leave(self) -> None:
        self.in_flight -= 1
        self._grant()

    def _grant(self) -> None:
        while self._waiting and self.in_flight < self._usable:
            waiter = heapq.heappop(self._waiting)
            if not waiter.granted.done():
                self.in_flight += 1
                waiter.granted.set_result(None)
