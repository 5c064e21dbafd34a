"""What a server is doing, as far as can be told from what was sent to it and what came back.

All times are those at which the gateway sees things: a batch that goes to an idle server seems to
begin a round trip after it was sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gateway.scheduling.batches import BatchModel
from gateway.scheduling.calls import Call

_AT_MOST = 2  # bursts with a server: the running one and the next (BEHAVIOURS S4)
_OVERDUE = 0.1  # of its time: how much longer than now a batch is taken to last that should be done


@dataclass(slots=True)
class Burst:
    """Calls that went to a server together, which makes them one batch there."""

    work: float
    earliest_s: float  # when an idle server would begin it
    left: set[int | str]
    whole: bool = True  # every call was answered: its time can be learnt from


@dataclass(slots=True)
class Server:
    name: str
    model: BatchModel
    up: bool = True
    bursts: list[Burst] = field(default_factory=list)
    began_s: float = -math.inf  # when the running burst began
    busy_until_s: float = -math.inf  # with something that is not this scheduler's

    def send(self, calls: tuple[Call, ...], now_s: float, round_trip_s: float) -> None:
        earliest_s = max(now_s + round_trip_s, self.busy_until_s)
        if not self.bursts:
            self.began_s = earliest_s
        work = sum(call.work for call in calls)
        self.bursts.append(Burst(work, earliest_s, {call.id for call in calls}))

    def free_s(self, now_s: float) -> float:
        """When everything that is with it should be done; never in the past."""
        if not self.bursts:
            return max(now_s, self.busy_until_s)
        return self.running_end_s(now_s) + sum(
            self.model.predict_s(burst.work) for burst in self.bursts[1:]
        )

    def running_end_s(self, now_s: float) -> float:
        """When the running batch should end; never in the past."""
        took_s = self.model.predict_s(self.bursts[0].work)
        end_s = self.began_s + took_s
        return end_s if end_s >= now_s else now_s + _OVERDUE * took_s

    def due_s(self, now_s: float, lead_s: float) -> float:
        """When it should be sent its next batch; inf: not before something happens."""
        if not self.up or len(self.bursts) >= _AT_MOST:
            return math.inf
        if not self.bursts:
            return max(now_s, self.busy_until_s - lead_s)
        if lead_s <= 0.0:
            return math.inf
        return max(now_s, self.began_s + self.model.predict_s(self.bursts[0].work) - lead_s)

    def overdue_s(self, now_s: float) -> float:
        """When to look again whether the running batch has ended; inf: none is running."""
        if not self.bursts:
            return math.inf
        took_s = self.model.predict_s(self.bursts[0].work)
        return max(self.began_s + took_s, now_s) + _OVERDUE * took_s

    def gone(self, call_id: int | str, now_s: float, answered: bool) -> bool | None:
        """None: the call is not with this server. True: a batch has ended with it."""
        for at, burst in enumerate(self.bursts):
            if call_id in burst.left:
                burst.left.discard(call_id)
                burst.whole &= answered
                if burst.left:
                    return False
                self._ended(at, burst, now_s)
                return True
        return None

    def _ended(self, at: int, burst: Burst, now_s: float) -> None:
        if burst.whole and at == 0:
            self.model.observe(burst.work, now_s - self.began_s)
        del self.bursts[at]
        if at == 0 and self.bursts:
            self.began_s = max(now_s, self.bursts[0].earliest_s)
