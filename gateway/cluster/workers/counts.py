"""What of each limit all workers use, in their memory.

While nobody can say what the others have let in, whoever has a limit is refused: a limit is never
had twice.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Sequence

from gateway.cluster.workers.memory import Memory, Unshared
from gateway.cluster.workers.slots import Slots
from gateway.core.deadline import Clock
from gateway.core.errors import Saturated
from gateway.core.types import Quota
from gateway.pipeline.rate_limits.holder import Holder, Holders

log = logging.getLogger(__name__)

_RETRY_S = 1.0
_EVERYBODY = "\0"  # no name of a limit begins with it
_NONE = (0.0, 0.0, 0.0, 0.0)


class SharedLimitStore:
    """A `LimitStore`, as one worker has it."""

    def __init__(self, memory: Memory, slots: Slots, worker: int, clock: Clock) -> None:
        self._memory, self._slots = memory, slots
        self._worker, self._clock = worker, clock
        self._holders = Holders()
        self._left: deque[str] = deque()  # tenants of calls that ended and were not taken out yet
        self._leaving: deque[tuple[Holder, float]] = deque()
        """What ended calls give back, and could not yet: it counts as used until then."""

    def enter(self, tenant: str, most: int, tenant_most: int) -> tuple[int, int]:
        with self:
            self._take_out()
            everybody, own = self._counts(tenant)
            if everybody < most and own < tenant_most:
                self._move(tenant, 1)
        return everybody, own

    def inside(self, tenant: str) -> tuple[int, int]:
        with self:
            return self._counts(tenant)

    def leave(self, tenant: str) -> None:
        self._left.append(tenant)
        try:
            with self:
                self._take_out()
        except Saturated:
            return  # it counts as inside until somebody can say that it is not

    def __enter__(self) -> None:
        try:
            self._memory.__enter__()
        except Unshared:
            raise _unknown() from None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._memory.__exit__()
        if isinstance(error, Unshared):
            raise _unknown() from None

    def holder(self, quota: Quota, now_s: float) -> Holder:
        self._give_back()
        holder = self._holders.get(quota, now_s)
        self._load(holder, now_s)  # guard: O5.shared-limit
        return holder

    def keep(self, holder: Holder) -> None:
        self._write(holder, 1)  # guard: O5.shared-use

    def give_back(self, holders: Sequence[Holder], tokens: float) -> None:
        self._leaving += [(holder, tokens) for holder in holders]
        try:
            with self:
                self._give_back()
        except Saturated:
            log.warning("what a call leaves of its limits is given back later")

    def _give_back(self) -> None:
        while self._leaving:
            holder, tokens = self._leaving[0]
            now_s = self._clock()
            self._load(holder, now_s)
            holder.left(tokens, now_s)
            self._write(holder, -1)
            self._leaving.popleft()

    def _load(self, holder: Holder, now_s: float) -> None:
        at = self._slots.find(holder.quota.holder, now_s)
        holder.inside = self._slots.inside(at)
        numbers = self._slots.numbers(at)
        for i, bucket in enumerate((holder.requests, holder.tokens)):
            if bucket is None:
                continue
            if numbers is None:  # nobody has used anything of it lately
                bucket.be(0.0, now_s)
            else:
                bucket.be(numbers[2 * i], numbers[2 * i + 1])

    def _write(self, holder: Holder, calls: int) -> None:
        now_s = self._clock()
        at = self._slots.find(holder.quota.holder, now_s)
        full_s, used = 0.0, [0.0, 0.0]
        for i, bucket in enumerate((holder.requests, holder.tokens)):
            if bucket is not None:
                full_s = max(full_s, bucket.full_s(now_s))
                # guard: O5.limit-change -> used[i] = 0.0
                used[i] = bucket.most - bucket.level(now_s)
        self._slots.write(at, now_s + full_s, (used[0], now_s, used[1], now_s))
        self._slots.add(at, self._worker, calls)

    def _take_out(self) -> None:
        while self._left:
            self._move(self._left[0], -1)
            self._left.popleft()

    def _counts(self, tenant: str) -> tuple[int, int]:
        everybody, own = self._places(tenant)
        # guard: O5.shared-admission -> return 0, 0
        return self._slots.inside(everybody), self._slots.inside(own)

    def _move(self, tenant: str, calls: int) -> None:
        for at in self._places(tenant):
            self._slots.add(at, self._worker, calls)

    def _places(self, tenant: str) -> tuple[int, int]:
        """Where everybody and the tenant are counted."""
        now_s, slots = self._clock(), self._slots
        everybody = slots.find(_EVERYBODY, now_s)
        if slots.numbers(everybody) is None:
            slots.write(everybody, math.inf, _NONE)  # the tenant's place is another
        # guard: O5.separate-slots -> own = slots.find(f'tenant {tenant}', now_s)
        own = slots.find(_EVERYBODY + tenant, now_s)
        return everybody, own


def _unknown() -> Saturated:
    return Saturated(
        "what the workers of this gateway have in common cannot be read now",
        reason="workers_unknown",
        retry_after_s=_RETRY_S,
    )
