"""Clear calls that wait for room in the cloud, since nothing on the premises can take them.

An endpoint in the cloud takes so many calls at once and no more (`AdaptiveLimit`). A call that
finds it full while the servers here are out, or after one failed, would be refused although a place
is free in a moment. So it waits for as long as it can still be served in time; places go to whoever
must start first.
A call for which those before it leave no time is told at once (BEHAVIOURS A1, D4).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CloudPace:
    """How fast places become free at an endpoint that is full."""

    limit: int  # calls that it takes at once
    call_s: float  # what one takes, the median
    closed_s: float = 0.0  # it takes nothing for so long

    def wait_s(self, ahead: int) -> float:
        """Seconds to a place behind `ahead` others: one becomes free every `call_s / limit`."""
        return self.closed_s + (ahead + 1) * self.call_s / max(1, self.limit)


@dataclass(order=True, slots=True)
class CloudWaiter:
    """A call that waits. `latest_s`: when it must start at the latest."""

    latest_s: float
    sequence: int
    model: str = field(compare=False)
    endpoints: frozenset[str] = field(compare=False)
    _place: asyncio.Future[None] = field(compare=False)

    @property
    def offered(self) -> bool:
        return self._place.done()

    def offer(self) -> None:
        if not self._place.done():
            self._place.set_result(None)

    async def wait(self, most_s: float) -> None:
        """Until it is offered a place, for `most_s`; yields at least once."""
        await asyncio.wait((self._place,), timeout=max(0.0, most_s))


class CloudLine:
    """Who waits, in the order of the latest start."""

    def __init__(self) -> None:
        self.waiting: list[CloudWaiter] = []
        self._sequence = 0

    def ahead(self, endpoint: str, latest_s: float) -> int:
        """How many of those who wait for it would get a place before such a call."""
        before = bisect_right(self.waiting, latest_s, key=lambda w: w.latest_s)
        return sum(endpoint in w.endpoints for w in self.waiting[:before])

    @contextmanager
    def joined(
        self, model: str, endpoints: frozenset[str], latest_s: float
    ) -> Iterator[CloudWaiter]:
        self._sequence += 1
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = CloudWaiter(latest_s, self._sequence, model, endpoints, place)
        insort(self.waiting, waiter)
        try:
            yield waiter
        finally:
            if waiter in self.waiting:
                self.waiting.remove(waiter)

    def offer(self, endpoint: str, places: int, takes: Callable[[str], bool]) -> None:
        """So many calls can go there now, of models that it `takes`: the first of those who wait
        for it are told."""
        fit = (w for w in self.waiting if endpoint in w.endpoints and takes(w.model))
        for waiter, _ in list(zip(fit, range(places), strict=False)):
            self.waiting.remove(waiter)
            waiter.offer()
