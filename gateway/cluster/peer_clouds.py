"""What the cloud costs calls that came in elsewhere, as whoever owns their queue is told."""

from __future__ import annotations

import math
from collections.abc import Callable

from gateway.cluster.messages import CloudEstimate
from gateway.core.deadline import Clock
from gateway.scheduling.calls import FREELY, QueuedCall
from gateway.scheduling.estimates.latency import Tail

_QUANTILES = tuple((i + 0.5) / 16 for i in range(16))
_ROOM_HOLDS_S = 5.0


def cloud_estimate(
    call: QueuedCall, room: Callable[[str], int], model: str
) -> CloudEstimate | None:
    """None: it may not leave."""
    if call.leave is not FREELY or call.cloud is None:
        return None
    latencies_s = tuple([call.cloud.quantile_s(q) for q in _QUANTILES])
    return CloudEstimate(call.price, latencies_s, room(model))


class PeerClouds:
    """By who tells it and for which model."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tails: dict[tuple[str, str, int], Tail] = {}
        self._rooms: dict[tuple[str, str], tuple[float, float]] = {}

    def record(self, peer: str, model: str, work: float, estimate: CloudEstimate) -> Tail:
        """One for all calls of a peer that are about as large: schedulers keep them for good."""
        self._rooms[model, peer] = (estimate.room, self._clock())
        step = round(math.log2(work))
        tail = self._tails.get((peer, model, step))
        if tail is None:
            tail = self._tails[peer, model, step] = Tail(estimate.latencies_s[0])
        tail.learn(estimate.latencies_s)
        return tail

    def room(self, model: str) -> float:
        """Of the doors over there, by what was told lately."""
        since_s = self._clock() - _ROOM_HOLDS_S
        rooms = (room for (key, _), room in self._rooms.items() if key == model)
        return sum(room for room, at_s in rooms if at_s >= since_s)
