"""Waits for records, each of which ends when its call's time is up. One timer serves all of them.

It stands at the earliest deadline when it is set, and stays when that wait ends: with thousands of
waits a second, and deadlines seconds away, hardly any wait sets one.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Final

from gateway.accounting.records import Durable
from gateway.core.deadline import Deadline
from gateway.core.errors import DeadlineExceeded

_SOON_S: Final = 0.001  # to look once more at a deadline that is a moment away


class Waits:
    """Of one loop. Who waits has its record in `open` meanwhile, and sees to it that it is looked
    at in time: `if deadline.at_s < waits.looks_s: waits.look_at(deadline)`."""

    __slots__ = ("_timer", "looks_s", "open")

    def __init__(self) -> None:
        self.open: dict[Durable, Deadline] = {}
        self.looks_s = inf  # on the clock of deadlines
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, deadline: Deadline) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.looks_s = deadline.at_s
        wait_s = max(_SOON_S, deadline.remaining_s())
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._check)

    def _check(self) -> None:
        self._timer, self.looks_s = None, inf
        for durable, deadline in self.open.items():
            if durable.done():
                continue
            if deadline.passed():
                durable.set_result(
                    DeadlineExceeded("the latency budget ran out before the record was durable")
                )
            elif deadline.at_s < self.looks_s:
                self.looks_s = deadline.at_s
                earliest = deadline
        if self.looks_s < inf:
            self.watch(earliest)
