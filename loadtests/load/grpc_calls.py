"""Calls over gRPC: messages are bytes before they are sent and stay bytes when they come."""

from __future__ import annotations

import asyncio
import time
from collections import deque

import grpc
import grpc.aio

from loadtests.load.messages import messages
from loadtests.load.plan import Plan
from loadtests.load.recorder import Recorder

_METHOD = "/inference.GRPCInferenceService/ModelInfer"
_OPTIONS = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
_CALLS_PER_CHANNEL = 16


class GrpcCalls:
    """At most `calls` at once, over a channel for each sixteen of them."""

    def __init__(self, plan: Plan, recorder: Recorder) -> None:
        target, calls = plan.url.removeprefix("http://"), plan.connections
        self._messages = messages(plan.shape, target)
        self._metadata = tuple((k.lower(), v) for k, v in plan.shape.headers.items())
        self._recorder, self._timeout_s = recorder, plan.timeout_s
        count = max(1, calls // _CALLS_PER_CHANNEL)
        self._channels = [grpc.aio.insecure_channel(target, options=_OPTIONS) for _ in range(count)]
        self._infer = [
            c.unary_unary(_METHOD, None, None) for c in self._channels
        ]  # no serialiser: bytes
        self._most, self._running = calls, 0
        self._waiting: deque[float] = deque()
        self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()

    def keep_busy(self) -> None:
        for at in range(self._most):
            self._start(self._loop(at))

    def take(self, meant_s: float) -> None:
        if self._running < self._most:
            self._running += 1
            self._start(self._each(meant_s, self._running % len(self._infer)))
        else:
            self._waiting.append(meant_s)

    def stop(self) -> None:
        self._stopped = True

    def sweep(self, now_s: float) -> None:
        while self._waiting and self._waiting[0] < now_s - self._timeout_s:
            self._recorder.failed(self._waiting.popleft(), grpc.StatusCode.DEADLINE_EXCEEDED.name)

    async def aclose(self) -> None:
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for channel in self._channels:
            await channel.close(None)

    def _start(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _loop(self, at: int) -> None:
        while not self._stopped:
            now_s = time.monotonic()
            self._recorder.meant(now_s)
            await self._one(now_s, at % len(self._infer))

    async def _each(self, meant_s: float, at: int) -> None:
        await self._one(meant_s, at)
        while self._waiting:
            await self._one(self._waiting.popleft(), at)
        self._running -= 1

    async def _one(self, meant_s: float, at: int) -> None:
        left_s = max(0.001, meant_s + self._timeout_s - time.monotonic())
        try:
            call = self._infer[at](self._messages.next(), timeout=left_s, metadata=self._metadata)
            await call
        except grpc.aio.AioRpcError as exc:
            self._recorder.failed(meant_s, exc.code().name, (exc.details() or "").encode())
        else:
            self._recorder.answered(meant_s, 0.0, 0, "")
