"""Whether a tenant's calls may leave now, and the money for each that does."""

from __future__ import annotations

from gateway.deadline import Clock
from gateway.errors import SpillClosed
from gateway.spill.budget import Reserved, SpillBudgets
from gateway.spill.stop import SpillStop

_RETRY_S = 2.0  # the cloud may stay closed for the day, but on-prem may have room by then


class SpillControl:
    def __init__(self, stop: SpillStop, budgets: SpillBudgets) -> None:
        self._stop = stop
        self.budgets = budgets

    @classmethod
    def unlimited(cls, clock: Clock) -> SpillControl:
        return cls(SpillStop(None, clock), SpillBudgets(None, {}, clock))

    @property
    def stop(self) -> SpillStop:
        return self._stop

    def closed(self, tenant: str) -> str:
        """Why no call of this tenant may leave now; empty when one may."""
        return "spill_stopped" if self._stop.on else self.budgets.closed(tenant)

    def reserve(self, tenant: str, expected_usd: float) -> Reserved:
        """Asked when a call is about to leave: much may have happened since it was decided on.
        Raises SpillClosed."""
        why = self.closed(tenant)
        reserved = None if why else self.budgets.reserve(tenant, expected_usd)
        if reserved is None:
            raise SpillClosed(
                "the cloud is closed to this call: its budget is used up, or it was stopped",
                reason=why or "spill_budget",
                retry_after_s=_RETRY_S,
            )
        return reserved
