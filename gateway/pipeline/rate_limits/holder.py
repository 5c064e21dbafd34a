"""What a key, or all keys of a tenant together, may use and has used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from gateway.core.types import Quota
from gateway.pipeline.rate_limits import headers
from gateway.pipeline.rate_limits.bucket import Bucket

_WINDOW_S = 60
_BUSY_RETRY_S = 1.0  # nobody knows when a call of the same key ends
_SWEEP_AT = 1024

What = Literal["requests", "tokens", "concurrent"]


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


class Holders:
    """By name, those of which something is worth knowing."""

    def __init__(self) -> None:
        self._by_name: dict[str, Holder] = {}
        self._sweep_at = _SWEEP_AT

    def get(self, quota: Quota, now_s: float) -> Holder:
        holder = self._by_name.get(quota.holder)
        if holder is None:
            if len(self._by_name) >= self._sweep_at:
                self._sweep(now_s)
            holder = self._by_name[quota.holder] = Holder(quota, now_s)
        elif holder.quota != quota:
            holder.changed(quota, now_s)
        return holder

    def __getitem__(self, name: str) -> Holder:
        return self._by_name[name]

    def __iter__(self) -> Iterator[Holder]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def _sweep(self, now_s: float) -> None:
        """Forgets whoever has not used anything for a minute: then there is nothing to know."""
        self._by_name = {name: h for name, h in self._by_name.items() if not h.rests(now_s)}
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._by_name))


def _refilled(before: Bucket | None, most: float | None, now_s: float) -> Bucket | None:
    if most is None:
        return None
    bucket = Bucket(most, now_s)
    if before is not None:
        bucket.take(before.most - before.level(now_s), now_s)  # guard: O2.quota-carryover
    return bucket


def _policy(quota: Quota) -> str:
    kind, parts = quota.kind, []
    if (requests := quota.requests_per_minute) is not None:
        parts.append(headers.policy(f"{kind}-requests", requests, window_s=_WINDOW_S))
    if (tokens := quota.tokens_per_minute) is not None:
        parts.append(headers.policy(f"{kind}-tokens", tokens, "tokens", _WINDOW_S))
    if (most := quota.concurrent) is not None:
        parts.append(headers.policy(f"{kind}-concurrent", most, "concurrent-requests"))
    return ", ".join(parts)
