"""What a key, and all keys of a tenant together, may use: requests and tokens in a minute, and
calls at once (B6).

A call is refused at once or takes its part of everything at once; nothing waits here. Tokens are
taken by estimate and put right when the call has ended and somebody has counted them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.core.deadline import Clock
from gateway.core.errors import OverConcurrency, OverLimit, OverTokenLimit
from gateway.core.types import InferenceRequest, Quota
from gateway.pipeline.rate_limits import estimate, headers
from gateway.pipeline.rate_limits.holder import Holder, What
from gateway.pipeline.rate_limits.store import LimitStore, MemoryLimitStore

_MESSAGES: dict[str, str] = {
    "requests": "this {kind} has made as many requests as it may in a minute",
    "tokens": "this {kind} has used as many tokens as it may in a minute",
    "concurrent": "this {kind} has as many calls at once as it may",
}
_ERRORS: dict[str, type[OverLimit]] = {
    "requests": OverLimit,
    "tokens": OverTokenLimit,
    "concurrent": OverConcurrency,
}


class RateLimits:
    """One set of rules, whoever shares the store."""

    def __init__(
        self,
        clock: Clock,
        on_refusal: Callable[[Quota, str], None] = lambda quota, what: None,
        store: LimitStore | None = None,
    ) -> None:
        self._clock = clock
        self._on_refusal = on_refusal
        self._store = store or MemoryLimitStore(clock)

    def enter(self, request: InferenceRequest) -> QuotaReservation:
        """Raises OverLimit or Saturated, and has taken nothing then."""
        if not request.quotas:
            return NOTHING
        with self._store:
            now_s = self._clock()
            holders, tokens = self._find_holders(request, now_s)
            if (short := _short(holders, tokens, now_s)) is not None:
                self._on_refusal(short[0].quota, short[1])
                raise self._refused(holders, *short)
            for holder in holders:
                holder.take(tokens, now_s)
            for holder in holders:
                self._store.keep(holder)
        return QuotaReservation(tuple(holders), tokens, self._clock, self._store)

    def check(self, request: InferenceRequest) -> None:
        """Raises OverLimit if `enter` would now; takes nothing, and nobody is told."""
        if not request.quotas:
            return
        with self._store:
            now_s = self._clock()
            holders, tokens = self._find_holders(request, now_s)
            if (short := _short(holders, tokens, now_s)) is not None:
                raise self._refused(holders, *short)

    def _find_holders(self, request: InferenceRequest, now_s: float) -> tuple[list[Holder], float]:
        """Who pays for the call, and how many tokens it may come to."""
        holders = [self._store.holder(quota, now_s) for quota in request.quotas]
        return holders, estimate.tokens(request) if any(h.tokens for h in holders) else 0.0

    def _refused(
        self, holders: list[Holder], holder: Holder, what: What, wait_s: float
    ) -> OverLimit:
        message = _MESSAGES[what].format(kind=holder.quota.kind)
        error = _ERRORS[what](message, retry_after_s=wait_s)
        error.extra_headers = _limit_headers(holders, self._clock())
        return error


@dataclass(slots=True)
class QuotaReservation:
    """What one call holds of its quotas. Settled exactly once."""

    holders: tuple[Holder, ...]
    tokens: float
    clock: Clock
    store: LimitStore | None
    settled: bool = False

    def settle(self, used: int | None, tried: bool) -> None:
        """`used`: tokens, once somebody has counted them. Where nobody has, the estimate stands for
        a call that was sent anywhere."""
        if self.settled:  # guard: B6.single-release
            return
        self.settled = True
        counted = used if used is not None else (self.tokens if tried else 0.0)
        if self.store is not None:
            self.store.give_back(self.holders, self.tokens - counted)

    def headers(self) -> Mapping[str, str]:
        return _limit_headers(self.holders, self.clock()) if self.holders else {}


def _short(holders: list[Holder], tokens: float, now_s: float) -> tuple[Holder, What, float] | None:
    """The first that has too little, of what, and for how long."""
    for holder in holders:
        if (short := holder.short(tokens, now_s)) is not None:
            return holder, *short
    return None


def _limit_headers(holders: tuple[Holder, ...] | list[Holder], now_s: float) -> Mapping[str, str]:
    return {
        headers.POLICY: ", ".join([holder.policy for holder in holders]),
        headers.LEFT: ", ".join([holder.remains(now_s) for holder in holders]),
    }


NOTHING = QuotaReservation((), 0.0, lambda: 0.0, None, settled=True)
