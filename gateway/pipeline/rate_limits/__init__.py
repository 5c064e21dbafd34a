"""What a key, and all keys of a tenant together, may use: requests and tokens in a minute, and
calls at once (B6).

A call is refused at once or takes its part of everything at once; nothing waits here. Tokens are
taken by estimate and put right when the call has ended and somebody has counted them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.core.deadline import Clock
from gateway.core.errors import OverConcurrency, OverLimit, OverTokenLimit
from gateway.core.types import InferenceRequest, Quota
from gateway.pipeline.rate_limits import estimate, headers
from gateway.pipeline.rate_limits.bucket import Bucket

_WINDOW_S = 60
_BUSY_RETRY_S = 1.0  # nobody knows when a call of the same key ends
_SWEEP_AT = 1024

What = Literal["requests", "tokens", "concurrent"]
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
    """Plain numbers on one event loop."""

    def __init__(
        self, clock: Clock, on_refusal: Callable[[Quota, str], None] = lambda quota, what: None
    ) -> None:
        self._clock = clock
        self._on_refusal = on_refusal
        self._holders: dict[str, Holder] = {}
        self._sweep_at = _SWEEP_AT

    def enter(self, request: InferenceRequest) -> QuotaReservation:
        """Raises OverLimit, and has taken nothing then."""
        if not request.quotas:
            return NOTHING
        now_s = self._clock()
        holders, tokens = self._find_holders(request, now_s)
        if (short := _short(holders, tokens, now_s)) is not None:
            self._on_refusal(short[0].quota, short[1])
            raise self._refused(holders, *short)
        for holder in holders:
            holder.take(tokens, now_s)
        return QuotaReservation(tuple(holders), tokens, self._clock)

    def check(self, request: InferenceRequest) -> None:
        """Raises OverLimit if `enter` would now; takes nothing, and nobody is told."""
        now_s = self._clock()
        holders, tokens = self._find_holders(request, now_s)
        if (short := _short(holders, tokens, now_s)) is not None:
            raise self._refused(holders, *short)

    def _find_holders(self, request: InferenceRequest, now_s: float) -> tuple[list[Holder], float]:
        """Who pays for the call, and how many tokens it may come to."""
        holders = [self._holder(quota, now_s) for quota in request.quotas]
        return holders, estimate.tokens(request) if any(h.tokens for h in holders) else 0.0

    def __len__(self) -> int:
        """Of how many keys and tenants something is remembered."""
        return len(self._holders)

    def _refused(
        self, holders: list[Holder], holder: Holder, what: What, wait_s: float
    ) -> OverLimit:
        message = _MESSAGES[what].format(kind=holder.quota.kind)
        error = _ERRORS[what](message, retry_after_s=wait_s)
        error.extra_headers = _limit_headers(holders, self._clock())
        return error

    def _holder(self, quota: Quota, now_s: float) -> Holder:
        holder = self._holders.get(quota.holder)
        if holder is None:
            if len(self._holders) >= self._sweep_at:
                self._sweep(now_s)
            holder = self._holders[quota.holder] = Holder(quota, now_s)
        elif holder.quota != quota:
            holder.changed(quota, now_s)
        return holder

    def _sweep(self, now_s: float) -> None:
        """Forgets whoever has not used anything for a minute: then there is nothing to know."""
        self._holders = {key: h for key, h in self._holders.items() if not h.rests(now_s)}
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._holders))


class Holder:
    """One quota, and what of it is in use."""

    __slots__ = ("inside", "policy", "quota", "requests", "tokens")

    def __init__(self, quota: Quota, now_s: float) -> None:
        self.inside = 0
        self.requests: Bucket | None = None
        self.tokens: Bucket | None = None
        self.changed(quota, now_s)

    def changed(self, quota: Quota, now_s: float) -> None:
        """It may use so much from now on. What it has used stays used, or to change a limit would
        be to grant it twice."""
        self.quota = quota
        self.requests = _refilled(self.requests, quota.requests_per_minute, now_s)
        self.tokens = _refilled(self.tokens, quota.tokens_per_minute, now_s)
        self.policy = _policy(quota)

    def short(self, tokens: float, now_s: float) -> tuple[What, float] | None:
        """Of what there is too little, and for how long."""
        most = self.quota.concurrent
        if most is not None and self.inside >= most:  # guard: B6.concurrency-limit
            return "concurrent", _BUSY_RETRY_S
        # guard: B6.request-limit
        if self.requests is not None and (wait_s := self.requests.short_s(1.0, now_s)) > 0:
            return "requests", wait_s
        if self.tokens is not None and tokens:
            wait_s = self.tokens.short_s(tokens, now_s)
            # guard: B6.token-limit -> return None
            return ("tokens", wait_s) if wait_s > 0 else None
        return None

    def take(self, tokens: float, now_s: float) -> None:
        self.inside += 1
        if self.requests is not None:
            self.requests.take(1.0, now_s)
        if self.tokens is not None:
            self.tokens.take(tokens, now_s)

    def left(self, give_back: float, now_s: float) -> None:
        self.inside -= 1
        if self.tokens is not None:
            self.tokens.take(-give_back, now_s)

    def rests(self, now_s: float) -> bool:
        buckets = (b for b in (self.requests, self.tokens) if b is not None)
        return self.inside == 0 and all(b.full_s(now_s) <= 0 for b in buckets)

    def remains(self, now_s: float) -> str:
        """What is left of each limit, in the order of `policy`."""
        kind, parts = self.quota.kind, []
        if (requests := self.requests) is not None:
            level, whole_s = requests.level(now_s), requests.full_s(now_s)
            parts.append(headers.left(f"{kind}-requests", level, whole_s))
        if (tokens := self.tokens) is not None:
            level, whole_s = tokens.level(now_s), tokens.full_s(now_s)
            parts.append(headers.left(f"{kind}-tokens", level, whole_s))
        if (most := self.quota.concurrent) is not None:
            parts.append(headers.left(f"{kind}-concurrent", most - self.inside))
        return ", ".join(parts)


@dataclass(slots=True)
class QuotaReservation:
    """What one call holds of its quotas. Settled exactly once."""

    holders: tuple[Holder, ...]
    tokens: float
    clock: Clock
    settled: bool = False

    def settle(self, used: int | None, tried: bool) -> None:
        """`used`: tokens, once somebody has counted them. Where nobody has, the estimate stands for
        a call that was sent anywhere."""
        if self.settled:  # guard: B6.single-release
            return
        self.settled = True
        give_back, now_s = self.tokens - self.counted(used, tried), self.clock()
        for holder in self.holders:
            holder.left(give_back, now_s)

    def counted(self, used: int | None, tried: bool) -> float:
        return used if used is not None else (self.tokens if tried else 0.0)

    def headers(self) -> Mapping[str, str]:
        return _limit_headers(self.holders, self.clock()) if self.holders else {}


def _short(holders: list[Holder], tokens: float, now_s: float) -> tuple[Holder, What, float] | None:
    """The first that has too little, of what, and for how long."""
    for holder in holders:
        if (short := holder.short(tokens, now_s)) is not None:
            return holder, *short
    return None


def _refilled(before: Bucket | None, most: float | None, now_s: float) -> Bucket | None:
    if most is None:
        return None
    bucket = Bucket(most, now_s)
    if before is not None:
        bucket.take(before.most - before.level(now_s), now_s)  # guard: O2.quota-carryover
    return bucket


def _limit_headers(holders: tuple[Holder, ...] | list[Holder], now_s: float) -> Mapping[str, str]:
    return {
        headers.POLICY: ", ".join([holder.policy for holder in holders]),
        headers.LEFT: ", ".join([holder.remains(now_s) for holder in holders]),
    }


def _policy(quota: Quota) -> str:
    kind, parts = quota.kind, []
    if (requests := quota.requests_per_minute) is not None:
        parts.append(headers.policy(f"{kind}-requests", requests, window_s=_WINDOW_S))
    if (tokens := quota.tokens_per_minute) is not None:
        parts.append(headers.policy(f"{kind}-tokens", tokens, "tokens", _WINDOW_S))
    if (most := quota.concurrent) is not None:
        parts.append(headers.policy(f"{kind}-concurrent", most, "concurrent-requests"))
    return ", ".join(parts)


NOTHING = QuotaReservation((), 0.0, lambda: 0.0, settled=True)
