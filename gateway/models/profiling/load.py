"""Callers that each ask again when they were answered, over one gRPC channel and raw bytes.

The requests are made once and the answers are not read: what is measured is the server.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from tritonclient.grpc import service_pb2

from gateway.core import ambient
from gateway.models.failures import ModelCommandFailed
from gateway.protocols.oip.stream_frames import StreamFrame

_SERVICE = "/inference.GRPCInferenceService/"
_PATIENCE_S = 60.0
WARM = 0.2  # of the time, before anything counts
_EOF: Any = vars(grpc.aio)["EOF"]  # its stubs lack it


class CannotMeasure(ModelCommandFailed):
    """The server did not answer as it must; the message says what it said."""


@dataclass(frozen=True, slots=True)
class Executed:
    """A model's counters, by its server's word."""

    inferences: int
    executions: int

    def batch_since(self, before: Executed) -> float:
        runs = self.executions - before.executions
        return (self.inferences - before.inferences) / runs if runs else 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    took_s: tuple[float, ...]  # of each call, in the order of their ends
    calls_per_s: float
    executed: float  # rows of the mean batch

    def quantile_s(self, q: float) -> float:
        ordered = sorted(self.took_s)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


class LoadTarget:
    """A model at a server."""

    def __init__(self, channel: Any, model: str, streamed: bool) -> None:
        self._infer: Any = channel.unary_unary(_SERVICE + "ModelInfer")
        self._stream: Any = channel.stream_stream(_SERVICE + "ModelStreamInfer")
        self._statistics: Any = channel.unary_unary(_SERVICE + "ModelStatistics")
        self._model = model
        self._ask = self._streamed if streamed else self._unary

    async def executed(self) -> Executed:
        request = service_pb2.ModelStatisticsRequest(name=self._model).SerializeToString()
        raw = await self._statistics(request, timeout=_PATIENCE_S)
        statistics = service_pb2.ModelStatisticsResponse.FromString(raw).model_stats
        return Executed(
            sum(one.inference_count for one in statistics),
            sum(one.execution_count for one in statistics),
        )

    async def measure(self, requests: Sequence[bytes], callers: int, seconds: float) -> Measured:
        """Raises CannotMeasure."""
        turns = itertools.cycle(requests)
        try:
            await self._for(turns, callers, seconds * WARM)
            before, began_s = await self.executed(), ambient.monotonic_s()
            took_s = await self._for(turns, callers, seconds)
            ended_s = ambient.monotonic_s()
            batch = (await self.executed()).batch_since(before)
        except grpc.aio.AioRpcError as exc:
            raise CannotMeasure(
                f"{self._model}: the server answered {exc.code().name}: {exc.details()}"
            ) from exc
        return Measured(tuple(took_s), len(took_s) / (ended_s - began_s), batch)

    async def _for(self, turns: Iterator[bytes], callers: int, seconds: float) -> list[float]:
        until_s = ambient.monotonic_s() + seconds
        took_s: list[float] = []

        async def caller() -> None:
            while True:
                began_s = ambient.monotonic_s()
                await self._ask(next(turns))
                ended_s = ambient.monotonic_s()
                took_s.append(ended_s - began_s)
                if ended_s >= until_s:
                    return

        await asyncio.gather(*(caller() for _ in range(callers)))
        return took_s

    async def _unary(self, request: bytes) -> None:
        await self._infer(request, timeout=_PATIENCE_S)

    async def _streamed(self, request: bytes) -> None:
        call = self._stream(timeout=_PATIENCE_S)
        await call.write(request)
        await call.done_writing()
        while (frame := await call.read()) is not _EOF:
            if error := StreamFrame.decode(frame).error:
                raise CannotMeasure(f"{self._model}: the server answered {error}")


@asynccontextmanager
async def connected(address: str, model: str, streamed: bool) -> AsyncIterator[LoadTarget]:
    """`address`: host:port of the server's gRPC side."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        yield LoadTarget(channel, model, streamed)
