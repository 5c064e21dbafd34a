"""What a test looks at of limits in memory."""

from __future__ import annotations

from gateway.pipeline.rate_limits import RateLimits
from gateway.pipeline.rate_limits.holder import Holders
from gateway.pipeline.rate_limits.store import MemoryLimitStore


def holders(limits: RateLimits) -> Holders:
    assert isinstance(limits._store, MemoryLimitStore)
    return limits._store.holders
