"""Bounded memory that tenants share: each has a shelf of its own, and none can fill another's.

Keys are digests. Room is counted over all shelves; when it is used up, whoever uses more than its
share makes room from its own oldest entries, else whoever uses most.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from gateway.core.deadline import Clock
from gateway.core.structs import value

V = TypeVar("V")


@value
class EvictedEntry:
    """An entry that made room for another before its time."""

    tenant: str
    expires_s: float
    key: bytes = b""


class Shelves(Generic[V]):
    def __init__(self, room: int, keep_s: float, clock: Clock) -> None:
        self._room = room
        self._keep_s = keep_s
        self._clock = clock
        self._shelves: dict[str, OrderedDict[bytes, tuple[float, V]]] = {}
        self._used = 0
        self.holds_any: Callable[[str], bool] = self._shelves.__contains__
        """Whether a tenant has anything there."""

    def __len__(self) -> int:
        return self._used

    def get(self, tenant: str, key: bytes) -> V | None:
        """What was put there, unless its time is over. Looking makes it the last to be lost."""
        shelf = self._shelves.get(tenant)
        entry = None if shelf is None else shelf.get(key)
        if shelf is None or entry is None:
            return None
        if entry[0] <= self._clock():
            self._drop(tenant, key)
            return None
        shelf.move_to_end(key)
        return entry[1]

    def put(self, tenant: str, key: bytes, value: V) -> EvictedEntry | None:
        """Keep a value for `keep_s`. Says what had to go for it, if that was still good."""
        now_s, shelf = self._clock(), self._shelves.get(tenant)
        if shelf is not None and next(iter(shelf.values()))[0] <= now_s:
            self._sweep(tenant, now_s)
            shelf = self._shelves.get(tenant)
        if shelf is None:
            shelf = self._shelves[tenant] = OrderedDict()
        if key in shelf:
            shelf.move_to_end(key)
        else:
            self._used += 1
        shelf[key] = (now_s + self._keep_s, value)
        if self._used <= self._room:
            return None
        lost = self._lose_one(tenant)
        return lost if lost.expires_s > now_s else None

    def _sweep(self, tenant: str, now_s: float) -> None:
        """Drop what is over at the old end; two for each that comes keep up with all that comes."""
        for _ in range(2):
            shelf = self._shelves.get(tenant)
            if not shelf:
                return
            oldest = next(iter(shelf))
            if shelf[oldest][0] > now_s:
                return
            self._drop(tenant, oldest)

    def _lose_one(self, tenant: str) -> EvictedEntry:
        share = max(1, self._room // len(self._shelves))
        if len(self._shelves[tenant]) <= share:
            tenant = max(self._shelves, key=lambda name: len(self._shelves[name]))
        oldest = next(iter(self._shelves[tenant]))
        lost = EvictedEntry(tenant, self._shelves[tenant][oldest][0], oldest)
        self._drop(tenant, oldest)
        return lost

    def _drop(self, tenant: str, key: bytes) -> None:
        shelf = self._shelves[tenant]
        del shelf[key]
        self._used -= 1
        if not shelf:
            del self._shelves[tenant]
