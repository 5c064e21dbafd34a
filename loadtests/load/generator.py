"""Sends calls, as many connections as it takes, and counts what became of them.

Open loop: calls are meant to be sent at times that do not depend on answers, and latency counts
from there. A server that stands still for a second is therefore seen to by every call that came in
that second, which a generator that waits for answers would leave out (coordinated omission).
Closed loop: so many connections, each with one call at a time and no pause, which shows the most
that a server can take; its latencies say how long callers of that many wait, and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from loadtests.load.connection import Connection, Owner, StreamConnection, routed
from loadtests.load.grpc_calls import GrpcCalls
from loadtests.load.messages import messages
from loadtests.load.plan import Plan
from loadtests.load.recorder import Meter, Recorder
from loadtests.load.result import NO_CONNECTION, TIMED_OUT, Result
from loadtests.load.ticker import Ticker

_SWEEP_S = 0.1
_RECONNECT_S = 0.05


async def run(plan: Plan) -> Result:
    """Raises ValueError for a plan that makes no sense, OSError when one of `pids` is not there."""
    loop = asyncio.get_running_loop()
    recorder = Recorder(plan)
    calls = GrpcCalls(plan, recorder) if plan.shape.kind == "grpc" else HttpCalls(plan, recorder)
    meter = Meter(plan.pids)
    pace = _Pace(loop, plan.arrivals, recorder, calls.take) if plan.arrivals is not None else None
    recorder.start()
    try:
        if pace is not None:
            pace.start()
        else:
            calls.keep_busy()
        await _until(recorder.from_s, recorder, calls)
        meter.start()
        await _until(recorder.to_s, recorder, calls)
        if pace is not None:
            pace.finish()
        meter.stop(recorder.result)
        calls.stop()
        while recorder.open:
            calls.sweep(time.monotonic())
            await asyncio.sleep(_SWEEP_S / 10)
    finally:
        if pace is not None:
            pace.close()
        await calls.aclose()
    return recorder.result


async def _until(at_s: float, recorder: Recorder, calls: HttpCalls | GrpcCalls) -> None:
    while (left_s := at_s - time.monotonic()) > 0:
        await asyncio.sleep(min(_SWEEP_S, left_s))
        calls.sweep(time.monotonic())
        recorder.tidy()


class _Pace:
    """Hands each call on when it is due."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        arrivals: Iterator[float],
        recorder: Recorder,
        take: Callable[[float], None],
    ) -> None:
        self._arrivals, self._recorder, self._take = arrivals, recorder, take
        self._ticker = Ticker(loop, self._due)
        self._next_s: float | None = None

    def start(self) -> None:
        self._advance()
        if self._next_s is not None:
            self._ticker.at(self._next_s)

    def finish(self) -> None:
        """Hands on what was due before the end and the loop has not come to."""
        self._due()

    def close(self) -> None:
        self._ticker.close()

    def _advance(self) -> None:
        offset_s = next(self._arrivals, None)
        self._next_s = None if offset_s is None else self._recorder.start_s + offset_s
        if self._next_s is not None and self._next_s >= self._recorder.to_s:
            self._next_s = None

    def _due(self) -> None:
        while self._next_s is not None and self._next_s <= time.monotonic():
            self._recorder.due(self._next_s)
            self._take(self._next_s)
            self._advance()
        if self._next_s is not None:
            self._ticker.at(self._next_s)


class HttpCalls:
    """Calls over kept connections, the last used first; one more is opened when none is free."""

    def __init__(self, plan: Plan, recorder: Recorder) -> None:
        parts = urlsplit(plan.url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"{plan.url}: must be http://host:port")
        self._host, self._port = parts.hostname, parts.port or 80
        self._messages = messages(plan.shape, f"{self._host}:{self._port}")
        kind = StreamConnection if plan.shape.kind == "stream" else Connection
        self._make: Callable[[Owner], Connection] = routed(kind, plan.route) if plan.route else kind
        self._recorder, self._most, self._timeout_s = recorder, plan.connections, plan.timeout_s
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._opening = 0
        self._waiting: deque[float] = deque()
        self._closed_loop = self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()

    def keep_busy(self) -> None:
        self._closed_loop = True
        for _ in range(self._most):
            self._open()

    def take(self, meant_s: float) -> None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                connection.send(self._messages.next(), meant_s)
                return
        self._waiting.append(meant_s)
        if len(self._all) + self._opening < self._most and self._opening < len(self._waiting):
            self._open()

    def stop(self) -> None:
        """No new call of a closed loop; those that were meant to be sent still are."""
        self._stopped = True

    def sweep(self, now_s: float) -> None:
        before_s = now_s - self._timeout_s
        while self._waiting and self._waiting[0] < before_s:
            self._recorder.failed(self._waiting.popleft(), TIMED_OUT)
        for late in [c for c in self._all if c.busy and c.meant_s < before_s]:
            late.cut(TIMED_OUT)

    async def aclose(self) -> None:
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        for connection in list(self._all):
            connection.cut(TIMED_OUT)
        await asyncio.sleep(0)

    def finished(self, connection: Connection, failure: str, sample: bytes) -> None:
        if failure:
            self._recorder.failed(connection.meant_s, failure, sample)
        else:
            self._recorder.answered(
                connection.meant_s,
                connection.first_s,
                connection.chunks,
                connection.route,
            )
        if connection.usable:
            self._free(connection)

    def gone(self, connection: Connection) -> None:
        self._all.discard(connection)
        if self._waiting or (self._closed_loop and not self._stopped):
            self._open()

    def _free(self, connection: Connection) -> None:
        if self._waiting:
            connection.send(self._messages.next(), self._waiting.popleft())
        elif self._closed_loop and not self._stopped:
            now_s = time.monotonic()
            self._recorder.meant(now_s)
            connection.send(self._messages.next(), now_s)
        else:
            self._idle.append(connection)

    def _open(self) -> None:
        self._opening += 1
        task = asyncio.get_running_loop().create_task(self._connect())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                lambda: self._make(self), self._host, self._port
            )
        except OSError as exc:
            await self._refused(str(exc).encode())
            return
        finally:
            self._opening -= 1
        self._all.add(connection)
        if connection.usable:
            self._free(connection)
        else:
            self._all.discard(connection)

    async def _refused(self, why: bytes) -> None:
        """A connection that cannot be had costs the call that has waited longest."""
        if self._waiting:
            self._recorder.failed(self._waiting.popleft(), NO_CONNECTION, why)
        elif self._closed_loop and not self._stopped:
            now_s = time.monotonic()
            self._recorder.meant(now_s)
            self._recorder.failed(now_s, NO_CONNECTION, why)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(_RECONNECT_S)
            if not self._stopped and (self._closed_loop or self._waiting):
                self._open()
