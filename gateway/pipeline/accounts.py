"""What the accounts of all calls share, and how many of them are open."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from gateway.accounting.ledger.entry import Entry
from gateway.accounting.measures import measures_for
from gateway.accounting.metrics import Metrics
from gateway.accounting.records import DecisionLog
from gateway.core import ambient
from gateway.core.deadline import Clock

_log = logging.getLogger(__package__)


class LedgerPort(Protocol):
    def post(self, entry: Entry) -> None:
        """Neither waits nor raises."""
        ...


class Accounts:
    """What each `CallAccount` writes to, and the count of the open ones."""

    def __init__(
        self,
        log: DecisionLog,
        metrics: Metrics,
        clock: Clock,
        policy: str,
        ledger: LedgerPort | None = None,
        before_dispatch: bool = False,
    ) -> None:
        """`policy`: the hash of the settings. `before_dispatch`: what is about to leave waits until
        it is on record."""
        self.ledger = ledger
        self.before_dispatch = before_dispatch
        self.log = log
        self.metrics = metrics
        self.clock = clock
        self.policy = policy
        self.wall_s = ambient.calendar()
        self.measures = measures_for(metrics)
        self.debug = _log.isEnabledFor(logging.DEBUG)
        self.open_calls = 0
        self.awaited: asyncio.Event | None = None  # by who waits in `quiet`

    def wake(self) -> None:
        """Whoever waits in `quiet`, once no call is open."""
        if self.awaited is not None and not self.open_calls:
            self.awaited.set()
            self.awaited = None

    async def quiet(self) -> None:
        """Returns once no call is open."""
        if self.open_calls:
            if self.awaited is None:
                self.awaited = asyncio.Event()
            await self.awaited.wait()
