"""Calls that ended in all the ways in which a call of the demo can end."""

from __future__ import annotations

import itertools

from gateway.demo.decided import Decided
from gateway.demo.observed import Observed
from gateway.demo.plan import ClientMethod, PlannedCall
from gateway.demo.summary import Ended

_numbers = itertools.count()


def call(
    *,
    restricted: bool = False,
    budget_ms: int | None = 1000,
    phase: str = "calm",
    way: ClientMethod = ClientMethod.CHAT,
    marker: str = "",
) -> PlannedCall:
    number = next(_numbers)
    return PlannedCall(
        at_s=0.0,
        phase=phase,
        method=way,
        model="scribe",
        restricted=restricted,
        budget_ms=budget_ms,
        request_id=f"call-{number}",
        trace=f"{number:032x}",
        needles=(marker or f"marker-{number}",),
    )


def decided(
    *tried: str,
    restricted: bool = False,
    reason: str = "onprem_room",
    outcome: str = "served",
    end_reason: str = "",
    price_usd: float = 0.001,
) -> Decided:
    return Decided(
        restricted=restricted,
        reason=reason,
        outcome=outcome,
        end_reason=end_reason or reason,
        latency_critical=False,
        tried=tried,
        cost_usd={zone: price_usd for zone in tried},
    )


def ended(
    made: PlannedCall,
    record: Decided | None,
    *,
    ok: bool = True,
    status: str = "OK",
    took_s: float = 0.1,
    **headers: str,
) -> Ended:
    told = {f"x-spillway-{name}": value for name, value in headers.items()}
    return Ended(Observed(made, ok, status, 0.0, took_s, told), record)


def kept(*, marker: str = "", phase: str = "calm") -> Ended:
    """A restricted call that on-prem answered."""
    record = decided("onprem", restricted=True, reason="restricted")
    made = call(restricted=True, marker=marker, phase=phase)
    return ended(made, record, zone="onprem")


def spilled(reason: str = "spill_queue", *, took_s: float = 0.2, marker: str = "") -> Ended:
    record = decided("cloud", reason=reason)
    return ended(call(marker=marker), record, took_s=took_s, zone="cloud")


def refused() -> Ended:
    """A restricted call while on-prem was down."""
    why = "onprem_unavailable_restricted"
    record = decided(restricted=True, reason="", outcome="shed", end_reason=why)
    return ended(call(restricted=True), record, ok=False, status="503")
