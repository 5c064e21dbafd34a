"""The calls that wait for one scheduler: in the line, or put off."""

from __future__ import annotations

import math

from gateway.scheduling.best_set.deferred import PutOff
from gateway.scheduling.best_set.waiting import QueuePosition, WaitingQueue
from gateway.scheduling.calls import QueuedCall

_LAST_S = 1e18  # a time after all deadlines


class WaitingCalls:
    __slots__ = ("line", "positions", "put_off")

    def __init__(self, least_prospects: float) -> None:
        self.line = WaitingQueue()
        self.put_off = PutOff(least_prospects)
        self.positions: dict[int | str, QueuePosition] = {}
        """Of all of them, also those that were put off, which are not in the line."""

    def join(self, call: QueuedCall, position: QueuePosition) -> None:
        self.positions[call.id] = position
        self.line.add(call, position)

    def rejoin(self, call: QueuedCall) -> None:
        """One that waits, and was taken out of the line, or put off."""
        self.line.add(call, self.positions[call.id])

    def remove(self, call_id: int | str) -> None:
        position = self.positions.pop(call_id)
        if self.put_off.take(call_id) is None:
            self.line.pop(self.line.find(call_id, position.key))

    @property
    def first_due_s(self) -> float:
        """Those who were put off have their turn when nobody else has. inf: nobody waits."""
        if self.line.calls:
            return self.line.first_key
        return _LAST_S if self.positions else math.inf
