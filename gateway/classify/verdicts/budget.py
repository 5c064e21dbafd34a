"""The time in which a call must be read.

Long texts are read one after the other, so that short ones never wait for many of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.classify import ScanLate
from gateway.classify.scan_workers.pool import LONG
from gateway.core.deadline import Clock
from gateway.core.types import InferenceRequest

T = TypeVar("T")


class ReadingBudget:
    def __init__(self, budget_s: float, clock: Clock) -> None:
        """`budget_s`: `classify.budget_ms`, in seconds."""
        self._budget_s, self._clock = budget_s, clock
        self._room = asyncio.Semaphore(1)

    def left_s(self, request: InferenceRequest, started_s: float, size: int) -> float:
        """Seconds for reading so many characters. A long text has as much more as it is longer, if
        half of what the call has left is for its answer."""
        spent_s = self._clock() - started_s
        remaining_s = request.deadline.remaining_s()
        usual_s = min(self._budget_s - spent_s, remaining_s)
        if size <= LONG:
            return usual_s
        return max(usual_s, min(self._budget_s * size / LONG - spent_s, remaining_s / 2))

    async def read(
        self,
        request: InferenceRequest,
        started_s: float,
        size: int,
        work: Callable[[float], Awaitable[T]],
    ) -> T:
        """What `work` gives, which reads so many characters in the seconds that it is given. Raises
        ScanLate when the turn of a long text does not come in time; a short one has it at once."""
        left_s = self.left_s(request, started_s, size)
        if size <= LONG:
            return await work(left_s)
        try:
            async with asyncio.timeout(max(0.0, left_s)):
                await self._room.acquire()
        except TimeoutError:
            raise ScanLate("other long texts were read for too long") from None
        try:
            return await work(self.left_s(request, started_s, size))
        finally:
            self._room.release()
