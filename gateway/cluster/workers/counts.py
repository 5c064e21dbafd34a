"""Who is inside and what of each limit is used, counted over all workers.

The rules are those of one process (`gateway.pipeline.admission`, `gateway.pipeline.rate_limits`);
here they are given the numbers of all, within the lock, and what they make of them is written back.
While nobody can say what the others have let in, whoever has a limit is refused: a limit is never
had twice.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from gateway.cluster.workers.memory import Memory, Unshared
from gateway.cluster.workers.slots import Slots
from gateway.config import LimitSettings
from gateway.core.deadline import Clock
from gateway.core.errors import Draining, Saturated
from gateway.core.types import InferenceRequest, Quota
from gateway.pipeline.admission import Admission
from gateway.pipeline.rate_limits import NOTHING, Holder, QuotaReservation, RateLimits

log = logging.getLogger(__name__)

_RETRY_S = 1.0
_EVERYBODY = "\0"  # no name of a limit begins with it
_NONE = (0.0, 0.0, 0.0, 0.0)


class SharedAdmission(Admission):
    """`inside` is this worker's own; what is refused over is what all have."""

    def __init__(
        self, limits: LimitSettings, memory: Memory, slots: Slots, worker: int, clock: Clock
    ) -> None:
        super().__init__(limits)
        self._memory, self._slots = memory, slots
        self._worker, self._clock = worker, clock
        self._left: deque[str] = deque()  # tenants of calls that ended and were not taken out yet

    def check(self, request: InferenceRequest) -> None:
        self._refuse_draining()
        try:
            with self._memory:
                self._read_counts(request.tenant)
        except Unshared:
            raise _unknown() from None

    def enter(self, request: InferenceRequest) -> Callable[[], None]:
        self._refuse_draining()
        tenant, slots = request.tenant, self._slots
        try:
            with self._memory:
                self._take_out()
                for at in self._read_counts(tenant):
                    slots.add(at, self._worker, 1)
        except Unshared:
            raise _unknown() from None
        self.inside += 1

        def leave() -> None:
            self.inside -= 1
            self._left.append(tenant)
            try:
                with self._memory:
                    self._take_out()
            except Unshared:
                return  # it counts as inside until somebody can say that it is not

        return leave

    def _read_counts(self, tenant: str) -> tuple[int, int]:
        """Where everybody and the tenant are counted. Raises Saturated."""
        now_s, slots = self._clock(), self._slots
        everybody = slots.find(_EVERYBODY, now_s)
        if slots.numbers(everybody) is None:
            slots.write(everybody, math.inf, _NONE)  # the tenant's place is another
        # guard: O5.separate-slots -> own = slots.find(f'tenant {tenant}', now_s)
        own = slots.find(_EVERYBODY + tenant, now_s)
        # guard: O5.shared-admission -> self._refuse_over(self.inside, 0)
        self._refuse_over(slots.inside(everybody), slots.inside(own))
        return everybody, own

    def _refuse_draining(self) -> None:
        if self.draining:
            raise Draining("this gateway is stopping; call again", retry_after_s=_RETRY_S)

    def _refuse_over(self, inside: int, own_count: int) -> None:
        if inside >= self.limits.max_concurrent:
            raise Saturated("too many calls at once in this gateway", retry_after_s=_RETRY_S)
        if own_count >= self.limits.max_concurrent_per_tenant:
            raise Saturated(
                "too many calls at once of this tenant",
                reason="tenant_saturated",
                retry_after_s=_RETRY_S,
            )

    def _take_out(self) -> None:
        now_s, slots = self._clock(), self._slots
        while self._left:
            for name in (_EVERYBODY, _EVERYBODY + self._left[0]):
                slots.add(slots.find(name, now_s), self._worker, -1)
            self._left.popleft()


class SharedLimits(RateLimits):
    def __init__(
        self,
        clock: Clock,
        on_refusal: Callable[[Quota, str], None],
        memory: Memory,
        slots: Slots,
        worker: int,
    ) -> None:
        super().__init__(clock, on_refusal)
        self._memory, self._slots, self._worker = memory, slots, worker
        self._leaving: deque[tuple[Holder, float]] = deque()

    def enter(self, request: InferenceRequest) -> QuotaReservation:
        if not request.quotas:
            return NOTHING
        try:
            with self._memory:
                self._leave()
                share = super().enter(request)
                for holder in share.holders:
                    self._write(holder, 1)  # guard: O5.shared-use
        except Unshared:
            raise _unknown() from None
        return _SharedShare(share.holders, share.tokens, share.clock, limits=self)

    def check(self, request: InferenceRequest) -> None:
        try:
            with self._memory:
                super().check(request)
        except Unshared:
            raise _unknown() from None

    def left(self, holder: Holder, give_back: float) -> None:
        """A call has ended. What cannot be written now is with the next that enters, and counts
        as used until then."""
        self._leaving.append((holder, give_back))

    def settle(self) -> None:
        try:
            with self._memory:
                self._leave()
        except Unshared:
            log.warning("what a call leaves of its limits is given back later")

    def _holder(self, quota: Quota, now_s: float) -> Holder:
        holder = super()._holder(quota, now_s)
        self._read(holder, now_s)  # guard: O5.shared-limit
        return holder

    def _leave(self) -> None:
        while self._leaving:
            holder, give_back = self._leaving[0]
            now_s = self._clock()
            self._read(holder, now_s)
            holder.left(give_back, now_s)
            self._write(holder, -1)
            self._leaving.popleft()

    def _read(self, holder: Holder, now_s: float) -> None:
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


@dataclass(slots=True, kw_only=True)
class _SharedShare(QuotaReservation):
    limits: SharedLimits

    def settle(self, used: int | None, tried: bool) -> None:
        if self.settled:
            return
        self.settled = True
        give_back = self.tokens - self.counted(used, tried)
        for holder in self.holders:
            self.limits.left(holder, give_back)
        self.limits.settle()


def _unknown() -> Saturated:
    return Saturated(
        "what the workers of this gateway have in common cannot be read now",
        reason="workers_unknown",
        retry_after_s=_RETRY_S,
    )
