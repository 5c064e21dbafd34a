"""What this process may spend of each budget without asking: slices that the store has leased it.

A call takes from the slices in memory. Only when one is too small does it wait for the store, which
grants what all processes together have left, and less and less of it at once towards the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from gateway.accounting.ledger.database import LedgerDown
from gateway.accounting.ledger.limits import EVERYBODY, BudgetLimits
from gateway.accounting.ledger.store import LeaseGrant, LeaseRequest
from gateway.core.deadline import Clock

VALID_S = 60.0
"""Without word from the store a slice is used no longer than this. Leases run as much longer as the
longest call may take, so what is put aside at the last moment is settled before one expires."""

_TRIES = 3  # others may take what is leased before who asked for it
_REFUSED_S = 1.0  # for so long nobody asks again for more than was refused
Ask = Callable[[Sequence[Sequence[LeaseRequest]], Mapping[str, int]], Awaitable[LeaseGrant]]
Payer = tuple[str, BudgetLimits]
"""A scope, and what it may spend."""


@dataclass(slots=True)
class _Slice:
    granted: int = 0  # as in the store
    taken: int = 0  # put aside for calls under way, or spent and not committed yet
    idle: bool = True  # since the last look
    refused: int = 0
    refused_s: float = float("-inf")
    valid_until_s: float = float("-inf")

    @property
    def free(self) -> int:
        return self.granted - self.taken

    def refuse(self, nano_usd: int, now_s: float) -> None:
        self.refused, self.refused_s = nano_usd, now_s


@dataclass(eq=False, slots=True)
class _Taking:
    """One call that waits for the store."""

    payers: Sequence[Payer]
    nano_usd: int
    short: str | None = None  # None: not answered yet


class Leases:
    """`ask` leases more from the store; it raises LedgerDown."""

    def __init__(self, limits: Mapping[str, BudgetLimits], ask: Ask, clock: Clock) -> None:
        self._limits = {scope: limit for scope, limit in limits.items() if limit}
        self._ask, self._clock = ask, clock
        self._slices: dict[str, _Slice] = {}
        self._waiting: dict[_Taking, None] = {}  # in the order in which they came
        self._asking = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None  # the question that whoever comes now joins
        self.down = False  # the store does not answer: nothing may leave

    def allow(self, limits: Mapping[str, BudgetLimits]) -> None:
        """Other amounts for the same scopes: a call pays where it was put aside."""
        self._limits = {scope: limits[scope] for scope in self._limits}

    def _payers(self, tenant: str) -> list[Payer]:
        payers, limits = [], self._limits
        if EVERYBODY in limits:
            payers.append((EVERYBODY, limits[EVERYBODY]))
        if tenant in limits:
            payers.append((tenant, limits[tenant]))
        return payers

    def has(self, tenant: str, nano_usd: int) -> bool:
        """Whether so much was put aside at once, without asking."""
        return not self._limits or self._takes(self._payers(tenant), nano_usd)

    async def take(self, tenant: str, nano_usd: int) -> str:
        """The scope that has not got so much; empty when it was put aside. All who wait meanwhile
        are asked for together; the store's answer is taken in also when they have given up, so that
        the next call has it. Raises LedgerDown."""
        its = _Taking(self._payers(tenant), nano_usd)
        self._waiting[its] = None
        try:
            for _ in range(_TRIES):
                # guard: B1.late-lease -> await self._question()
                await asyncio.shield(self._question())
                if its.short is not None:
                    break
        except BaseException:  # to release, on cancellation too
            if its.short == "":
                self.settle(tenant, nano_usd, 0)
            raise
        finally:
            self._waiting.pop(its, None)
        if its.short is None:
            raise LedgerDown("what was leased is gone")
        return its.short

    def _question(self) -> asyncio.Task[None]:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._ask_in_turn())
            self._next.add_done_callback(_retrieve)
        return self._next

    async def _ask_in_turn(self) -> None:
        async with self._asking:
            self._next = None  # it asks for those that wait by now
            await self._ask_for_all()

    async def _ask_for_all(self) -> None:
        asking = []
        for its in list(self._waiting):
            if self._takes(its.payers, its.nano_usd):
                self._answer(its, "")
            elif short := self._refused(its.payers, its.nano_usd):
                self._answer(its, short)
            else:
                asking.append(its)
        if not asking:
            return
        requests = [[LeaseRequest(*payer, its.nano_usd) for payer in its.payers] for its in asking]
        since_s = self._clock()
        slices = {w.scope: self._slice(w.scope) for some in requests for w in some}
        free = {
            scope: it.free if since_s < it.valid_until_s else min(0, it.free)
            for scope, it in slices.items()
        }
        granted = await self._ask(requests, free)
        for scope, some in granted.leased.items():
            self._on_lease(scope, some, since_s)
        for its, short in zip(asking, granted.short, strict=True):
            # guard: B1.departed-lease
            if its not in self._waiting:  # it has left
                continue
            if short:
                self._slice(short).refuse(its.nano_usd, self._clock())
                self._answer(its, short)
            elif self._takes(its.payers, its.nano_usd):
                self._answer(its, "")

    def _answer(self, its: _Taking, short: str) -> None:
        its.short = short
        self._waiting.pop(its, None)

    def settle(self, tenant: str, reserved: int, spent: int) -> None:
        """What was not spent is free again; what was, when its entry is committed."""
        if not self._limits:
            return
        for scope, _ in self._payers(tenant):
            lease = self._slice(scope)
            lease.taken += spent - reserved
            if spent < reserved:
                lease.refused_s = float("-inf")

    def committed(self, spent: Mapping[str, int]) -> None:
        """The store has lowered the leases by so much."""
        for scope, nano_usd in spent.items():
            if scope in self._limits:
                lease = self._slice(scope)
                lease.granted = max(0, lease.granted - nano_usd)
                lease.taken -= nano_usd

    def held_on(self, leased: Mapping[str, int], since_s: float) -> None:
        """All that the store, which was asked at `since_s`, knows of. What nothing is left of is
        forgotten, or ten thousand tenants would stay for ever."""
        for scope, its in list(self._slices.items()):
            if scope not in leased and not its.taken:
                del self._slices[scope]
            else:
                self._on_lease(scope, leased.get(scope, 0), since_s)

    def _on_lease(self, scope: str, granted: int, since_s: float) -> None:
        its = self._slice(scope)
        its.granted, its.valid_until_s = granted, since_s + VALID_S

    def asking(self) -> asyncio.Lock:
        """Held while the store is asked of leases: one answer is taken in before the next."""
        return self._asking

    def surplus(self) -> dict[str, int]:
        """What nobody has needed since the last look; the store is told, and tells what is left."""
        surplus = {}
        for scope, its in self._slices.items():
            if its.idle and its.free > 0:
                surplus[scope] = its.free
                its.granted -= its.free
            its.idle = True
        return surplus

    def everything(self) -> dict[str, int]:
        """All that is held, given back at the end."""
        return {scope: its.granted for scope, its in self._slices.items() if its.granted}

    def _slice(self, scope: str) -> _Slice:
        return self._slices.setdefault(scope, _Slice())

    def _takes(self, payers: Sequence[Payer], nano_usd: int) -> bool:
        now_s = self._clock()
        for scope, _ in payers:
            it = self._slice(scope)
            if it.granted - it.taken < nano_usd or now_s >= it.valid_until_s:
                return False
        for scope, _ in payers:
            it = self._slices[scope]
            it.taken += nano_usd
            it.idle = False
        return True

    def _refused(self, payers: Sequence[Payer], nano_usd: int) -> str:
        since_s = self._clock() - _REFUSED_S
        for scope, _ in payers:
            lease = self._slice(scope)
            if lease.refused_s > since_s and nano_usd >= lease.refused and lease.free < nano_usd:
                return scope
        return ""


def _retrieve(question: asyncio.Task[None]) -> None:
    """Those who asked may all have given up; then nobody else reads the error."""
    if not question.cancelled():
        question.exception()
