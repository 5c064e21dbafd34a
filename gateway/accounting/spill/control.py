"""Whether a tenant's calls may leave now, and the money for each that does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gateway.accounting.ledger.database import LedgerDown
from gateway.accounting.ledger.limits import EVERYBODY, BudgetLimits
from gateway.accounting.pricing import tariff
from gateway.accounting.spill.budget import Leased, Reservation, SpillBudgets
from gateway.accounting.spill.stop import SpillStop
from gateway.core.deadline import Clock, Deadline
from gateway.core.errors import SpillClosed
from gateway.core.types import InferenceRequest, ServedModel

_RETRY_S = 2.0  # the cloud may stay closed for the day, but on-prem may have room by then
LEASE_WAIT_S = 0.05
"""For the ledger's answer. Leases are taken ahead, so a call seldom waits; each one would while the
ledger does not answer."""


class SpillControl:
    def __init__(
        self,
        stop: SpillStop,
        budgets: SpillBudgets,
        allowed: bool = True,
        lease_wait_s: float = LEASE_WAIT_S,
    ) -> None:
        """`allowed`: whether the settings let calls leave. Only the door asks that: for decisions
        it is their policy's matter, and a shadow has another one. `lease_wait_s`: how long a call
        may wait for the ledger's answer."""
        self._stop = stop
        self._allowed = allowed
        self._lease_wait_s = lease_wait_s
        self.budgets = budgets
        self.leases: Leased | None = None  # without a ledger this process is alone

    @classmethod
    def unlimited(cls, clock: Clock) -> SpillControl:
        return cls(SpillStop(None, clock), SpillBudgets(BudgetLimits(), {}, clock))

    @property
    def stop(self) -> SpillStop:
        return self._stop

    def follow(
        self, stop: SpillStop, limits: Mapping[str, BudgetLimits], allowed: bool = True
    ) -> None:
        """Another switch, and other amounts for those who have a budget: for calls under way too,
        as it is the operator who closes the cloud and not the policy of a call."""
        self._stop = stop
        self._allowed = allowed
        self.budgets.allow(limits)
        if self.leases is not None:
            self.leases.allow(limits)

    @property
    def open(self) -> bool:
        """Whether calls of anybody may leave now."""
        return self._allowed and not self.closed("")

    def closed(self, tenant: str) -> str:
        """Why no call of this tenant may leave now; empty when one may."""
        why = self._stopped()
        if why or not self.budgets.limited:
            return why
        return self.budgets.closed(tenant)

    def _stopped(self) -> str:
        """Why no call at all may leave."""
        if self._stop.file is not None and self._stop.on:  # guard: S5.kill-file
            return "spill_stopped"
        if self.leases is not None and self.leases.down:  # guard: B1.ledger-down
            return "ledger_down"
        return ""

    def reserve_for(self, request: InferenceRequest, served: ServedModel) -> Reservation:
        """For an attempt in the cloud, as much as it can cost. Raises SpillClosed."""
        if not self.budgets.limited:
            return self.reserve(request.tenant, 0)
        # guard: B1.cost-reserve -> return self.reserve(request.tenant, 0)
        return self.reserve(request.tenant, tariff.at_most(request, served))

    def reserve(self, tenant: str, expected: int) -> Reservation:
        """Asked when a call is about to leave: much may have happened since it was decided on. One
        that is not `leased` has to wait for that. Raises SpillClosed."""
        # guard: S5.live-settings -> why = self._stopped()
        why = self._stopped() if self._allowed else "spill_off"
        if not why and not self.budgets.limited:
            return self.budgets.unlimited
        reserved = None if why else self.budgets.reserve(tenant, expected)
        if reserved is None:
            raise _closed(why or self.budgets.closed(tenant) or "spill_budget")
        # guard: B1.door-leases
        if self.leases is not None and not self.leases.has(tenant, expected):
            reserved.leased = False
        else:
            reserved.leases = self.leases
        return reserved

    async def lease(self, reserved: Reservation, deadline: Deadline) -> None:
        """Of the ledger, what this process has not got. Raises SpillClosed."""
        leases = self.leases
        if reserved.leased or leases is None:
            return
        try:
            why = await self._leased(leases, reserved.tenant, reserved.expected, deadline)
        except BaseException:  # to release, on cancellation too
            reserved.settle(0)
            raise
        if why:
            reserved.settle(0)
            raise _closed(why)
        reserved.leased, reserved.leases = True, leases

    async def _leased(self, leases: Leased, tenant: str, expected: int, deadline: Deadline) -> str:
        try:
            # guard: B1.lease-wait -> async with asyncio.timeout(max(0.0, deadline.remaining_s())):
            async with asyncio.timeout(max(0.0, min(self._lease_wait_s, deadline.remaining_s()))):
                short = await leases.take(tenant, expected)
        except (TimeoutError, LedgerDown):
            return "ledger_down"
        if not short:
            return ""
        return "spill_budget" if short == EVERYBODY else "tenant_spill_budget"


def _closed(why: str) -> SpillClosed:
    return SpillClosed(
        "the cloud is closed to this call: its budget is used up, it was stopped or the settings "
        "let nothing leave, or the ledger cannot be written",
        reason=why,
        retry_after_s=_RETRY_S,
    )
