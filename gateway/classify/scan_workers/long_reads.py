"""Long texts are read one after the other, so that short ones never wait for many of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gateway.classify import ScanLate

T = TypeVar("T")
LONG = 65_536
"""Characters that are read within `classify.budget_ms`."""


class LongReads:
    def __init__(self) -> None:
        self._room = asyncio.Semaphore(1)

    async def read(self, size: int, budget_s: float, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` gives, which reads so many characters. Raises ScanLate when the turn of a
        long text does not come within `budget_s`; a short one has it at once."""
        if size <= LONG:
            return await work()
        try:
            async with asyncio.timeout(max(0.0, budget_s)):
                await self._room.acquire()
        except TimeoutError:
            raise ScanLate("other long texts were read for too long") from None
        try:
            return await work()
        finally:
            self._room.release()
