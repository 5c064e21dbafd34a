"""Entries to write, and a calendar to hold in the hand."""

from __future__ import annotations

from gateway.accounting.ledger.entry import Entry
from gateway.accounting.pricing import nano
from gateway.core.types import Zone

NOON_S = 1_764_763_200.0  # 2025-12-03 12:00 UTC
DAY_S = 86400.0


class WallClock:
    def __init__(self) -> None:
        self.now_s = NOON_S

    def __call__(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds


_ABROAD = Entry(
    at_s=NOON_S, call="c1", tenant="ward", model="chat", endpoint="provider", zone=Zone.CLOUD.name,
    reason="spill_deadline", result="served", restricted=0, nano_usd=nano(1.0),
)  # fmt: skip


def abroad(usd: float = 1.0, **other: object) -> Entry:
    return _ABROAD._replace(nano_usd=nano(usd), **other)  # type: ignore[arg-type]


def at_home(usd: float = 0.1, busy_s: float = 1.0, **other: object) -> Entry:
    told = {
        "zone": Zone.ONPREM.name,
        "endpoint": "gpu",
        "reason": "onprem_room",
        "gpu_ns": int(busy_s * 1e9),
        **other,
    }
    return _ABROAD._replace(nano_usd=nano(usd), **told)  # type: ignore[arg-type]
