"""Calls that have arrived at a queue and are decided on together.

The first of many callers would else find an idle server and be a batch of its own, for whose end
the others wait. So arrivals are gathered while turns of the event loop bring more: on a loop that
has nothing else to do for two turns, and while so many come that the loop falls behind for as long
as they fill a batch. Nothing is gathered beyond an event of the queue: a batch that ends has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.core.deadline import Clock
from gateway.scheduling.calls import QueuedCall

_QUIET_TURNS: Final = 2  # a call that came with another one may be a turn behind it
_LONGEST_S: Final = 0.002
"""Measured with 32 callers of models under a millisecond: longer makes no larger batches."""


@dataclass(slots=True)
class Waiter:
    call: QueuedCall
    granted: asyncio.Future[str]  # the name of the server


class Arrivals:
    def __init__(self, clock: Clock, decide: Callable[[Sequence[Waiter]], None]) -> None:
        """`decide` is given those who have come together, at least one."""
        self._clock, self._decide = clock, decide
        self._gathered: list[Waiter] = []
        self._rows = 0

    async def gather(self, call: QueuedCall, most_rows: int) -> asyncio.Future[str] | None:
        """The place of a call that is decided on with others; None: it came alone. A batch has at
        most so many rows."""
        granted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        gathered = self._gathered
        gathered.append(Waiter(call, granted))
        self._rows += call.rows
        if len(gathered) > 1:
            return granted
        try:
            await self._quiet(gathered, most_rows)
        except BaseException:  # its caller left: the others go without it
            granted.cancel()
            if self._gathered is gathered:
                self.end()
            raise
        if self._gathered is not gathered:  # an event came first
            return granted
        if len(gathered) > 1:
            self.end()
            return granted
        self._gathered, self._rows = [], 0
        return None

    def end(self) -> None:
        """Those who have come are decided on now."""
        gathered = self._gathered
        if gathered:
            self._gathered, self._rows = [], 0
            self._decide(gathered)

    async def _quiet(self, gathered: list[Waiter], most_rows: int) -> None:
        """Until no more come, or enough have."""
        count = turns = 0
        ends_s = self._clock() + _LONGEST_S
        # guard: S12.full-batch minus 2
        while turns < _QUIET_TURNS and self._rows < most_rows:
            turns = turns + 1 if len(gathered) == count else 0
            count = len(gathered)
            await asyncio.sleep(0)
            # guard: S12.gathering-time minus 2
            if self._gathered is not gathered or self._clock() >= ends_s:
                return
